import { HumanMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages';
import { tool, type StructuredToolInterface } from '@langchain/core/tools';
import { Command, INTERRUPT, interrupt, isInterrupted, MemorySaver } from '@langchain/langgraph';
import { createAgent, createMiddleware, toolRetryMiddleware, type AgentMiddleware } from 'langchain';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { EffectKind, OperationView } from '../../src/contracts/operations.ts';
import { durableTool } from '../../src/operations/durable-tool.ts';
import { declaredKind } from '../../src/operations/declared-kind.ts';
import { durableTools } from '../../src/operations/durable-tools.ts';
import { listOperations, resolveOperation } from '../../src/operations/ledger-views.ts';
import type { Database } from '../../src/postgres/database.ts';
import { dropLedger, openLedger, TestThread } from './fixture.ts';
import { ScriptedModel, type PlannedCall } from './scripted-model.ts';

let database: Database;
let thread: TestThread;
let effects: string[];
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  thread = await TestThread.open(database);
  effects = [];
});

const schema = z.object({ to: z.string() });
const mail = tool(({ to }) => `mail ${effects.push(`mail ${to}`)} to ${to}`, {
  name: 'send_mail',
  description: 'd',
  schema,
});
/** Asks, and then acts. */
const askManager = tool(
  ({ to }) => {
    const answer = interrupt<string, string>(`ask ${to}?`);
    effects.push(`asked ${to}: ${answer}`);
    return answer;
  },
  { name: 'ask_manager', description: 'd', schema },
);

type AgentOptions = {
  turns: PlannedCall[][];
  middleware?: AgentMiddleware[];
  tools?: StructuredToolInterface[];
  saver?: MemorySaver;
};

const agentOf = ({
  turns,
  middleware = [durableTools()],
  tools = [mail, askManager],
  saver = new MemorySaver(),
}: AgentOptions) => createAgent({ model: new ScriptedModel(turns), tools, middleware, checkpointer: saver });
type Agent = ReturnType<typeof agentOf>;

const hello = { messages: [new HumanMessage('go')] };
const begin = (agent: Agent): Promise<unknown> => thread.run(() => agent.invoke(hello, thread.config));
const goOn = (agent: Agent, input: unknown): Promise<unknown> =>
  thread.run(() => agent.graph.invoke(input as null, thread.config));
const operations = (): Promise<OperationView[]> =>
  listOperations(database, 'default', { threadId: thread.threadId });
const told = async (): Promise<string[]> =>
  (await operations()).map((each) => `${each.tool} ${each.status} ${each.attempts}`).sort();

function question(state: unknown): string {
  return (isInterrupted(state) && state[INTERRUPT][0]?.id) || '';
}
const answers = (state: unknown): string[] =>
  (state as { messages: BaseMessage[] }).messages
    .filter((each) => ToolMessage.isInstance(each))
    .map((each) => `${each.tool_call_id}: ${each.text}`)
    .sort();

const errorsToModel = createMiddleware({
  name: 'errors-to-model',
  wrapToolCall: async (request, handler) => {
    try {
      return await handler(request);
    } catch (error) {
      return new ToolMessage({
        content: String(error),
        tool_call_id: request.toolCall.id ?? '',
        status: 'error',
      });
    }
  },
});

