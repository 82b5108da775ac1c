import { tool } from '@langchain/core/tools';
import { Annotation, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { createAgent, FakeToolCallingModel, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { askPerson, defineGraph, type DeadlinePolicy } from '../../src/index.ts';
import { answerInterrupt } from '../../src/threads/answer.ts';
import { fireDue } from '../../src/threads/deadlines.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  deadline: Annotation<DeadlinePolicy>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const text = (answer: unknown) => JSON.stringify(answer);

/** Asks with the deadline of its input, then, with an answer, once more without one. */
const asking = new StateGraph(State)
  .addNode('ask', async ({ deadline }) => ({ log: [text(await askPerson('may I?', deadline))] }))
  .addNode('again', () => ({ log: [text(interrupt('and again?'))] }))
  .addEdge(START, 'ask')
  .addEdge('ask', 'again')
  .compile();

const Two = Annotation.Root({
  answers: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
/** Three reviewers at once: the deadlines of two come together, the third has none. */
const reviewers = new StateGraph(Two)
  .addNode('start', () => ({}))
  .addNode('review', async ({ who }: { who: string }) => {
    const answer =
      who === 'c' ? interrupt(who) : await askPerson(who, { after: '1s', answer: `nobody for ${who}` });
    return { answers: [text(answer)] };
  })
  .addEdge(START, 'start')
  .addConditionalEdges('start', () => ['a', 'b', 'c'].map((who) => new Send('review', { who })))
  .compile();

const plain = new StateGraph(State)
  .addNode('ask', () => ({ log: [text(interrupt('plain?'))] }))
  .addEdge(START, 'ask')
  .compile();

const paid: string[] = [];
const pay = tool(
  ({ to }: { to: string }) => {
    paid.push(to);
    return 'paid';
  },
  { name: 'pay', description: 'Pays.', schema: z.object({ to: z.string() }) },
);
// Its types fit neither the option nor createAgent under exactOptionalPropertyTypes.
const approval: unknown = humanInTheLoopMiddleware({ interruptOn: { pay: true } } as never);
const agent = createAgent({
  model: new FakeToolCallingModel({
    toolCalls: [
      [
        { name: 'pay', args: { to: 'mira' }, id: 'pay-1' },
        { name: 'pay', args: { to: 'tom' }, id: 'pay-2' },
      ],
      [],
    ],
  }),
  tools: [pay],
  middleware: [approval as AgentMiddleware],
});

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ asking, reviewers, plain, agent });
});
afterAll(() => at.close());

const ask = async (deadline: DeadlinePolicy, thread_id: string = crypto.randomUUID()) => {
  const run = await at.client.run({ graph: 'asking', thread_id, input: { deadline } });
  const [asked] = run.interrupts ?? [];
  if (!asked) throw new Error(`nothing is asked: ${JSON.stringify(run)}`);
  return { thread_id, id: asked.id };
};
const interruptOf = async (thread_id: string, id: string) =>
  (await at.client.interrupts({ thread_id })).find((one) => one.id === id);
const workflow = (thread: string) =>
  at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread));
/** How long the timers of the thread's workflow ran, in seconds. */
const timers = async (thread: string) =>
  ((await workflow(thread).fetchHistory()).events ?? []).flatMap((event) =>
    event.timerStartedEventAttributes
      ? [Number(event.timerStartedEventAttributes.startToFireTimeout?.seconds ?? 0)]
      : [],
  );

test('a question that nobody answers in time is answered with the default, by the workflow’s timer', async () => {
  const { thread_id, id } = await ask({ after: '1s', answer: { approved: false } });
  expect(await interruptOf(thread_id, id)).toMatchObject({
    status: 'pending',
    on_due: { answer: { approved: false } },
    due_at: expect.any(String) as string,
  });
  await until(async () => (await at.client.runs(thread_id)).length === 2);
  const [run] = await at.client.runs(thread_id);
  expect(await at.client.waitForRun(run?.run_id ?? '')).toMatchObject({
    status: 'interrupted',
    interrupts: [{ value: 'and again?', due_at: null }],
  });
  expect(await interruptOf(thread_id, id)).toMatchObject({
    status: 'answered',
    answer: { approved: false },
    answered_by: 'system:deadline',
  });
  expect((await timers(thread_id)).length).toBeGreaterThan(0);
});

test('a chain escalates, and once more, then answers; each step is on record', async () => {
  const { thread_id, id } = await ask({
    after: '300ms',
    escalate_to: 'team:leads',
    and_then: { after: '300ms', escalate_to: 'role:cfo', and_then: { after: '300ms', answer: 'no' } },
  });
  await until(async () => (await interruptOf(thread_id, id))?.status === 'answered');
  const escalated = await interruptOf(thread_id, id);
  expect(escalated?.escalations).toMatchObject([
    { level: 1, to: 'team:leads' },
    { level: 2, to: 'role:cfo' },
  ]);
  expect(escalated).toMatchObject({ answer: 'no', answered_by: 'system:deadline' });
});

test('an escalation without more waits for ever, and a person still answers', async () => {
  const { thread_id, id } = await ask({ after: '100ms', escalate_to: 'team:leads' });
  await until(async () => (await interruptOf(thread_id, id))?.escalations.length === 1);
  expect(await interruptOf(thread_id, id)).toMatchObject({ status: 'pending', due_at: null, on_due: null });
  await at.client.answer(thread_id, 'yes', { interruptId: id, actor: 'user:mira' });
  expect(await interruptOf(thread_id, id)).toMatchObject({ answered_by: 'user:mira' });
});

