import {
  Annotation,
  interrupt,
  Send,
  START,
  StateGraph,
  type LangGraphRunnableConfig,
} from '@langchain/langgraph';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { askPerson, sleep } from '../../src/index.ts';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { WAKE_SIGNAL } from '../../src/contracts/thread-workflow.ts';
import { eventually, until } from '../support/eventually.ts';
import type { Installation } from '../support/installation.ts';

const State = Annotation.Root({
  /** What `second` does: `answer`, `ask`, `wait` until it is cancelled, `fail` the first time, `sleep`, `deadline`. */
  how: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const failed = new Set<string>();
const waiting = new Set<string>();

const graph = (version: string) =>
  defineGraph({
    name: 'lives',
    version,
    graph: new StateGraph(State)
      .addNode('first', () => ({ log: ['first'] }))
      .addNode('second', async ({ how }, { signal, configurable }: LangGraphRunnableConfig) => {
        const id = String(configurable?.['thread_id']);
        if (how === 'ask') return { log: [String(interrupt('go on?'))] };
        if (how === 'sleep') await sleep('1s');
        if (how === 'deadline') return { log: [await askPerson('go on?', { after: '1s', answer: 'late' })] };
        if (how === 'fail' && !failed.has(id)) {
          failed.add(id);
          throw Object.assign(new Error('the far side is away'), { status: 503 });
        }
        if (how !== 'wait') return { log: ['second'] };
        waiting.add(id);
        await new Promise((resolve) => signal?.addEventListener('abort', resolve));
        throw new Error('told to stop');
      })
      .addEdge(START, 'first')
      .addEdge('first', 'second')
      .compile(),
    migrations: { '1->2': (values) => values },
  });

/** As many tasks at once as asked for, each an activity; one fails the first time, or waits until it is cancelled. */
const tasks = defineGraph({
  name: 'tasks',
  version: '1',
  graph: new StateGraph(State)
    .addNode('plan', () => ({}))
    .addNode('task', async ({ i, how }: { i: number; how: string }, config: LangGraphRunnableConfig) => {
      const { signal, configurable } = config;
      const id = String(configurable?.['thread_id']);
      if (how === 'fail' && i === 0 && !failed.has(id)) {
        failed.add(id);
        throw new TypeError('a bug');
      }
      if (how !== 'wait') return { log: [`task ${i}`] };
      waiting.add(id);
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
      throw new Error('told to stop');
    })
    .addNode('alone', () => ({ log: ['alone'] }))
    .addEdge(START, 'plan')
    .addConditionalEdges('plan', ({ how }) => [0, 1, 2].map((i) => new Send('task', { i, how })), ['task'])
    .addEdge('task', 'alone')
    .compile(),
  nodes: {
    task: { run: 'activity', concurrency: 2, retry: { maximumAttempts: 1 } },
    alone: { run: 'activity' },
  },
});
export const served = { one: graph('1'), two: graph('2'), tasks };

/** One typical life of a workflow, lived against real servers. Gives the workflow whose history is to be kept. */
export type Life = (at: Installation) => Promise<{ workflowId: string; runId?: string | undefined }>;

const run = (at: Installation, how: string, thread_id?: string) =>
  at.client.run({
    graph: 'lives',
    version: '1',
    input: { how },
    ...(thread_id === undefined ? {} : { thread_id }),
  });
const start = (at: Installation, how: string, options: object = {}) =>
  at.client.startRun({ graph: 'lives', version: '1', input: { how }, ...options });
const answer = async (at: Installation, thread_id: string) => {
  const { run_id } = await at.client.answer(thread_id, 'yes');
  return at.client.waitForRun(run_id);
};
const workflowOf = ({ schema }: Installation, thread_id: string) => ({
  workflowId: threadWorkflowId(schema, 'default', thread_id),
});

/** By the name of the file that keeps its history. */
export const LIVES: Readonly<Record<string, Life>> = {
  'plain-run': async (at) => workflowOf(at, (await run(at, 'answer')).thread_id),

  'several-runs': async (at) => {
    const { thread_id } = await run(at, 'answer');
    const queued = await Promise.all([1, 2, 3].map(() => start(at, 'answer', { thread_id })));
    await Promise.all(queued.map(({ run_id }) => at.client.waitForRun(run_id)));
    return workflowOf(at, thread_id);
  },

  waiting: async (at) => workflowOf(at, (await run(at, 'ask')).thread_id),

  answered: async (at) => {
    const { thread_id } = await run(at, 'ask');
    await answer(at, thread_id);
    await run(at, 'ask', thread_id);
    await answer(at, thread_id);
    return workflowOf(at, thread_id);
  },

  'cancelled-while-running': async (at) => {
    const { thread_id, run_id } = await start(at, 'wait');
    await until(() => waiting.has(thread_id));
    await at.client.cancel(thread_id);
    await at.client.waitForRun(run_id);
    await run(at, 'answer', thread_id);
    return workflowOf(at, thread_id);
  },

  'cancelled-while-waiting': async (at) => {
    const { thread_id } = await run(at, 'ask');
    await at.client.cancel(thread_id);
    await run(at, 'answer', thread_id);
    return workflowOf(at, thread_id);
  },

  'stopped-by-newer-input': async (at) => {
    const first = await start(at, 'wait');
    await until(() => waiting.has(first.thread_id));
    const { thread_id } = first;
    const second = await start(at, 'answer', { thread_id, multitask_strategy: 'interrupt' });
    await at.client.waitForRun(second.run_id);
    return workflowOf(at, thread_id);
  },

  'failed-and-tried-again': async (at) => workflowOf(at, (await run(at, 'fail')).thread_id),

  'handed-over': async (at) => {
    // With no time at all each segment ends after one superstep.
    const hurried = await at.startWorker(
      { hurried: defineGraph({ name: 'hurried', version: '1', graph: served.one.graph }) },
      { segmentBudgetMs: 0 },
    );
    const { thread_id } = await at.client.run({ graph: 'hurried', input: { how: 'answer' } });
    await hurried.stop();
    return workflowOf(at, thread_id);
  },

  slept: async (at) => {
    const { thread_id } = await run(at, 'sleep');
    await until(async () => (await at.client.thread(thread_id)).status === 'idle');
    return workflowOf(at, thread_id);
  },

  'sleeping-and-woken': async (at) => {
    const { thread_id } = await run(at, 'sleep');
    await run(at, 'answer', thread_id);
    return workflowOf(at, thread_id);
  },

  'answered-by-a-deadline': async (at) => {
    const { thread_id } = await run(at, 'deadline');
    await until(async () => (await at.client.thread(thread_id)).status === 'idle');
    return workflowOf(at, thread_id);
  },

  forked: async (at) => {
    const { thread_id } = await run(at, 'answer');
    const [, before] = await at.client.history(thread_id);
    const { run_id } = await at.client.fork(thread_id, { checkpointId: before?.checkpoint_id ?? '' });
    await at.client.waitForRun(run_id);
    return workflowOf(at, thread_id);
  },

  'idle-and-closed': async (at) => {
    const { thread_id } = await run(at, 'answer');
    const place = workflowOf(at, thread_id);
    await until(
      async () =>
        (await at.temporal.workflow.getHandle(place.workflowId).describe()).status.name !== 'RUNNING',
      90_000,
    );
    return place;
  },

  'continued-as-new': async (at) => {
    const { thread_id, run_id } = await run(at, 'ask');
    const { workflowId } = workflowOf(at, thread_id);
    const handle = at.temporal.workflow.getHandle(workflowId);
    const { runId } = await handle.describe();
    // Late wake-ups, which are harmless, until the history is cut.
    for (let sent = 0; sent < 1_000; sent += 50)
      await Promise.all(Array.from({ length: 50 }, () => handle.signal(WAKE_SIGNAL, run_id)));
    await until(async () => (await handle.describe()).runId !== runId, 40_000);
    return { workflowId, runId };
  },

  'begun-by-continue-as-new': async (at) => {
    const { workflowId } = (await LIVES['continued-as-new']?.(at)) ?? { workflowId: '' };
    const thread_id = decodeURIComponent(workflowId.split('/').at(-1) ?? '');
    await answer(at, thread_id);
    return { workflowId };
  },

  'tasks-as-activities': async (at) => {
    const { thread_id } = await at.client.run({ graph: 'tasks', input: { how: 'answer' } });
    return workflowOf(at, thread_id);
  },

  'task-failed-and-retried': async (at) => {
    const { thread_id } = await at.client.run({ graph: 'tasks', input: { how: 'fail' } });
    const { run_id } = await at.client.retry(thread_id);
    await at.client.waitForRun(run_id);
    return workflowOf(at, thread_id);
  },

  'tasks-cancelled': async (at) => {
    const { thread_id, run_id } = await at.client.startRun({ graph: 'tasks', input: { how: 'wait' } });
    await until(() => waiting.has(thread_id));
    await at.client.cancel(thread_id);
    await at.client.waitForRun(run_id);
    return workflowOf(at, thread_id);
  },

  'migrate-threads': async (at) => {
    const { thread_id } = await run(at, 'ask');
    const moves = at.client.migrateThreads({ graph: 'lives', to: '2', threadIds: [thread_id] });
    for await (const { outcome } of moves) if (outcome !== 'migrated') throw new Error(outcome);
    return eventually(async () => {
      const found = at.temporal.workflow.list({ query: `WorkflowType = 'migrateThreads'` });
      for await (const { workflowId } of found)
        if (workflowId.startsWith(`${encodeURIComponent(at.schema)}/`)) return { workflowId };
      return undefined;
    });
  },
};
