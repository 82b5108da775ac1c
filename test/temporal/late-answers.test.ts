import { Annotation, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { isPerdureError } from '../../src/contracts/errors.ts';
import { WAKE_SIGNAL } from '../../src/contracts/thread-workflow.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  what: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Effects: how often a turn was done. */
const done = new Map<string, number>();
const count = (key: string) => done.set(key, (done.get(key) ?? 0) + 1);

/** Asks once for each turn. */
const asking = new StateGraph(State)
  .addNode('ask', ({ what }) => {
    const answer = String(interrupt(what));
    count(`${what} ${answer}`);
    return { log: [answer] };
  })
  .addEdge(START, 'ask')
  .compile();

/** One asks for good, the other asks turn after turn. */
const approval = new StateGraph(State)
  .addNode('approve', () => ({ log: [`approved ${String(interrupt('approve?'))}`] }))
  .addNode('talk', ({ what }: { what: string }) => {
    for (let turn = 0; turn < Number(what); turn += 1) interrupt(`turn ${turn}`);
    return { log: ['talked'] };
  })
  .addConditionalEdges(START, ({ what }) => [new Send('approve', { what }), new Send('talk', { what })])
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ asking, approval });
});
afterAll(() => at.close());

const workflow = (thread: string) =>
  at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread));

/** The workflow's runs, the newest first: each continue-as-new is one more. */
async function workflowRuns(thread: string): Promise<number> {
  let runs = 0;
  let runId: string | undefined = (await workflow(thread).describe()).runId;
  while (runId !== undefined && runId !== '') {
    runs += 1;
    const handle: WorkflowHandle = at.temporal.workflow.getHandle(
      threadWorkflowId(at.schema, 'default', thread),
      runId,
    );
    const history = await handle.fetchHistory();
    runId =
      history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return runs;
}

test('answers that come as the workflow ends or is gone are handled once, or refused with a reason', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 12 }, async (_, i) => {
      const what = crypto.randomUUID();
      const asked = await at.client.run({ graph: 'asking', thread_id: what, input: { what } });
      const interruptId = asked.interrupts?.[0]?.id ?? '';
      const answer = () => at.client.answer(what, 'yes', { interruptId });
      const end = () =>
        i % 2 === 0 ? workflow(what).terminate('as the answer comes') : at.client.cancel(what);
      // The one or the other first, or both at once.
      const order = i % 4 < 2 ? [answer(), end()] : [end(), answer()];
      const settled = await Promise.allSettled(order);
      const answered = settled[i % 4 < 2 ? 0 : 1];
      if (answered?.status === 'rejected') {
        expect(isPerdureError(answered.reason, 'INTERRUPT_UNKNOWN')).toBe(true);
        return done.get(`${what} yes`) ?? 0;
      }
      const { run_id } = (answered as PromiseFulfilledResult<{ run_id: string }>).value;
      const { status } = await at.client.waitForRun(run_id);
      expect(['success', 'cancelled']).toContain(status);
      const times = done.get(`${what} yes`) ?? 0;
      if (status === 'success') expect(times).toBe(1);
      return times;
    }),
  );
  expect(Math.max(...outcomes)).toBe(1);
});

/** Makes the history of the workflow so long that it has to be cut. */
async function lengthen(thread: string): Promise<void> {
  const signals = Array.from({ length: 900 }, () =>
    workflow(thread).signal(WAKE_SIGNAL, crypto.randomUUID()),
  );
  await Promise.all(signals);
}

test('an approval pends through turns that go on while the workflow continues as new: same id, same run, one answer', async () => {
  const thread_id = crypto.randomUUID();
  const turns = 40;
  const first = await at.client.run({ graph: 'approval', thread_id, input: { what: String(turns) } });
  const pending = async () => at.client.interrupts({ thread_id, status: 'pending' });
  const approve = (await pending()).find((one) => one.value === 'approve?');
  expect(approve).toMatchObject({ run_id: first.run_id });
  const cut = lengthen(thread_id);
  for (let turn = 0; turn < turns; turn += 1) {
    const asked = (await pending()).find((one) => one.value === `turn ${turn}`);
    const { run_id } = await at.client.answer(thread_id, turn, { interruptId: asked?.id ?? '' });
    await at.client.waitForRun(run_id);
  }
  await cut;
  expect(await pending()).toEqual([approve]);
  expect(await workflowRuns(thread_id)).toBeGreaterThan(1);
  const answers = await Promise.allSettled(
    ['yes', 'no'].map((value) => at.client.answer(thread_id, value, { interruptId: approve?.id ?? '' })),
  );
  const won = answers.flatMap((one) => (one.status === 'fulfilled' ? [one.value.run_id] : []));
  expect(won).toHaveLength(1);
  const { values } = await at.client.waitForRun(won[0] ?? '');
  expect((values as { log: string[] }).log).toHaveLength(2);
});
