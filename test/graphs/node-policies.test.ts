import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, expect, test } from 'vitest';
import { defineGraph, type DefineGraphOptions } from '../../src/graph/define-graph.ts';
import { readProject } from '../../src/graph/langgraph-json.ts';
import { loadGraph } from '../../src/graph/load-graphs.ts';

const graph = new StateGraph(Annotation.Root({ x: Annotation<number>() }))
  .addNode('model', () => ({}))
  .addNode('tools', () => ({}))
  .addEdge(START, 'model')
  .addEdge('model', 'tools')
  .compile();
const define = (nodes: DefineGraphOptions['nodes']) =>
  defineGraph({ name: 'g', version: '1', graph, nodes: nodes ?? {} });

const folder = mkdtempSync(join(tmpdir(), 'perdure-policies-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A project whose graph is unmodified, with what langgraph.json says of its nodes. */
async function load(nodes: object) {
  const langgraph = new URL('../../node_modules/@langchain/langgraph/dist/index.js', import.meta.url).href;
  writeFileSync(
    join(folder, 'graph.mjs'),
    `import { Annotation, START, StateGraph } from '${langgraph}';
     export const graph = new StateGraph(Annotation.Root({ x: Annotation() })).addNode('model', () => ({})).addEdge(START, 'model').compile();`,
  );
  const file = join(folder, 'langgraph.json');
  writeFileSync(
    file,
    JSON.stringify({ graphs: { g: './graph.mjs:graph' }, perdure: { graphs: { g: { nodes } } } }),
  );
  const [source] = readProject(file).graphs;
  if (!source) throw new Error('no graph');
  return loadGraph(source);
}

test('durations are in ms, or as Temporal writes them', () => {
  const { nodes } = define({
    tools: { startToCloseTimeout: '2 minutes', heartbeatTimeout: 3_000, retry: { initialInterval: '5s' } },
  });
  expect(nodes).toEqual({
    tools: { startToCloseTimeout: 120_000, heartbeatTimeout: 3_000, retry: { initialInterval: 5_000 } },
  });
});

test('a policy for a node that is not there names those that are', () => {
  expect(() => define({ tool: { run: 'activity' } })).toThrow(
    "defineGraph: nodes.tool of 'g': the graph has no such node; it has model, tools.",
  );
});

test('a wrong policy names the place', () => {
  expect(() => define({ tools: { startToCloseTimeout: 'soon' } })).toThrow('nodes.tools.startToCloseTimeout');
  expect(() => define({ tools: { heartbeatTimeout: 500 } })).toThrow('at least 2 seconds');
  expect(() => define({ tools: { concurrency: 0 } })).toThrow('nodes.tools.concurrency');
});

test("langgraph.json's policies hold for an unmodified graph", async () => {
  const loaded = await load({ model: { taskQueue: 'gpu', startToCloseTimeout: '1h' } });
  expect(loaded.activityNodes.policy('model')).toEqual({ taskQueue: 'gpu', startToCloseTimeout: 3_600_000 });
  expect(loaded.activityNodes.taskQueues()).toEqual(['gpu']);
  await expect(load({ tools: {} })).rejects.toThrow(
    'langgraph.json: perdure.graphs.g.nodes.tools: the graph has no such node; it has model.',
  );
  await expect(load({ model: { queue: 'gpu' } })).rejects.toThrow('perdure.graphs.g.nodes.model');
});
