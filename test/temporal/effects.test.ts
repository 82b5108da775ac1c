import { ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { Annotation, interrupt, isGraphBubbleUp, START, StateGraph } from '@langchain/langgraph';
import { createAgent, createMiddleware, FakeToolCallingModel } from 'langchain';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { durableTool, durableTools, operation } from '../../src/index.ts';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

/** What happened out there. */
const mails: string[] = [];
const charges: { key: string; amount: number }[] = [];
const entered: string[] = [];

const sendMail = tool(
  ({ to }: { to: string }) => {
    mails.push(to);
    return `sent to ${to}`;
  },
  { name: 'send_mail', description: 'Sends a mail.', schema: z.object({ to: z.string() }) },
);
const askManager = tool(({ what }: { what: string }) => `the manager said ${String(interrupt(what))}`, {
  name: 'ask_manager',
  description: 'Asks the manager.',
  schema: z.object({ what: z.string() }),
});
const mailAndAsk = () =>
  new FakeToolCallingModel({
    toolCalls: [
      [
        { name: 'send_mail', args: { to: 'mira' }, id: 'mail-1' },
        { name: 'ask_manager', args: { what: 'may I?' }, id: 'ask-1' },
      ],
      [],
    ],
  });
const tools = [sendMail, askManager];
const plainAgent = createAgent({ model: mailAndAsk(), tools });
const durableAgent = createAgent({ model: mailAndAsk(), tools, middleware: [durableTools()] });
let retries = 0;
const wrappedAgent = createAgent({
  model: mailAndAsk(),
  tools,
  middleware: [
    createMiddleware({ name: 'onlooker', wrapToolCall: (request, handler) => handler(request) }),
    createMiddleware({
      name: 'retries',
      wrapToolCall: async (request, handler) => {
        for (let tries = 1; ; tries += 1)
          try {
            return await handler(request);
          } catch (error) {
            if (isGraphBubbleUp(error) || tries === 3) throw error;
            retries += 1;
          }
      },
    }),
    durableTools(),
  ],
});

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<unknown[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const wrappedNodes = new StateGraph(State)
  .addNode(
    'retried',
    ({ key }) => {
      entered.push(`${key} retried`);
      return { log: [String(interrupt('in a retry policy?'))] };
    },
    { retryPolicy: { maxAttempts: 5, initialInterval: 1, jitter: false, logWarning: false } },
  )
  .addNode(
    'handled',
    ({ key }) => {
      entered.push(`${key} handled`);
      return { log: [String(interrupt('under an error handler?'))] };
    },
    { errorHandler: () => ({ log: ['made an error of it'] }) },
  )
  .addNode('inOperation', async () => ({
    log: [await operation('look', { kind: 'pure' }, () => String(interrupt('inside an operation?')))],
  }))
  .addEdge(START, 'retried')
  .addEdge('retried', 'handled')
  .addEdge('handled', 'inOperation')
  .compile();

/** The far side commits and honours the key; whether its reply arrives is another matter. */
let losing = 0;
const chargeSchema = z.object({ order: z.string(), amount: z.number() });
const chargeOf = (kind: 'idempotent' | 'exclusive') =>
  durableTool(
    {
      name: 'charge',
      description: 'Charges a card.',
      schema: chargeSchema,
      kind,
      businessKey: ({ order }) => `charge:${order}`,
    },
    ({ order, amount }, call) => {
      if (kind === 'exclusive' || !charges.some(({ key }) => key === call.operationId))
        charges.push({ key: call.operationId, amount });
      if (losing > 0) {
        losing -= 1;
        throw new Error('socket hang up');
      }
      return `charged ${amount} for ${order}`;
    },
  );
const charge = { idempotent: chargeOf('idempotent'), exclusive: chargeOf('exclusive') };

/** As an agent does: what a tool throws is told to the model, which plans the charge again. */
async function callTool(
  kind: 'idempotent' | 'exclusive',
  id: string,
  order: string,
  amount: number,
): Promise<unknown> {
  try {
    const message: unknown = await charge[kind].invoke({
      type: 'tool_call',
      id,
      name: 'charge',
      args: { order, amount },
    });
    return ToolMessage.isInstance(message) ? message.content : message;
  } catch (error) {
    if (error instanceof Error && error.message === 'socket hang up') return 'lost';
    throw error;
  }
}

const planCharges = (kind: 'idempotent' | 'exclusive', amounts: [number, number]) =>
  new StateGraph(State)
    .addNode('first', async ({ key }) => ({ log: [await callTool(kind, 'call-1', key, amounts[0])] }))
    .addNode('second', async ({ key }) => ({ log: [await callTool(kind, 'call-2', key, amounts[1])] }))
    .addEdge(START, 'first')
    .addEdge('first', 'second')
    .compile();
const replanned = planCharges('idempotent', [20, 20]);
const changed = planCharges('idempotent', [20, 200]);
const exclusive = planCharges('exclusive', [20, 20]);

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({
    plainAgent,
    durableAgent,
    wrappedAgent,
    wrappedNodes,
    replanned,
    changed,
    exclusive,
  });
});
afterAll(() => at.close());