describe('a tool that asks a person, beside one that acts', () => {
  const turns = [
    [
      { name: 'send_mail', args: { to: 'mira' }, id: 'call_1' },
      { name: 'ask_manager', args: { to: 'tom' }, id: 'call_2' },
    ],
  ];

  test.each(['yes', 'no'])(
    'one mail, and one message for each call, when the answer is %s',
    async (answer) => {
      const agent = agentOf({ turns });
      const asked = await begin(agent);
      expect(await told()).toEqual(['ask_manager pending 0', 'send_mail succeeded 1']);
      const end = await goOn(agent, new Command({ resume: { [question(asked)]: answer } }));
      expect(answers(end)).toEqual(['call_1: mail 1 to mira', `call_2: ${answer}`]);
      expect(effects).toEqual(['mail mira', `asked tom: ${answer}`]);
      expect(await told()).toEqual(['ask_manager succeeded 1', 'send_mail succeeded 1']);
    },
  );

  test('one mail when the worker died and its checkpoints with it', async () => {
    await begin(agentOf({ turns }));
    const agent = agentOf({ turns });
    const asked = await begin(agent);
    const end = await goOn(agent, new Command({ resume: { [question(asked)]: 'no' } }));
    expect(answers(end)).toEqual(['call_1: mail 1 to mira', 'call_2: no']);
    expect(effects).toEqual(['mail mira', 'asked tom: no']);
  });
});

describe('a question inside a wrapper', () => {
  const turns = [[{ name: 'ask_manager', args: { to: 'tom' }, id: 'call_1' }]];
  const retry = toolRetryMiddleware({ maxRetries: 3, initialDelayMs: 1, onFailure: 'continue' });

  test.each<[string, () => AgentMiddleware[]]>([
    ["LangChain's own retry", () => [durableTools(), retry]],
    ['a handler that makes messages of errors', () => [durableTools(), errorsToModel]],
    ['both', () => [durableTools(), errorsToModel, retry]],
  ])('passes %s: asked once, no attempt counted, no message made of it', async (_what, middleware) => {
    const agent = agentOf({ turns, middleware: middleware() });
    const asked = await begin(agent);
    expect(answers(asked)).toEqual([]);
    expect(await told()).toEqual(['ask_manager pending 0']);
    const end = await goOn(agent, new Command({ resume: { [question(asked)]: 'yes' } }));
    expect(answers(end)).toEqual(['call_1: yes']);
    expect(effects).toEqual(['asked tom: yes']);
    expect(await told()).toEqual(['ask_manager succeeded 1']);
  });

  test('passes a durable tool in an agent that has no middleware', async () => {
    const agent = agentOf({ turns, middleware: [], tools: [durableTool(askManager, { kind: 'exclusive' })] });
    const asked = await begin(agent);
    const end = await goOn(agent, new Command({ resume: { [question(asked)]: 'yes' } }));
    expect(answers(end)).toEqual(['call_1: yes']);
    expect(await told()).toEqual(['ask_manager succeeded 1']);
  });

  test('an exclusive tool whose reply was lost is not called again by a retry, on either side', async () => {
    const lost = tool(
      ({ to }) => {
        effects.push(`mail ${to}`);
        throw new Error('the reply was lost');
      },
      { name: 'send_mail', description: 'd', schema },
    );
    const plan = [[{ name: 'send_mail', args: { to: 'mira' }, id: 'call_1' }]];
    const agent = agentOf({ turns: plan, tools: [lost], middleware: [durableTools(), retry] });
    const asked = await begin(agent);
    expect(question(asked)).toMatch(/^op-[0-9a-f]{16}-1$/);
    expect(effects).toEqual(['mail mira']);
    const [unknown] = await operations();
    await resolveOperation(
      database,
      'default',
      unknown?.operation_id ?? '',
      { happened: 'sent' },
      'user:mira',
    );
    expect(answers(await goOn(agent, null))).toEqual(['call_1: sent']);
    expect(effects).toEqual(['mail mira']);
    thread = await TestThread.open(database);
    await begin(agentOf({ turns: plan, tools: [lost], middleware: [retry, durableTools()] }));
    expect(effects).toEqual(['mail mira', 'mail mira']);
    expect(await told()).toEqual(['send_mail unknown 1']);
  });
});

