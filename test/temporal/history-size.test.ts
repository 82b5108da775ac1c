import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const MB = 1_000_000;
const State = Annotation.Root({
  text: Annotation<string>(),
  parts: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  round: Annotation<number>(),
});
const big = new StateGraph(State)
  .addNode('grow', ({ round }) => ({ parts: [String(round).repeat(MB)] }))
  .addNode('ask', ({ round }) => ({ text: String(interrupt({ round, context: 'c'.repeat(300_000) })) }))
  .addNode('fail', ({ round }) => {
    if (round === 4) throw new Error('e'.repeat(200_000));
    return {};
  })
  .addEdge(START, 'grow')
  .addEdge('grow', 'ask')
  .addEdge('ask', 'fail')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ big });
});
afterAll(() => at.close());

test('the history of a thread with 5 MB of state, 3 MB of input and large answers stays below 100 kB', async () => {
  const thread_id = crypto.randomUUID();
  for (let round = 1; round <= 5; round += 1) {
    const input = { text: 'i'.repeat(round === 1 ? 3 * MB : 1_000), round };
    const asked = await at.client.run({
      graph: 'big',
      thread_id,
      input,
      config: { metadata: { note: 'm'.repeat(10_000) } },
    });
    expect(asked.interrupts?.length).toBe(1);
    const { run_id } = await at.client.answer(thread_id, 'a'.repeat(500_000));
    const ended = await at.client.waitForRun(run_id);
    expect(ended.status).toBe(round === 4 ? 'error' : 'success');
    if (round === 5) expect(JSON.stringify(ended.values).length).toBeGreaterThan(5 * MB);
  }
  const { historyLength, historySize } = await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', thread_id))
    .describe();
  expect(historyLength).toBeGreaterThan(30);
  expect(historySize).toBeGreaterThan(1_000);
  expect(historySize).toBeLessThan(100_000);
});
