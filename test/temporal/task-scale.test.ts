import { setTimeout as delay } from 'node:timers/promises';
import { tool } from '@langchain/core/tools';
import { Annotation, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { createAgent } from 'langchain';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { ScriptedModel } from '../operations/scripted-model.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { taskActivities } from '../support/task-activities.ts';

const KB = 1_000;
const RUNS = 50;
const SENDS = 1_000;
const TOOLS = 40;

/** Two tools of one message, each of which asks after a while. */
const asks = (name: string) =>
  tool(
    async () => {
      await delay(Math.random() * 20);
      const answer: unknown = interrupt({ ask: name });
      await delay(Math.random() * 20);
      return `${name} got ${String(answer)}`;
    },
    { name, description: name, schema: z.object({}), metadata: { perdure: { kind: 'pure' } } },
  );
const asking = createAgent({
  model: new ScriptedModel([['left', 'right'].map((name) => ({ name, args: {}, id: `call-${name}` }))]),
  tools: [asks('left'), asks('right')],
});

const heavy = (name: string, size: number, args: number, count: number) =>
  createAgent({
    model: new ScriptedModel([
      Array.from({ length: count }, (_, i) => ({
        name,
        args: { i, text: String(i % 10).repeat(args) },
        id: `call-${i}`,
      })),
    ]),
    tools: [
      tool(({ i, text }: { i: number; text: string }) => `${i}:${text.length}:`.padEnd(size, 'r'), {
        name,
        description: name,
        schema: z.object({ i: z.number(), text: z.string() }),
        metadata: { perdure: { kind: 'pure' } },
      }),
    ],
  });
const bigResult = heavy('fetch', 3 * 1_024 * KB, 10, 1);
const bigArguments = heavy('store', 10, 150 * KB, TOOLS);

const State = Annotation.Root({
  log: Annotation<number[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const live = { now: 0, most: 0 };
const fan = (count: number) =>
  new StateGraph(State)
    .addNode('plan', () => ({}))
    .addNode('work', async ({ i }: { i: number }) => {
      live.now += 1;
      live.most = Math.max(live.most, live.now);
      await delay(5);
      live.now -= 1;
      return { log: [i] };
    })
    .addEdge(START, 'plan')
    .addConditionalEdges('plan', () => Array.from({ length: count }, (_, i) => new Send('work', { i })), [
      'work',
    ])
    .addEdge('work', END)
    .compile();
const nodes = { work: { run: 'activity' as const, concurrency: 20 } };
const graphs = {
  asking,
  bigResult,
  bigArguments,
  many: defineGraph({ name: 'many', version: '1', graph: fan(SENDS), nodes }),
  few: defineGraph({
    name: 'few',
    version: '1',
    graph: fan(12),
    nodes: { work: { ...nodes.work, concurrency: 3 } },
  }),
};

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
  await at.startWorker({ many: graphs.many });
}, 60_000);
afterAll(() => at.close());

const input = { messages: [{ role: 'user', content: 'go' }] };
const toolMessages = (values: unknown) =>
  (values as { messages: { type: string; content: string }[] }).messages.filter(
    ({ type }) => type === 'tool',
  );
const historyBytes = async (threadId: string) =>
  (await at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', threadId)).describe())
    .historySize ?? 0;

test(
  `each of two parallel tools that ask gets its own answer, in ${RUNS} runs of ${RUNS}`,
  { timeout: 120_000 },
  async () => {
    const one = async () => {
      const first = await at.client.run({ graph: 'asking', input });
      const asked = (first.interrupts ?? []).map(({ id, value }) => ({
        id,
        name: (value as { ask: string }).ask,
      }));
      expect(asked.map(({ name }) => name).toSorted()).toEqual(['left', 'right']);
      for (const { id, name } of Math.random() < 0.5 ? asked : asked.toReversed()) {
        const { run_id } = await at.client.answer(first.thread_id, `for ${name}`, { interruptId: id });
        await at.client.waitForRun(run_id);
      }
      const [last] = await at.client.runs(first.thread_id, 1);
      const result = await at.client.readRun(last?.run_id ?? '');
      expect(toolMessages(result.values).map(({ content }) => content)).toEqual([
        'left got for left',
        'right got for right',
      ]);
      return asked.map(({ id }) => id);
    };
    for (let begun = 0; begun < RUNS; begun += 25) await Promise.all(Array.from({ length: 25 }, one));
  },
);

test('a tool result of 3 MiB goes by reference', async () => {
  const result = await at.client.run({ graph: 'bigResult', input });
  expect(result.status).toBe('success');
  expect(toolMessages(result.values)[0]?.content.length).toBe(3 * 1_024 * KB);
  expect(await historyBytes(result.thread_id)).toBeLessThan(20 * KB);
});

test(
  `${TOOLS} parallel tools with arguments of 150 kB each go by reference`,
  { timeout: 60_000 },
  async () => {
    const result = await at.client.run({ graph: 'bigArguments', input });
    expect(result.status).toBe('success');
    expect(toolMessages(result.values).map(({ content }) => content.split(':').slice(0, 2))).toEqual(
      Array.from({ length: TOOLS }, (_, i) => [String(i), String(150 * KB)]),
    );
    const activities = await taskActivities(at, result.thread_id);
    expect(activities.length).toBe(TOOLS);
    expect(activities[0]?.summary).toBe(`tools · store · ${result.thread_id}`);
    expect(await historyBytes(result.thread_id)).toBeLessThan(TOOLS * 3 * KB);
  },
);

test(`${SENDS} tasks complete in order on two workers, windowed`, { timeout: 120_000 }, async () => {
  live.most = 0;
  const result = await at.client.run({ graph: 'many', input: { log: [] } });
  expect(result).toMatchObject({ status: 'success' });
  expect((result.values as { log: number[] }).log).toEqual(Array.from({ length: SENDS }, (_, i) => i));
  expect(live.most).toBeGreaterThan(1);
  expect(live.most).toBeLessThanOrEqual(20);
});

test("no more of a node's tasks run at once than its policy, or the run, allows", async () => {
  for (const [config, most] of [
    [{}, 3],
    [{ max_concurrency: 2 }, 2],
  ] as const) {
    live.most = 0;
    const result = await at.client.run({ graph: 'few', input: { log: [] }, config });
    expect(result).toMatchObject({ status: 'success', values: { log: { length: 12 } } });
    expect(live.most).toBeGreaterThan(1);
    expect(live.most).toBeLessThanOrEqual(most);
  }
});