describe('a charge whose reply was lost, planned again under a new tool-call id', () => {
  const charged = (order: string, amount: number, id: string): PlannedCall[] => [
    { name: 'charge', args: { order, amount }, id },
  ];
  const chargeSchema = z.object({ order: z.string(), amount: z.number() });
  test('is charged once, and refused with other arguments', async () => {
    let ran = 0;
    const books = new Map<string, number>();
    const order = `1042-${thread.threadId}`;
    const charge = durableTool(
      {
        name: 'charge',
        description: 'd',
        schema: chargeSchema,
        kind: 'idempotent',
        businessKey: (input) => `charge:${input.order}`,
      },
      (input, call) => {
        ran += 1;
        books.set(call.operationId, input.amount);
        if (ran === 1) throw Object.assign(new Error('the reply was lost'), { code: 'ECONNRESET' });
        return `charged ${input.amount}`;
      },
    );
    const turns = [
      charged(order, 20, 'call_1'),
      charged(order, 20, 'call_2'),
      charged(order, 20, 'call_3'),
      charged(order, 200, 'call_4'),
    ];
    const agent = createAgent({
      model: new ScriptedModel(turns),
      tools: [charge],
      middleware: [durableTools(), errorsToModel],
    });
    const end = await thread.run(() => agent.invoke(hello));
    expect(answers(end)).toEqual([
      'call_1: Error: the reply was lost',
      'call_2: charged 20',
      'call_3: charged 20',
      expect.stringMatching(/^call_4: OperationConflictError: /),
    ]);
    expect([...books.values()]).toEqual([20]);
    expect(ran).toBe(2);
  });
});

describe('the middleware', () => {
  test.each<[Record<string, unknown>, EffectKind | undefined]>([
    [{ perdure: { kind: 'reconcilable' }, readOnlyHint: true }, 'reconcilable'],
    [{ annotations: { readOnlyHint: true } }, 'pure'],
    [{ annotations: { readOnlyHint: false, idempotentHint: true } }, 'idempotent'],
    [{ idempotentHint: true }, 'idempotent'],
    [{ annotations: { destructiveHint: true } }, undefined],
    [{}, undefined],
  ])('reads the kind of a tool from %j', (metadata, kind) => {
    expect(declaredKind('t', { metadata })).toBe(kind);
  });

  test('refuses a kind that does not exist, and a reconcilable tool without a lookup', () => {
    expect(() => declaredKind('t', { metadata: { perdure: { kind: 'safe' } } })).toThrow(
      "metadata.perdure.kind of tool 't'",
    );
    expect(() => durableTools({ kinds: { t: 'reconcilable' } })).toThrow('gives no lookup');
  });

  test('covers tools that another middleware provides, and business keys by name', async () => {
    const provider = createMiddleware({
      name: 'provider',
      wrapToolCall: (request, handler) => handler({ ...request, tool: request.tool ?? mail }),
      wrapModelCall: (request, handler) => handler({ ...request, tools: [...(request.tools ?? []), mail] }),
    });
    const to = thread.threadId;
    const turns = ['call_1', 'call_2'].map((id) => [{ name: 'send_mail', args: { to }, id }]);
    const middleware = [
      durableTools({
        kinds: { send_mail: 'idempotent' },
        businessKeys: { send_mail: (input) => `mail:${String(input['to'])}` },
      }),
      provider,
    ];
    const end = await begin(agentOf({ turns, tools: [askManager], middleware }));
    expect(answers(end)).toEqual([`call_1: mail 1 to ${to}`, `call_2: mail 1 to ${to}`]);
    expect(await operations()).toMatchObject([
      { operation_id: `key:mail:${to}`, kind: 'idempotent', node: 'tools', tool_call_id: 'call_1' },
    ]);
  });

  test('lets the model correct its input', async () => {
    const turns = [
      [{ name: 'send_mail', args: { to: 7 }, id: 'call_1' }],
      [{ name: 'send_mail', args: { to: 'mira' }, id: 'call_2' }],
    ];
    const end = await begin(agentOf({ turns }));
    expect(answers(end)).toEqual([
      expect.stringContaining('call_1: Error invoking tool'),
      'call_2: mail 1 to mira',
    ]);
    expect(await told()).toEqual(['send_mail succeeded 1']);
  });
});
