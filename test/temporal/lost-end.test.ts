import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { refuseWrites, type RefusedWrites } from '../support/database-faults.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const ran: string[] = [];
const node = (name: string) => () => {
  ran.push(name);
  return { log: [name] };
};

const chain = new StateGraph(State)
  .addNode('a', node('a'))
  .addNode('b', node('b'))
  .addNode('c', node('c'))
  .addEdge(START, 'a')
  .addEdge('a', 'b')
  .addEdge('b', 'c')
  .addEdge('c', END);
const gated = chain.compile({ interruptBefore: ['b'] });
const looked = chain.compile({ interruptAfter: ['a'] });
const free = chain.compile();
const asking = new StateGraph(State)
  .addNode('a', node('a'))
  .addNode('ask', () => ({ log: [String(interrupt('first?')), String(interrupt('second?'))] }))
  .addEdge(START, 'a')
  .addEdge('a', 'ask')
  .compile();
const failing = new StateGraph(State)
  .addNode('fail', () => {
    ran.push('fail');
    throw new TypeError('broken');
  })
  .addEdge(START, 'fail')
  .compile();

let at: Installation;
const faults: RefusedWrites[] = [];
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ gated, looked, free, asking, failing });
});
afterEach(async () => {
  ran.length = 0;
  for (const fault of faults.splice(0)) await fault.stop();
});
afterAll(() => at.close());

/** Attempts get as far as their run's end, and Postgres goes away before that is recorded: once for each run. */
async function loseEnd(status: string): Promise<RefusedWrites> {
  const fault = await refuseWrites(at.database, 'runs', `NEW.status = '${status}' AND NEW.attempts = 1`, 100);
  faults.push(fault);
  return fault;
}

test.each(['gated', 'looked'])(
  '%s: a static interrupt whose record was lost still stops the thread',
  async (graph) => {
    const lost = await loseEnd('interrupted');
    const first = await at.client.run({ graph, input: { log: [] } });
    expect(await lost.refused()).toBe(1);
    expect(first).toMatchObject({ status: 'interrupted', interrupts: [], next: ['b'] });
    expect(ran).toEqual(['a']);
    const last = await at.client.waitForRun((await at.client.continueThread(first.thread_id)).run_id);
    expect(last).toMatchObject({ status: 'success', values: { log: ['a', 'b', 'c'] } });
    expect(ran).toEqual(['a', 'b', 'c']);
  },
);

test('stops before and after every node hold, each record lost once', async () => {
  await loseEnd('interrupted');
  const config = { interrupt_before: '*', interrupt_after: '*' } as const;
  let result = await at.client.run({ graph: 'free', input: { log: [] }, config });
  const seen: string[][] = [];
  while (result.status === 'interrupted') {
    seen.push([...ran]);
    result = await at.client.waitForRun((await at.client.continueThread(result.thread_id)).run_id);
  }
  expect(result).toMatchObject({ status: 'success', values: { log: ['a', 'b', 'c'] } });
  expect(ran).toEqual(['a', 'b', 'c']);
  expect(seen.map((nodes) => nodes.length)).toEqual([0, 1, 2]);
});

test('a question whose record was lost is asked once, and one answer answers one question', async () => {
  const lost = await loseEnd('interrupted');
  const first = await at.client.run({ graph: 'asking', input: { log: [] } });
  expect(first.interrupts?.map(({ value }) => value)).toEqual(['first?']);
  const second = await at.client.waitForRun((await at.client.answer(first.thread_id, 'one')).run_id);
  expect(second.interrupts?.map(({ value }) => value)).toEqual(['second?']);
  const last = await at.client.waitForRun((await at.client.answer(first.thread_id, 'two')).run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['a', 'one', 'two'] } });
  expect(await lost.refused()).toBe(2);
  expect(ran).toEqual(['a']);
});

test('a success whose record was lost runs no node again', async () => {
  const lost = await loseEnd('success');
  expect(await at.client.run({ graph: 'free', input: { log: [] } })).toMatchObject({
    status: 'success',
    values: { log: ['a', 'b', 'c'] },
  });
  expect([ran, await lost.refused()]).toEqual([['a', 'b', 'c'], 1]);
});

test('an error whose record was lost is the error of the run', async () => {
  await loseEnd('error');
  expect(await at.client.run({ graph: 'failing', input: { log: [] } })).toMatchObject({
    status: 'error',
    error: { name: 'TypeError', message: 'broken' },
  });
  expect((await at.client.threads())[0]).toMatchObject({ status: 'error', unfinished_runs: 0 });
});
