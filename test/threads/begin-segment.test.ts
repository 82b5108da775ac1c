import type pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { beginSegment, type ClaimedRun } from '../../src/threads/segment.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const graph = new StateGraph(Annotation.Root({ x: Annotation<number>() }))
  .addNode('a', () => ({ x: 1 }))
  .addEdge(START, 'a')
  .addEdge('a', END)
  .compile();

const thread_id = 'thread-1';
let at: Installation;
beforeEach(async () => {
  at = await openInstallation();
  await at.register({ graph });
});
afterEach(() => at.close());

const request = () => requestRun(at.database, 'default', { graph: 'graph', thread_id, input: { x: 0 } });
const begin = () => beginSegment(at.database, 'default', thread_id);

/** Begins a segment while an earlier attempt is in the middle of the statement that `work` stands for. */
async function beginDuring(
  work: (client: pg.PoolClient) => Promise<unknown>,
): Promise<ClaimedRun | undefined> {
  const { database } = at;
  const begun = await database.transaction(async (client) => {
    await work(client);
    const waiting = begin();
    await until(async () => {
      const { rowCount } = await database.query(
        `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'WITH next%' AND strpos(query, $1) > 0`,
        [at.schema],
      );
      return rowCount === 1;
    });
    return { waiting };
  });
  return begun.waiting;
}

test('a checkpoint that an earlier attempt stores meanwhile is the head', async () => {
  await request();
  expect(await begin()).toMatchObject({ attempts: 1, head_checkpoint_id: null, head_step: null });
  const { database } = at;
  const late = '1f0c0000-0000-6000-8000-000000000001';
  const run = await beginDuring(async (client) => {
    await client.query(`UPDATE ${database.table('threads')} SET head_checkpoint_id = $1`, [late]);
    await client.query(
      `INSERT INTO ${database.table('checkpoints')} (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)
       SELECT checkpoint_thread_id, '', $1, '{}', '{"step": 4}' FROM ${database.table('threads')}`,
      [late],
    );
  });
  expect(run).toMatchObject({
    attempts: 2,
    head_checkpoint_id: late,
    head_step: 4,
    base_checkpoint_id: null,
  });
});

test('the next run is taken when an earlier attempt ends the oldest one meanwhile', async () => {
  const [first, second] = [await request(), await request()];
  expect(await begin()).toMatchObject({ run_id: first.run_id });
  const { database } = at;
  const run = await beginDuring(async (client) => {
    await client.query(`UPDATE ${database.table('threads')} SET unfinished_runs = unfinished_runs - 1`);
    await client.query(`UPDATE ${database.table('runs')} SET status = 'success' WHERE run_id = $1`, [
      first.run_id,
    ]);
  });
  expect(run).toMatchObject({ run_id: second.run_id, attempts: 1 });
});
