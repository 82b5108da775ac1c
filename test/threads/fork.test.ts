import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ForkRequest } from '../../src/contracts/runs.ts';
import { checkpointThreadId } from '../../src/contracts/ids.ts';
import { requestFork } from '../../src/threads/request-fork.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { beginSegment, finishSegment, type SegmentEnd } from '../../src/threads/segment.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { tableContents } from '../support/table-contents.ts';

const idle = new StateGraph(Annotation.Root({ log: Annotation<string>() }))
  .addNode('a', () => ({ log: 'a' }))
  .addEdge(START, 'a')
  .compile();

let at: Installation;
let thread: string;
beforeAll(async () => {
  at = await openInstallation('fork-threads');
  await at.register({ idle });
});
afterAll(() => at.close());

/** A thread with one run, whose end is recorded, and checkpoints c1, c2, c3 made by hand. */
beforeEach(async () => {
  thread = crypto.randomUUID();
  await requestRun(at.database, 'default', {
    graph: 'idle',
    thread_id: thread,
    input: {},
    config: { recursion_limit: 7 },
  });
  const run = await begin();
  for (const [index, id] of ['c1', 'c2', 'c3'].entries())
    await checkpoint(id, { run_id: run.run_id, step: index - 1, superstep: index - 1 });
  await end(run, { checkpoint_id: 'c3' });
});

async function checkpoint(id: string, metadata: object): Promise<void> {
  await at.database.query(
    `INSERT INTO ${at.database.table('checkpoints')} (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)
     VALUES ($1, '', $2, '{}', $3)`,
    [checkpointThreadId('default', thread), id, JSON.stringify(metadata)],
  );
}
const fork = (request: ForkRequest) => requestFork(at.database, 'default', thread, request);
async function begin() {
  const run = await beginSegment(at.database, 'default', thread);
  if (!run) throw new Error('nothing waits');
  return run;
}
const end = (run: { run_id: string; fence: number }, more: Partial<SegmentEnd> = {}) =>
  finishSegment(at.database, 'default', thread, {
    run_id: run.run_id,
    fence: run.fence,
    status: 'success',
    checkpoint_id: null,
    supersede: 'others',
    ...more,
  });

test('a fork is queued like any run, under the settings of the run that made its checkpoint', async () => {
  const first = await fork({ checkpoint_id: 'c2', values: { log: 'ed' }, as_node: 'a', effects: 'dry' });
  const second = await fork({ checkpoint_id: 'c1' });
  expect([first.wakes, second.wakes]).toEqual([true, false]);
  expect(await begin()).toMatchObject({
    run_id: first.run_id,
    kind: 'fork',
    config: { recursion_limit: 7 },
    fork_checkpoint_id: 'c2',
    fork_values: { log: 'ed' },
    fork_as_node: 'a',
    effects: 'dry',
    base_checkpoint_id: 'c3',
    base_step: 0,
    head_step: 1,
    branch_id: null,
  });
});

test('the thread is on the branch once the fork has ended, and stays on it', async () => {
  await fork({ checkpoint_id: 'c2', effects: 'live' });
  const run = await begin();
  await checkpoint('c4', { run_id: run.run_id, step: 1, superstep: 0 });
  await end(run, { checkpoint_id: 'c4', branch: { id: 'b1', effects: 'live' } });
  await requestRun(at.database, 'default', { graph: 'idle', thread_id: thread, input: {} });
  const next = await begin();
  expect(next).toMatchObject({ branch_id: 'b1', branch_effects: 'live', head_fork_steps: 1 });
  await end(next, { checkpoint_id: 'c4' });
  await fork({ checkpoint_id: 'c4' });
  expect(await begin()).toMatchObject({ branch_id: 'b1', base_fork_steps: 1, base_step: 1 });
});

test('a request that does not fit changes nothing', async () => {
  const before = await tableContents(at.database);
  const refused: [ForkRequest, string][] = [
    [{ checkpoint_id: 'c9' }, 'CHECKPOINT_UNKNOWN'],
    [{ checkpoint_id: 'c2', values: null }, 'INPUT_INVALID'],
    [{ checkpoint_id: 'c2', as_node: 'a' }, 'INPUT_INVALID'],
    [{ checkpoint_id: 'c2', values: {}, as_node: '__copy__' }, 'INPUT_INVALID'],
    [{ checkpoint_id: 'c2', effects: 'all' as 'live' }, 'INPUT_INVALID'],
  ];
  for (const [request, code] of refused) await expect(fork(request)).rejects.toMatchObject({ code });
  expect(await tableContents(at.database)).toEqual(before);
});

test('a deleted thread is not forked', async () => {
  await at.database.query(
    `UPDATE ${at.database.table('threads')} SET deleted_at = now() WHERE thread_id = $1`,
    [thread],
  );
  await expect(fork({ checkpoint_id: 'c2' })).rejects.toMatchObject({ code: 'THREAD_DELETED' });
});