test('of a person and a deadline at the same moment exactly one wins, and the other is told', async () => {
  const asked = await Promise.all(
    Array.from({ length: 12 }, () => ask({ after: '1 hour', answer: 'default' })),
  );
  await at.database.query(
    `UPDATE ${at.database.table('interrupts')} SET due_at = now() WHERE status = 'pending' AND due_at > now()`,
  );
  await Promise.all(
    asked.map(async ({ thread_id, id }, i) => {
      const person = () =>
        answerInterrupt(at.database, 'default', {
          thread_id,
          interrupt_id: id,
          value: 'mine',
          actor: 'user:mira',
        });
      const deadline = () => fireDue(at.database, 'default', thread_id);
      await Promise.allSettled(i % 2 === 0 ? [person(), deadline()] : [deadline(), person()]);
      const after = await interruptOf(thread_id, id);
      expect(['user:mira', 'system:deadline']).toContain(after?.answered_by);
      expect(after?.answer).toBe(after?.answered_by === 'user:mira' ? 'mine' : 'default');
      if (after?.answered_by === 'system:deadline')
        await expect(person()).rejects.toMatchObject({ code: 'INTERRUPT_ALREADY_ANSWERED' });
      const resumes = (await at.client.runs(thread_id)).filter((run) => run.kind === 'resume');
      expect(resumes).toHaveLength(1);
    }),
  );
});

test('what is due at once is answered by one run; a question without a deadline waits on', async () => {
  const thread_id = crypto.randomUUID();
  await at.client.run({ graph: 'reviewers', thread_id, input: {} });
  await until(async () => (await at.client.thread(thread_id)).pending_interrupts === 1);
  const runs = await at.client.runs(thread_id);
  await at.client.waitForRun(runs[0]?.run_id ?? '');
  await until(async () => (await at.client.thread(thread_id)).unfinished_runs === 0);
  const left = await at.client.interrupts({ thread_id, status: 'pending' });
  expect(left).toMatchObject([{ value: 'c', due_at: null }]);
  const { run_id } = await at.client.answer(thread_id, 'fine');
  const { values } = await at.client.waitForRun(run_id);
  expect((values as { answers: string[] }).answers).toEqual(['"nobody for a"', '"nobody for b"', '"fine"']);
});

test('a deadline of the run holds for an unmodified graph, and one of askPerson() counts before it', async () => {
  const thread_id = crypto.randomUUID();
  const config = { deadline: { after: '400ms', answer: 'of the run' } };
  const run = await at.client.run({ graph: 'plain', thread_id, input: {}, config });
  expect(run.interrupts).toMatchObject([{ value: 'plain?', due_at: expect.any(String) as string }]);
  await until(async () => (await at.client.thread(thread_id)).status === 'idle');
  expect(await at.client.readRun((await at.client.runs(thread_id))[0]?.run_id ?? '')).toMatchObject({
    values: { log: ['"of the run"'] },
  });
  const own = await at.client.run({
    graph: 'asking',
    input: { deadline: { after: '1 day', answer: 'own' } },
    config,
  });
  expect(await interruptOf(own.thread_id, own.interrupts?.[0]?.id ?? '')).toMatchObject({
    on_due: { answer: 'own' },
  });
});

test('humanInTheLoopMiddleware: with `reject` each action that waits is rejected, and none happens', async () => {
  const thread_id = crypto.randomUUID();
  const run = await at.client.run({
    graph: 'agent',
    thread_id,
    input: { messages: [{ role: 'user', content: 'pay' }] },
    config: { deadline: { after: '300ms', reject: 'Nobody was there.' } },
  });
  expect(run.status).toBe('interrupted');
  await until(async () => (await at.client.thread(thread_id)).status !== 'interrupted');
  await until(async () => (await at.client.thread(thread_id)).unfinished_runs === 0);
  const { status, values } = await at.client.readRun((await at.client.runs(thread_id))[0]?.run_id ?? '');
  expect(status).toBe('success');
  const { messages } = values as { messages: unknown[] };
  const rejected = messages.filter(
    (message) =>
      /tool_call_id.*/.test(JSON.stringify(message)) && JSON.stringify(message).includes('Nobody was there.'),
  );
  expect(rejected).toHaveLength(2);
  expect(paid).toEqual([]);
});

test('defineGraph takes a deadline and refuses what is none', () => {
  const deadline = { after: '2 days', answer: null };
  expect(defineGraph({ name: 'g', version: '1', graph: plain, deadline })).toMatchObject({ deadline });
  const wrong = { after: '2 months', answer: null };
  expect(() => defineGraph({ name: 'g', version: '1', graph: plain, deadline: wrong })).toThrow(/deadline/);
});

test('a malformed deadline ends the run in an error that says so, and asks nobody', async () => {
  const run = await at.client.run({ graph: 'asking', input: { deadline: { after: 'soon', answer: 1 } } });
  expect(run).toMatchObject({
    status: 'error',
    error: { message: expect.stringContaining('duration') as string },
  });
});

test('when Temporal has lost the workflow, the sweeper does what is due', async () => {
  const { thread_id, id } = await ask({ after: '1500ms', answer: 'swept' });
  await workflow(thread_id).terminate('lost');
  await until(async () => (await interruptOf(thread_id, id))?.status === 'answered');
  expect(await interruptOf(thread_id, id)).toMatchObject({ answer: 'swept' });
  await until(async () => (await at.client.thread(thread_id)).pending_interrupts === 1);
});

test('cancel withdraws the question, and nothing is due any more', async () => {
  const { thread_id, id } = await ask({ after: '300ms', answer: 'no' });
  await at.client.cancel(thread_id);
  expect(await fireDue(at.database, 'default', thread_id)).toEqual({ more: false, next_due: null });
  expect(await interruptOf(thread_id, id)).toMatchObject({ status: 'cancelled' });
});
