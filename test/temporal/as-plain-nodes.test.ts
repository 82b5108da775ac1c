import { AIMessage, type BaseMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import {
  Annotation,
  END,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
  type LangGraphRunnableConfig,
} from '@langchain/langgraph';
import { createAgent, FakeToolCallingModel } from 'langchain';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  key: Annotation<string>(),
});

/** How often a node was entered, by the key of its input. */
const entered = new Map<string, number>();
function enter(key: string): number {
  const times = (entered.get(key) ?? 0) + 1;
  entered.set(key, times);
  return times;
}

const quickly = { initialInterval: 1, maxInterval: 2, jitter: false, logWarning: false };
const retried = new StateGraph(State)
  .addNode(
    'flaky',
    ({ key }) => {
      if (enter(key) < 3) throw new Error('not yet');
      return { log: [`after ${entered.get(key)}`] };
    },
    { retryPolicy: { ...quickly, maxAttempts: 3 } },
  )
  .addNode(
    'picky',
    ({ key }) => {
      enter(`${key} picky`);
      throw new RangeError('never again');
    },
    {
      retryPolicy: {
        ...quickly,
        maxAttempts: 5,
        retryOn: (error: unknown) => !(error instanceof RangeError),
      },
    },
  )
  .addEdge(START, 'flaky')
  .addConditionalEdges('flaky', ({ key }) => (key.endsWith('picky') ? 'picky' : END), ['picky', END])
  .compile();

const handled = new StateGraph(State)
  .addNode(
    'fails',
    ({ key }) => {
      enter(key);
      throw new TypeError(`no ${key}`);
    },
    {
      errorHandler: (_state: unknown, error: { error: Error }) => ({
        log: [`handled ${error.error.name}: ${error.error.message}`],
      }),
    },
  )
  .addNode('beside', () => ({ log: ['beside'] }))
  .addNode('after', () => ({ log: ['after'] }))
  .addEdge(START, 'fails')
  .addEdge(START, 'beside')
  .addEdge(['fails', 'beside'], 'after')
  .compile();

const timed = new StateGraph(State)
  .addNode(
    'slow',
    (_, config: LangGraphRunnableConfig) =>
      new Promise<never>((_resolve, reject) => {
        config.signal?.addEventListener('abort', () => reject(new Error('aborted')));
      }),
    { timeout: { runTimeout: 50 } },
  )
  .addEdge(START, 'slow')
  .compile();

const Context = z.object({ user: z.string(), level: z.number().default(3) });
const told = new StateGraph(State, Context)
  .addNode('look', (_, runtime: LangGraphRunnableConfig) => {
    runtime.writer?.({ progress: 'half' });
    return { log: [JSON.stringify(runtime.context), String(runtime.configurable?.['flavour'])] };
  })
  .addEdge(START, 'look')
  .compile();

const talk = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({
    messages: [new AIMessage({ content: `answer ${messages.length}`, id: `ai-${messages.length}` })],
  }))
  .addEdge(START, 'answer')
  .compile();

const weather = tool(({ city }: { city: string }) => `sun in ${city}`, {
  name: 'weather',
  description: 'The weather.',
  schema: z.object({ city: z.string() }),
});
const ask = tool(({ what }: { what: string }) => `they said ${String(interrupt(what))}`, {
  name: 'ask',
  description: 'Asks a person.',
  schema: z.object({ what: z.string() }),
});
const agent = createAgent({
  model: new FakeToolCallingModel({
    toolCalls: [
      [
        { name: 'weather', args: { city: 'Oslo' }, id: 'w1' },
        { name: 'weather', args: { city: 'Rome' }, id: 'w2' },
      ],
      [],
      [{ name: 'ask', args: { what: 'umbrella?' }, id: 'a1' }],
      [],
    ],
  }),
  tools: [weather, ask],
});

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ retried, handled, timed, told, talk, agent });
});
afterAll(() => at.close());

test("a node's retry policy holds, and counts no attempt of the run", async () => {
  const key = crypto.randomUUID();
  const { run_id, values } = await at.client.run({ graph: 'retried', input: { log: [], key } });
  expect(values).toEqual({ key, log: ['after 3'] });
  const [run] = await at.client.runs((await at.client.readRun(run_id)).thread_id);
  expect(run?.attempts).toBe(1);
});

test('an error that the policy does not retry ends the run at once, and Temporal does not repeat it', async () => {
  const key = `${crypto.randomUUID()} picky`;
  expect(await at.client.run({ graph: 'retried', input: { log: [], key } })).toMatchObject({
    status: 'error',
    error: { name: 'RangeError', message: 'never again' },
  });
  expect(entered.get(`${key} picky`)).toBe(1);
});

