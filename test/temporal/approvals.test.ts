import { tool } from '@langchain/core/tools';
import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { createAgent, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { responseTo } from '../../src/contracts/approvals.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { InterruptView, RunResult } from '../../src/contracts/runs.ts';
import { operation } from '../../src/index.ts';
import { ScriptedModel } from '../operations/scripted-model.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const refunds: number[] = [];
const refundTool = tool(
  ({ amount }: { amount: number }) => {
    refunds.push(amount);
    return `refunded ${amount}`;
  },
  { name: 'refund', description: 'x', schema: z.object({ amount: z.number() }) },
);
/** Its types don't fit those of createAgent() under exactOptionalPropertyTypes. */
const review = (config: { interruptOn: Record<string, boolean | { allowedDecisions: string[] }> }) =>
  humanInTheLoopMiddleware(config as never) as unknown as AgentMiddleware;
const call = (amount: number) => ({ name: 'refund', args: { amount }, id: `call-${amount}` });
const reviewing = (...amounts: number[]) =>
  createAgent({
    model: new ScriptedModel([amounts.map(call)]),
    tools: [refundTool],
    middleware: [review({ interruptOn: { refund: true } })],
  });
const careful = createAgent({
  model: new ScriptedModel([[call(20)]]),
  tools: [refundTool],
  middleware: [review({ interruptOn: { refund: { allowedDecisions: ['approve', 'reject'] } } })],
});
const State = Annotation.Root({ amount: Annotation<number>(), note: Annotation<string>() });
const gate = new StateGraph(State)
  .addNode('plan', () => ({ note: 'planned' }))
  .addNode('ask', ({ amount }) => ({ note: interrupt({ refund: amount }) === true ? 'approved' : 'refused' }))
  .addNode('pay', async ({ amount, note }) => {
    if (note === 'approved')
      await operation('refund', { kind: 'exclusive', args: { amount } }, () => refunds.push(amount));
    return {};
  })
  .addEdge(START, 'plan')
  .addEdge('plan', 'ask')
  .addEdge('ask', 'pay')
  .compile();
const inbox = new StateGraph(State)
  .addNode('ask', ({ amount }) => {
    const [answer] = interrupt<object[], { type: string; args: unknown }[]>([
      {
        action_request: { action: 'refund', args: { amount } },
        config: { allow_accept: true, allow_edit: true, allow_respond: false, allow_ignore: true },
      },
    ]);
    return { note: JSON.stringify(answer) };
  })
  .addEdge(START, 'ask')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ one: reviewing(20), two: reviewing(20, 30), careful, gate, inbox });
});
afterAll(() => at.close());
beforeEach(() => {
  refunds.length = 0;
});

async function ask(graph: string, input: JsonValue = { messages: [{ role: 'user', content: 'go' }] }) {
  const asked = await at.client.run({ graph, input });
  return { thread: asked.thread_id, question: await only(asked.thread_id) };
}
async function only(thread_id: string): Promise<InterruptView> {
  const [question, ...more] = await at.client.interrupts({ thread_id, status: 'pending' });
  if (question === undefined || more.length > 0) throw new Error('not one question');
  return question;
}
async function checkpointBeforePlan(thread: string): Promise<string> {
  const found = (await at.client.history(thread)).find(({ superstep }) => superstep === 0);
  if (found === undefined) throw new Error('no such checkpoint');
  return found.checkpoint_id;
}
const answer = async (thread: string, value: JsonValue, options = {}): Promise<RunResult> =>
  at.client.waitForRun((await at.client.answer(thread, value, options)).run_id);
const told = ({ values }: RunResult) =>
  (values as { messages: { type: string; content: string; tool_call_id: string }[] }).messages
    .filter(({ type }) => type === 'tool')
    .map(({ tool_call_id, content }) => [tool_call_id, content]);

test("LangChain's humanInTheLoopMiddleware: approve runs what was asked, and who, when and from where is kept", async () => {
  const { thread, question } = await ask('one');
  const result = await answer(thread, responseTo(question.value, { type: 'approve' }), {
    actor: 'user:mira',
    from: 'cli:desk',
    digest: question.digest,
  });
  expect(result.status).toBe('success');
  expect(refunds).toEqual([20]);
  expect(await at.client.interrupts({ thread_id: thread })).toMatchObject([
    {
      status: 'answered',
      answered_by: 'user:mira',
      answered_from: 'cli:desk',
      answered_at: expect.any(String),
    },
  ]);
});

test('edit runs the changed arguments, reject runs nothing and the model is told why', async () => {
  const edited = await ask('one');
  await answer(edited.thread, responseTo(edited.question.value, { type: 'edit', args: { amount: 15 } }));
  expect(refunds).toEqual([15]);
  const refused = await ask('one');
  const result = await answer(
    refused.thread,
    responseTo(refused.question.value, { type: 'reject', reason: 'not this customer' }),
  );
  expect(result.status).toBe('success');
  expect(refunds).toEqual([15]);
  expect(told(result)).toEqual([['call-20', expect.stringContaining('not this customer')]]);
});

test('of two tool calls of one message one is approved and one edited', async () => {
  const { thread, question } = await ask('two');
  const result = await answer(
    thread,
    responseTo(question.value, { type: 'edit', args: [null, { amount: 31 }] }),
  );
  expect(result.status).toBe('success');
  expect(refunds.toSorted((a, b) => a - b)).toEqual([20, 31]);
  expect(told(result)).toEqual([
    ['call-20', 'refunded 20'],
    ['call-30', 'refunded 31'],
  ]);
});