/** What failed in Temporal's eyes, of the whole thread. */
async function failedAttempts(thread_id: string): Promise<number> {
  const history = await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', thread_id))
    .fetchHistory();
  return (history.events ?? []).filter(
    ({
      activityTaskFailedEventAttributes: failed,
      activityTaskTimedOutEventAttributes: late,
      activityTaskStartedEventAttributes: started,
    }) => failed != null || late != null || (started?.attempt ?? 1) > 1,
  ).length;
}

const toolMessages = (values: JsonValue | undefined) =>
  (
    values as { messages: { type: string; tool_call_id: string; content: string; status?: string }[] }
  ).messages
    .filter(({ type }) => type === 'tool')
    .map(({ tool_call_id, content, status }) => [tool_call_id, content, status ?? 'success']);

test.each([
  ['plainAgent', 'yes'],
  ['durableAgent', 'yes'],
  ['durableAgent', 'no'],
  ['wrappedAgent', 'yes'],
])(
  'E7, E8: %s mails once beside a question, and has one tool message per call when the answer is %s',
  async (graph, answer) => {
    mails.length = 0;
    const asked = await at.client.run({ graph, input: { messages: [{ role: 'user', content: 'go' }] } });
    expect(asked.interrupts).toMatchObject([{ value: 'may I?' }]);
    expect(mails).toEqual(['mira']);
    const last = await at.client.waitForRun((await at.client.answer(asked.thread_id, answer)).run_id);
    expect(last.status).toBe('success');
    expect(mails).toEqual(['mira']);
    expect(toolMessages(last.values)).toEqual([
      ['mail-1', 'sent to mira', 'success'],
      ['ask-1', `the manager said ${answer}`, 'success'],
    ]);
    // A segment that hands the tool calls out, and one after them.
    expect((await at.client.runs(asked.thread_id)).map(({ attempts }) => attempts)).toEqual([2, 2]);
    expect(await failedAttempts(asked.thread_id)).toBe(0);
  },
);

test('E8: a pause goes through a retry policy, an error handler and an operation; nothing counts it as a failure', async () => {
  const key = crypto.randomUUID();
  let result = await at.client.run({ graph: 'wrappedNodes', input: { key, log: [] } });
  for (const question of ['in a retry policy?', 'under an error handler?', 'inside an operation?']) {
    expect(result.interrupts?.map(({ value, kind }) => [value, kind])).toEqual([[question, 'interrupt']]);
    result = await at.client.waitForRun(
      (await at.client.answer(result.thread_id, `answer to ${question}`)).run_id,
    );
  }
  expect(result).toMatchObject({
    status: 'success',
    values: {
      log: [
        'answer to in a retry policy?',
        'answer to under an error handler?',
        'answer to inside an operation?',
      ],
    },
  });
  // Once to ask, once with the answer.
  expect(entered.filter((one) => one.startsWith(key))).toEqual([
    `${key} retried`,
    `${key} retried`,
    `${key} handled`,
    `${key} handled`,
  ]);
  expect(await failedAttempts(result.thread_id)).toBe(0);
});

test('E12: a charge whose reply was lost and that is planned again under a new id is one charge', async () => {
  const key = crypto.randomUUID();
  charges.length = 0;
  losing = 1;
  const result = await at.client.run({ graph: 'replanned', input: { key, log: [] } });
  losing = 0;
  expect(result).toMatchObject({ status: 'success', values: { log: ['lost', `charged 20 for ${key}`] } });
  expect(charges).toEqual([{ key: expect.any(String), amount: 20 }]);
  expect(await at.client.operations({ threadId: result.thread_id })).toMatchObject([
    { tool: 'charge', status: 'succeeded' },
  ]);
});

test('E12: the same business key with other arguments is a conflict, not a second charge', async () => {
  const key = crypto.randomUUID();
  charges.length = 0;
  const result = await at.client.run({ graph: 'changed', input: { key, log: [] } });
  expect(result).toMatchObject({ status: 'error', error: { code: 'OPERATION_CONFLICT' } });
  expect(charges.map(({ amount }) => amount)).toEqual([20]);
});

test('E12: another thread with the same business key has the recorded result', async () => {
  const key = crypto.randomUUID();
  charges.length = 0;
  const first = await at.client.run({ graph: 'replanned', input: { key, log: [] } });
  const second = await at.client.run({ graph: 'replanned', input: { key, log: [] } });
  expect([first.status, second.status]).toEqual(['success', 'success']);
  expect(charges).toHaveLength(1);
});

test('E12: a lost charge that nobody can ask about waits for a person, who speaks for the second one too', async () => {
  const key = crypto.randomUUID();
  charges.length = 0;
  losing = 1;
  const asked = await at.client.run({ graph: 'exclusive', input: { key, log: [] } });
  losing = 0;
  expect(asked.interrupts).toMatchObject([{ kind: 'operation', node: 'first', value: { tool: 'charge' } }]);
  expect(charges).toHaveLength(1);
  const [unknown] = await at.client.operations({ threadId: asked.thread_id });
  expect(unknown?.status).toBe('unknown');
  const { answered } = await at.client.resolveOperation(unknown?.operation_id ?? '', {
    happened: 'the books say: 20',
  });
  const last = await at.client.waitForRun(answered?.run_id ?? '');
  expect(last).toMatchObject({
    status: 'success',
    values: { log: ['the books say: 20', 'the books say: 20'] },
  });
  expect(charges).toHaveLength(1);
});
