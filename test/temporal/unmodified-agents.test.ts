import { setTimeout as delay } from 'node:timers/promises';
import { tool, type ToolRunnableConfig } from '@langchain/core/tools';
import { MemorySaver, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode, createReactAgent } from '@langchain/langgraph/prebuilt';
import { createAgent, createMiddleware, type AgentMiddleware } from 'langchain';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { withShape } from '../../src/graph/load-graphs.ts';
import { undeclaredTools } from '../../src/graph/tool-nodes.ts';
import { durableTools } from '../../src/index.ts';
import { ScriptedModel } from '../operations/scripted-model.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const schema = z.object({});
const calls: string[] = [];
const named = (name: string, metadata?: Record<string, unknown>) =>
  tool(
    () => {
      calls.push(name);
      return `did ${name}`;
    },
    { name, description: name, schema, ...(metadata ? { metadata } : {}) },
  );
const plan = (...names: string[]) =>
  new ScriptedModel([names.map((name) => ({ name, args: {}, id: `call-${name}` }))]);
const tools = [
  named('unknown'),
  named('read', { annotations: { readOnlyHint: true } }),
  named('repeat', { annotations: { idempotentHint: true } }),
  named('own', { perdure: { kind: 'pure' } }),
  named('declared', { annotations: { readOnlyHint: true } }),
  named('off'),
];
const NAMES = tools.map(({ name }) => name);
const SETTINGS = { declared: { kind: 'idempotent' as const }, off: false as const };
const agent = (middleware: AgentMiddleware[] = []) =>
  createAgent({ model: plan(...NAMES), tools, middleware });
const declaredAgent = defineGraph({ name: 'declared', version: '1', graph: agent(), tools: SETTINGS });
const inside = new StateGraph(MessagesAnnotation)
  .addNode('agent', agent().graph)
  .addEdge(START, 'agent')
  .compile();
// eslint-disable-next-line typescript/no-deprecated -- people still have it
const prebuilt = createReactAgent({ llm: plan('unknown'), tools: [named('unknown')] });
const toolNode = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: [await plan('unknown').invoke(messages)] }))
  .addNode('tools', new ToolNode([named('unknown')]))
  .addEdge(START, 'model')
  .addEdge('model', 'tools')
  .compile();
const dynamic = createAgent({
  model: plan('supplied'),
  tools: [],
  middleware: [
    createMiddleware({
      name: 'supplier',
      wrapModelCall: (request, handler) => handler({ ...request, tools: [named('supplied')] }),
      wrapToolCall: (request, handler) => handler({ ...request, tool: named('supplied') }),
    }),
  ],
});
const middleware = agent([durableTools({ kinds: { unknown: 'idempotent' } })]);

/** Tools that go on for a while, whatever they are told. */
const live = { now: 0, most: 0, told: 0, begun: 0 };
const stubborn = tool(
  async (_, { signal }: ToolRunnableConfig) => {
    live.begun += 1;
    live.now += 1;
    live.most = Math.max(live.most, live.now);
    const begun = Date.now();
    signal?.addEventListener('abort', () => (live.told = Date.now() - begun), { once: true });
    if (live.begun === 1) await delay(1_500);
    live.now -= 1;
    return 'done';
  },
  { name: 'stubborn', description: 'x', schema, metadata: { perdure: { kind: 'idempotent' } } },
);
const timedOut = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: [await plan('stubborn').invoke(messages)] }))
  .addNode('tools', new ToolNode([stubborn], { handleToolErrors: false }), { timeout: 300 })
  .addEdge(START, 'model')
  .addEdge('model', 'tools')
  .compile();
let toldToStop = 0;
const patient = tool(
  async (_, { signal }: ToolRunnableConfig) => {
    calls.push('patient');
    await delay(60_000, undefined, signal ? { signal } : {}).catch((error: unknown) => {
      toldToStop = Date.now();
      throw error;
    });
    return 'never';
  },
  { name: 'patient', description: 'x', schema },
);
const cancelled = createAgent({ model: plan('patient'), tools: [patient] });

const graphs = {
  agent: agent(),
  declared: declaredAgent,
  inside,
  prebuilt,
  toolNode,
  dynamic,
  middleware,
  timedOut,
  cancelled,
};
let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

const input = { messages: [{ role: 'user', content: 'go' }] };
async function operations(graph: keyof typeof graphs): Promise<Record<string, string>> {
  const result = await at.client.run({ graph, input });
  expect(result).toMatchObject({ status: 'success' });
  const found = await at.client.operations({ threadId: result.thread_id });
  expect(found.every(({ status }) => status === 'succeeded')).toBe(true);
  return Object.fromEntries(found.map(({ tool: name, kind }) => [name, kind]));
}

test('each tool call of an agent is an operation, of the kind that is declared, else exclusive', async () => {
  const byThemselves = {
    unknown: 'exclusive',
    read: 'pure',
    repeat: 'idempotent',
    own: 'pure',
    declared: 'pure',
    off: 'exclusive',
  };
  expect(await operations('agent')).toEqual(byThemselves);
  expect(await operations('inside')).toEqual(byThemselves);
});

test("what the graph declares wins over the tool's own word, and can leave a tool alone", async () => {
  const { off: _, ...rest } = {
    unknown: 'exclusive',
    read: 'pure',
    repeat: 'idempotent',
    own: 'pure',
    declared: 'idempotent',
    off: '',
  };
  expect(await operations('declared')).toEqual(rest);
});

test("LangGraph's own ToolNode and agent, and tools that a middleware supplies, are covered too", async () => {
  expect(await operations('prebuilt')).toEqual({ unknown: 'exclusive' });
  expect(await operations('toolNode')).toEqual({ unknown: 'exclusive' });
  expect(await operations('dynamic')).toEqual({ supplied: 'exclusive' });
});

test('durableTools() keeps its say, and makes one operation of a call', async () => {
  expect(await operations('middleware')).toMatchObject({ unknown: 'idempotent', read: 'pure' });
});

test('outside of a run the same graph behaves as before', async () => {
  calls.length = 0;
  const alone = graphs.agent.graph.withConfig({});
  alone.checkpointer = new MemorySaver();
  const result = await alone.invoke(input as never, { configurable: { thread_id: 'x' } });
  expect(calls.toSorted()).toEqual(NAMES.toSorted());
  expect(result.messages.at(-1)?.text).toContain('did unknown');
});

test('the tools that nobody has declared are named', () => {
  expect(undeclaredTools(withShape(declaredAgent))).toEqual(['unknown']);
  const governed = defineGraph({ name: 'm', version: '1', graph: middleware });
  expect(undeclaredTools(withShape(governed))).toEqual([]);
});

test('E14: a timed-out tool that still runs when its retry starts is told at once, and never runs twice at a time', async () => {
  const result = await at.client.run({
    graph: 'timedOut',
    input,
    config: { retry: { maximumAttempts: 9, initialInterval: 10 } },
  });
  expect(result.status).toBe('success');
  expect(live.most).toBe(1);
  expect(live.told).toBeLessThan(1_000);
  expect(live.begun).toBe(2);
});

test("E14: a cancel reaches the tool of an agent as its config's signal", async () => {
  calls.length = 0;
  const { thread_id, run_id } = await at.client.startRun({ graph: 'cancelled', input });
  await until(() => calls.includes('patient'));
  const asked = Date.now();
  await at.client.cancel(thread_id);
  expect((await at.client.waitForRun(run_id)).status).toBe('cancelled');
  expect(toldToStop - asked).toBeLessThan(2_000);
});