test.each<[string, string, JsonValue, string]>([
  ['another shape', 'one', true, '"decisions"'],
  ['one decision for two calls', 'two', { decisions: [{ type: 'approve' }] }, '2 tool calls'],
  [
    'a decision that is not allowed',
    'careful',
    { decisions: [{ type: 'edit', editedAction: { name: 'refund', args: {} } }] },
    'allowed: approve, reject',
  ],
  ['an edit without arguments', 'one', { decisions: [{ type: 'edit' }] }, 'editedAction'],
  ['another shape for an inbox', 'inbox', 'yes', '"accept"'],
  ['a response that is not allowed', 'inbox', [{ type: 'response', args: 'no' }], 'not allowed'],
])('%s is refused before it is given, with what is expected', async (_, graph, value, expected) => {
  const { thread } = await ask(graph, graph === 'inbox' ? { amount: 20 } : undefined);
  await expect(at.client.answer(thread, value)).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    message: expect.stringContaining(expected),
  });
  expect(await only(thread)).toMatchObject({ status: 'pending' });
  expect(refunds).toEqual([]);
});

test("the shape of LangGraph's inbox is made too", async () => {
  const { thread, question } = await ask('inbox', { amount: 20 });
  const result = await answer(thread, responseTo(question.value, { type: 'edit', args: { amount: 15 } }));
  expect((result.values as { note: string }).note).toBe(
    '{"type":"edit","args":{"action":"refund","args":{"amount":15}}}',
  );
  expect(responseTo(question.value, { type: 'reject', reason: 'no' })).toEqual([
    { type: 'ignore', args: null },
  ]);
});

test('yes and no for a question of another shape; what it can not say is refused', () => {
  expect(responseTo('sure?', { type: 'approve' })).toBe(true);
  expect(responseTo('sure?', { type: 'reject' })).toBe(false);
  expect(() => responseTo('sure?', { type: 'reject', reason: 'x' })).toThrow('--value');
  expect(() => responseTo('sure?', { type: 'edit', args: {} })).toThrow('--value');
});

test('E10: an approval does not carry over to changed arguments: asked again, nothing executed', async () => {
  const { thread, question } = await ask('gate', { amount: 20 });
  await expect(at.client.answer(thread, true, { digest: 'ab' })).rejects.toThrow('at least 8');
  const beforeGate = await checkpointBeforePlan(thread);
  // Someone changes the amount between the look and the yes.
  const forked = await at.client.waitForRun(
    (
      await at.client.fork(thread, {
        checkpointId: beforeGate,
        values: { amount: 200 },
        asNode: '__start__',
      })
    ).run_id,
  );
  expect(forked.status).toBe('interrupted');
  const again = await only(thread);
  expect(again.value).toEqual({ refund: 200 });
  expect(again.digest).not.toBe(question.digest);
  await expect(at.client.answer(thread, true, { digest: question.digest })).rejects.toMatchObject({
    code: 'APPROVAL_STALE',
  });
  await expect(at.client.answer(thread, true, { interruptId: question.id })).rejects.toMatchObject({
    code: 'INTERRUPT_UNKNOWN',
  });
  expect(refunds).toEqual([]);
  expect(await only(thread)).toMatchObject({ id: again.id, status: 'pending' });
});

test('E10: an approval that was used is not used again for other arguments', async () => {
  const { thread, question } = await ask('gate', { amount: 20 });
  await answer(thread, true, { digest: question.digest.slice(0, 12) });
  expect(refunds).toEqual([20]);
  const beforeGate = await checkpointBeforePlan(thread);
  const { run_id } = await at.client.fork(thread, {
    checkpointId: beforeGate,
    values: { amount: 200 },
    asNode: '__start__',
  });
  expect((await at.client.waitForRun(run_id)).status).toBe('interrupted');
  expect((await only(thread)).value).toEqual({ refund: 200 });
  expect(refunds).toEqual([20]);
});

/** What each of two tools was answered, by tool call. */
const asking = tool(
  async ({ who }: { who: string }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    return `${who} said ${String(interrupt(`ask ${who}`))}`;
  },
  { name: 'ask', description: 'x', schema: z.object({ who: z.string() }) },
);
const both = createAgent({
  model: new ScriptedModel([['ann', 'bob'].map((who) => ({ name: 'ask', args: { who }, id: who }))]),
  tools: [asking],
});

test('E6: two tools of one message that ask after random delays each get their own answer, 50 times of 50', async () => {
  await at.startWorker({ both });
  const round = async () => {
    const asked = await at.client.run({
      graph: 'both',
      input: { messages: [{ role: 'user', content: 'go' }] },
    });
    const ids = Object.fromEntries((asked.interrupts ?? []).map(({ id, value }) => [value as string, id]));
    expect(Object.keys(ids).toSorted()).toEqual(['ask ann', 'ask bob']);
    const first = await at.client.answer(asked.thread_id, 'B', { interruptId: ids['ask bob'] ?? '' });
    await at.client.waitForRun(first.run_id);
    const last = await answer(asked.thread_id, 'A', { interruptId: ids['ask ann'] ?? '' });
    return told(last);
  };
  const rounds: unknown[] = [];
  for (let batch = 0; batch < 2; batch += 1)
    rounds.push(...(await Promise.all(Array.from({ length: 25 }, round))));
  expect(rounds).toEqual(
    Array.from({ length: 50 }, () => [
      ['ann', 'ann said A'],
      ['bob', 'bob said B'],
    ]),
  );
});
