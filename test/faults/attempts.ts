import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { ForkRequest, RunResult } from '../../src/contracts/runs.ts';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { checkpointThreadId } from '../../src/contracts/ids.ts';
import { asCompiledGraph, defineGraph } from '../../src/graph/define-graph.ts';
import { resolveOperation } from '../../src/operations/ledger-views.ts';
import type { Fault } from '../../src/telemetry/fault-points.ts';
import { answerInterrupt } from '../../src/threads/answer.ts';
import { requestFork } from '../../src/threads/request-fork.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { openInstallation } from '../support/installation.ts';
import type { AttemptOrder } from './attempt-child.ts';
import { attemptGraphs, TOOLS } from './attempt-graphs.ts';
import { effectsIn, makeEffects } from './effects.ts';
import { bundledScript } from './bundled-script.ts';
import { endProcesses } from './processes.ts';
import { segmentsOf } from './segments.ts';

export type GraphName = keyof ReturnType<typeof attemptGraphs>;

/** What is left of a thread's life. */
export type Left = {
  thread: string;
  values: Record<string, unknown>;
  next: string[];
  effects: string[];
  operations: string[];
  supersteps: number[];
};

/** What is said to the questions of a thread: to the graph's own, and as an operation's result where it happened. */
export type Answers = { own: JsonValue; result: JsonValue };

/** Threads that are advanced attempt by attempt, in this process or in one that is killed, without a Temporal. */
export type Attempts = {
  begin(graph: GraphName, input: JsonValue): Promise<string>;
  /** Begins a new branch before the superstep. */
  fork(threadId: string, superstep: number, request: Omit<ForkRequest, 'checkpoint_id'>): Promise<void>;
  /** Begins a new branch at a checkpoint of the thread's subgraph, counted from the oldest. */
  forkInside(threadId: string, index: number, request: Omit<ForkRequest, 'checkpoint_id'>): Promise<void>;
  /** An attempt in a process of its own. @throws Error when it was not killed at the point. */
  killed(graph: GraphName, threadId: string, point: string): Promise<void>;
  /** Attempts in this process until the thread's runs have ended; gives the last one. */
  advance(graph: GraphName, threadId: string): Promise<RunResult>;
  /** Answers the oldest question of an interrupted run, truthfully where it is about an operation. */
  answer(threadId: string, run: RunResult, answers: Answers): Promise<'interrupt' | 'operation' | 'timer'>;
  left(graph: GraphName, threadId: string): Promise<Left>;
  close(): Promise<void>;
};

export async function openAttempts(): Promise<Attempts> {
  const at = await openInstallation('attempts');
  const { database, client } = at;
  const attempt = await bundledScript('attempt-child');
  await makeEffects(database);
  const effects = effectsIn(database);
  const graphs = attemptGraphs(effects);
  await at.register(graphs);
  const segment = segmentsOf(
    database,
    Object.entries(graphs).map(([name, graph]) => defineGraph({ name, version: '1', graph, tools: TOOLS })),
  );
  return {
    async begin(graph, input) {
      const run = await requestRun(database, 'default', { graph, input, thread_id: randomUUID() });
      return run.thread_id;
    },
    async fork(threadId, superstep, request) {
      const found = (await client.history(threadId, 100)).find((entry) => entry.superstep === superstep - 1);
      const checkpoint_id = found?.checkpoint_id ?? '';
      await requestFork(database, 'default', threadId, { ...request, checkpoint_id });
    },
    async forkInside(threadId, index, request) {
      const all = await client.history(threadId, 100, { subgraphs: true });
      const inside = all.filter((entry) => entry.checkpoint_ns !== '').toReversed();
      const checkpoint_id = inside[index]?.checkpoint_id ?? '';
      await requestFork(database, 'default', threadId, { ...request, checkpoint_id });
    },
    async killed(graph, threadId, point) {
      const order: AttemptOrder = {
        databaseUrl: inject('databaseUrl'),
        schema: at.schema,
        graph,
        threadId,
        fault: faultOf(point),
      };
      const end = await attempt.start(order).ended;
      if (end.signal !== 'SIGKILL') throw new Error(`not killed at ${point}: ${JSON.stringify(end)}`);
    },
    async advance(graph, threadId) {
      while ((await segment(graph, threadId)).more);
      const [newest] = await client.runs(threadId, 1);
      return client.readRun(newest?.run_id ?? '');
    },
    async answer(threadId, run, { own, result }) {
      const [question] = run.interrupts ?? [];
      if (question === undefined) throw new Error(`nothing is asked: ${JSON.stringify(run)}`);
      const value = question.kind === 'operation' ? await resolve(question.value, result) : own;
      const answer = { thread_id: threadId, interrupt_id: question.id, value, actor: 'user:clerk' };
      await answerInterrupt(database, 'default', answer);
      return question.kind;
    },
    async left(graph, threadId) {
      const [thread, history, operations, state] = await Promise.all([
        client.thread(threadId),
        client.history(threadId, 100),
        client.operations({ threadId }),
        stateOf(graph, threadId),
      ]);
      return {
        thread: thread.status,
        values: state.values,
        next: state.next,
        effects: await effects.of(threadId),
        operations: operations.map((each) => `${each.tool} ${each.status}`).sort(),
        supersteps: history.map((entry) => entry.superstep).toReversed(),
      };
    },
    async close() {
      await endProcesses();
      await attempt.remove();
      await at.close();
    },
  };

  /** As LangGraph itself reads it. */
  async function stateOf(name: GraphName, threadId: string): Promise<Pick<Left, 'values' | 'next'>> {
    const graph = asCompiledGraph(graphs[name])?.withConfig({});
    if (graph === undefined) throw new Error(`${name} is no graph`);
    graph.checkpointer = new PerdureSaver(database);
    const config = { configurable: { thread_id: checkpointThreadId('default', threadId) } };
    const { values, next } = await graph.getState(config);
    return { values, next };
  }

  async function resolve(question: JsonValue, result: JsonValue): Promise<JsonValue> {
    const { operation_id: id } = question as { operation_id: string };
    const resolution = (await effects.happened(id)) ? { happened: result } : { retry: true as const };
    await resolveOperation(database, 'default', id, resolution, 'user:clerk');
    return resolution;
  }
}

function faultOf(text: string): Fault {
  const [point = '', nth = '1'] = text.split('#');
  return { point, nth: Number(nth) };
}