test("a node's error handler goes on as in plain LangGraph", async () => {
  const key = crypto.randomUUID();
  const ours = await at.client.run({ graph: 'handled', input: { log: [], key } });
  expect(entered.get(key)).toBe(1);
  expect(ending(ours)).toEqual(await new PlainThread(handled).run({ log: [], key }));
  expect(ours.values).toMatchObject({ log: expect.arrayContaining([`handled TypeError: no ${key}`]) });
});

test("a node's timeout ends the run with LangGraph's error", async () => {
  const ours = await at.client.run({ graph: 'timed', input: { log: [] } });
  expect(ours).toMatchObject({ status: 'error', error: { name: 'NodeTimeoutError' } });
});

test('context and configurable reach the node; a custom writer breaks nothing', async () => {
  const config = { context: { user: 'mira' }, configurable: { flavour: 'plum' } };
  const ours = await at.client.run({ graph: 'told', input: { log: [] }, config });
  expect(ours.values).toMatchObject({ log: [expect.stringContaining('mira'), 'plum'] });
  expect(ending(ours)).toEqual(await new PlainThread(told, config).run({ log: [] }));
});

test('a context that its schema refuses ends the run in an error', async () => {
  const config = { context: { user: 7 } };
  const ours = await at.client.run({ graph: 'told', input: { log: [] }, config });
  expect(ours).toMatchObject({ status: 'error', error: { name: '$ZodError' } });
  expect(ending(ours)).toEqual(await new PlainThread(told, config).run({ log: [] }));
});

test.each(['thread_id', 'checkpoint_id', 'checkpoint_ns', '__pregel_resuming'])(
  'configurable.%s is refused',
  async (name) => {
    await expect(
      at.client.startRun({ graph: 'told', input: {}, config: { configurable: { [name]: 'x' } } }),
    ).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  },
);

test('messages come out as plain objects', async () => {
  const input = { messages: [{ role: 'user', content: 'hello', id: 'h1' }] };
  const { values } = await at.client.run({ graph: 'talk', input });
  expect(values).toMatchObject({
    messages: [
      { type: 'human', content: 'hello', id: 'h1' },
      { type: 'ai', content: 'answer 1', id: 'ai-1' },
    ],
  });
  expect(JSON.stringify(values)).not.toContain('lc_');
});

test('an agent calls two tools at once, and on its second turn waits for a person', async () => {
  const thread_id = crypto.randomUUID();
  const say = (content: string) => ({ messages: [{ role: 'user', content }] });
  const first = await at.client.run({ graph: 'agent', thread_id, input: say('the weather?') });
  expect(first).toMatchObject({ status: 'success' });
  expect(contents(first.values).slice(1, 4)).toMatchObject([expect.anything(), 'sun in Oslo', 'sun in Rome']);
  const second = await at.client.run({ graph: 'agent', thread_id, input: say('do I need one?') });
  expect(second.interrupts).toMatchObject([{ node: 'tools', value: 'umbrella?' }]);
  const last = await at.client.waitForRun((await at.client.answer(thread_id, 'no')).run_id);
  expect(last.status).toBe('success');
  expect(contents(last.values)).toEqual(
    expect.arrayContaining(['the weather?', 'sun in Oslo', 'sun in Rome', 'do I need one?', 'they said no']),
  );
});

function contents(values: unknown): unknown[] {
  if (
    typeof values !== 'object' ||
    values === null ||
    !('messages' in values) ||
    !Array.isArray(values.messages)
  )
    return [];
  return values.messages.map((message: { content: unknown }) => message.content);
}

test('the messages of an agent are the same as in plain LangGraph', async () => {
  const scripted = new StateGraph(MessagesAnnotation)
    .addNode('model', ({ messages }: { messages: BaseMessage[] }) => ({
      messages: messages.some((message) => ToolMessage.isInstance(message))
        ? [new AIMessage({ id: 'done', content: 'done' })]
        : [
            new AIMessage({
              id: 'call',
              content: '',
              tool_calls: [{ name: 'weather', args: { city: 'Oslo' }, id: 'w1' }],
            }),
          ],
    }))
    .addNode('tools', () => ({
      messages: [
        new ToolMessage({ id: 'result', content: 'sun', tool_call_id: 'w1', artifact: { deg: 20 } }),
      ],
    }))
    .addEdge(START, 'model')
    .addConditionalEdges('model', ({ messages }) => (messages.at(-1)?.id === 'done' ? END : 'tools'), [
      'tools',
      END,
    ])
    .addEdge('tools', 'model')
    .compile();
  await at.startWorker({ scripted });
  const input = { messages: [{ role: 'user', content: 'hello', id: 'h' }] };
  expect(ending(await at.client.run({ graph: 'scripted', input }))).toEqual(
    await new PlainThread(scripted).run(input),
  );
});
