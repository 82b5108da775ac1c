import { randomUUID } from 'node:crypto';
import { HumanMessage } from '@langchain/core/messages';
import { Annotation, Command, DeltaChannel, interrupt, START, StateGraph } from '@langchain/langgraph';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatKind } from '../../bench/graphs/chat.ts';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { pruneThread } from '../../src/client/prune.ts';
import type { PruningPolicy } from '../../src/contracts/pruning.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, rowsOf } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const TABLES = ['checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'checkpoint_elements'];

async function prune(thread: string, policy: PruningPolicy) {
  const asked = { policy, graph: undefined, dryRun: false, actor: 'user:test' };
  const pruned = await pruneThread(database, 'default', thread, asked);
  if (!pruned) throw new Error(`no thread ${thread}`);
  return pruned;
}

/** The same thread under another id, checkpoints and all. */
async function twin(thread: string): Promise<string> {
  const other = await makeThread(database);
  for (const table of TABLES) {
    const { rows } = await database.query<{ names: string }>(
      `SELECT string_agg(quote_ident(column_name), ', ') AS names FROM information_schema.columns
       WHERE table_schema = $1 AND table_name = $2 AND column_name <> 'thread_id'`,
      [database.schema, table],
    );
    const names = rows[0]?.names;
    await database.query(
      `INSERT INTO ${database.table(table)} (thread_id, ${names}) SELECT $2, ${names} FROM ${database.table(table)} WHERE thread_id = $1`,
      [thread, other],
    );
  }
  return other;
}

/** Rows that nothing refers to, and references to rows that aren't there. */
async function loose(thread: string): Promise<unknown> {
  const [checkpoints, blobs, writes, elements] = TABLES.map((table) => database.table(table));
  const refs = (table: string) =>
    `SELECT substring(r.blob FROM 5 + 20 * g.i FOR 20) AS hash FROM ${table} r,
       generate_series(0, (get_byte(r.blob, 2) << 8) + get_byte(r.blob, 3) - 1) AS g(i)
     WHERE r.thread_id = $1 AND r.type = 'perdure-refs'`;
  const { rows } = await database.query(
    `WITH refs AS (${refs(String(blobs))} UNION ${refs(String(writes))} UNION ${refs(String(elements))}),
     versions AS (SELECT c.checkpoint_ns, v.key, v.value FROM ${checkpoints} c, jsonb_each_text(c.checkpoint -> 'channel_versions') v WHERE c.thread_id = $1)
     SELECT
       (SELECT count(*)::int FROM ${blobs} b WHERE thread_id = $1 AND NOT EXISTS (
         SELECT 1 FROM versions v WHERE v.checkpoint_ns = b.checkpoint_ns AND v.key = b.channel AND v.value = b.version)) AS blobs,
       (SELECT count(*)::int FROM ${writes} w WHERE thread_id = $1 AND NOT EXISTS (
         SELECT 1 FROM ${checkpoints} c WHERE c.thread_id = $1 AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)) AS writes,
       (SELECT count(*)::int FROM ${elements} e WHERE thread_id = $1 AND NOT EXISTS (SELECT 1 FROM refs WHERE refs.hash = e.hash)) AS elements,
       (SELECT count(*)::int FROM refs WHERE NOT EXISTS (SELECT 1 FROM ${elements} e WHERE e.thread_id = $1 AND e.hash = refs.hash)) AS missing,
       (SELECT count(*)::int FROM ${checkpoints} c WHERE thread_id = $1 AND checkpoint_ns LIKE '%:%' AND NOT EXISTS (
         SELECT 1 FROM ${checkpoints} r WHERE r.thread_id = $1 AND r.checkpoint_ns = '' AND r.checkpoint_id = c.metadata -> 'parents' ->> '')) AS nested`,
    [thread],
  );
  return rows[0];
}
const NOTHING_LOOSE = { blobs: 0, writes: 0, elements: 0, missing: 0, nested: 0 };

const numbers = () =>
  new DeltaChannel<number[], number[]>((current, updates) => [...current, ...updates.flat()], {
    snapshotFrequency: 3,
  }) as never;
const State = Annotation.Root({
  v: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  delta: numbers(),
  seen: Annotation<number>(),
  asks: Annotation<boolean>(),
}) as unknown as ReturnType<
  typeof Annotation.Root<{
    v: ReturnType<typeof Annotation<number>>;
    log: ReturnType<typeof Annotation<string[]>>;
    delta: ReturnType<typeof Annotation<number[]>>;
    seen: ReturnType<typeof Annotation<number>>;
    asks: ReturnType<typeof Annotation<boolean>>;
  }>
>;
const LONG = 'one long line that is kept apart from the list. '.repeat(40);

/** Counts in a state of its own, which lasts from run to run. */
const Counted = Annotation.Root({
  seen: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
  own: numbers(),
});
const counter = new StateGraph(Counted)
  .addNode('count', () => ({ seen: 1, own: [1] as never }))
  .addEdge(START, 'count')
  .compile({ checkpointer: true });
/** Asks in the middle, if it is to. */
const asking = new StateGraph(State)
  .addNode('before', ({ v }) => ({ log: [`before ${v} ${LONG}`], delta: [v] }))
  .addNode('ask', ({ v, asks }) => ({ log: [asks ? `said ${String(interrupt(v))}` : 'not asked'] }))
  .addEdge(START, 'before')
  .addEdge('before', 'ask')
  .compile();
const graph = new StateGraph(State)
  .addNode('note', ({ v }) => ({ log: [`${v % 3} ${LONG}`], delta: [v * 10] }))
  .addNode('counter', counter)
  .addNode('asking', async (state, config) => {
    const { log, delta } = await asking.invoke({ v: state.v, asks: state.asks }, config);
    return { log, delta };
  })
  .addNode('end', (state) => ({ log: [`end ${state.delta.length} ${state.log.length}`] }))
  .addEdge(START, 'note')
  .addEdge('note', 'counter')
  .addEdge('counter', 'asking')
  .addEdge('asking', 'end');

type Step =
  | { say: number; asks: boolean }
  | { answer: string }
  | { forkAt: number; v: number }
  | { editAt: number }
  | { replayAt: number };

const app = () => graph.compile({ checkpointer: saver });
type App = ReturnType<typeof app>;
const at = (thread: string, id?: string) => ({
  configurable: { thread_id: thread, checkpoint_ns: '', ...(id === undefined ? {} : { checkpoint_id: id }) },
  durability: 'sync' as const,
});

async function states(of: App, thread: string) {
  const found = new Map<string, unknown>();
  const ids: string[] = [];
  for await (const { config, values, next, tasks, metadata } of of.getStateHistory(at(thread))) {
    const id = String(config.configurable?.['checkpoint_id']);
    ids.push(id);
    found.set(id, {
      values,
      next,
      tasks: tasks.map(({ id: task, name, interrupts }) => [task, name, interrupts]),
      metadata,
    });
  }
  return { ids, found };
}

/** @param ids that a place counts in: those that both threads have. */
async function take(of: App, thread: string, step: Step, ids: readonly string[]): Promise<unknown> {
  const place = (n: number) => at(thread, ids[n % ids.length]);
  if ('say' in step) await of.invoke({ v: step.say, asks: step.asks }, at(thread));
  else if ('answer' in step) {
    if ((await of.getState(at(thread))).tasks.some(({ interrupts }) => interrupts.length > 0))
      await of.invoke(new Command({ resume: step.answer }), at(thread));
  } else if ('editAt' in step && ids.length > 0)
    await of.updateState(place(step.editAt), { log: ['edited'] }, 'end');
  else if ('replayAt' in step && ids.length > 0) await of.invoke(null, place(step.replayAt));
  else if ('forkAt' in step && ids.length > 0) {
    const config = await of.updateState(place(step.forkAt), { v: step.v, delta: [step.v] }, 'note');
    await of.invoke(null, { ...config, durability: 'sync' as const });
  }
  const { values, next, tasks } = await of.getState(at(thread));
  return {
    values,
    next,
    asked: tasks.map(({ interrupts }) => interrupts.map(({ value }) => value as unknown)),
  };
}

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ say: fc.nat(9), asks: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ answer: fc.constantFrom('yes', 'no') }) },
  { weight: 2, arbitrary: fc.record({ forkAt: fc.nat(50), v: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ replayAt: fc.nat(50) }) },
  { weight: 1, arbitrary: fc.record({ editAt: fc.nat(50) }) },
);

const plainTurn = (n: number): Step => ({ say: n, asks: false });

describe('what pruning leaves', () => {
  test('reads as before, and goes on as if nothing had been pruned', async () => {
    let went = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 2, maxLength: 7 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(step, { minLength: 1, maxLength: 3 }),
        async (before, keep_last, after) => {
          const thread = await makeThread(database);
          const own = app();
          for (const one of before) await take(own, thread, one, (await states(own, thread)).ids);
          const other = await twin(thread);
          const was = await states(own, thread);
          const pruned = await prune(thread, { keep_last });
          went += pruned.root_checkpoints;
          const is = await states(own, thread);
          expect(is.ids.slice(0, keep_last)).toEqual(was.ids.slice(0, keep_last));
          expect(is.ids.length).toBe(was.ids.length - pruned.root_checkpoints);
          for (const [id, state] of is.found) expect(state).toEqual(was.found.get(id));
          expect(await loose(thread)).toEqual(NOTHING_LOOSE);
          // Once is enough.
          expect(await prune(thread, { keep_last })).toMatchObject({ outcome: 'nothing' });
          for (const one of after)
            expect(await take(own, thread, one, is.ids)).toEqual(await take(own, other, one, is.ids));
          await prune(thread, { keep_last: 1 });
          expect(await loose(thread)).toEqual(NOTHING_LOOSE);
          const { values } = await own.getState(at(thread));
          expect(values).toEqual((await own.getState(at(other))).values);
        },
      ),
      { numRuns: 6, examples: [[Array.from({ length: 4 }, (_, n) => plainTurn(n)), 1, [plainTurn(9)]]] },
    );
    expect(went).toBeGreaterThan(5);
  }, 120_000);

  test('is what a pending question refers to, of a subgraph too', async () => {
    const thread = await makeThread(database);
    const own = app();
    await own.invoke({ v: 1, asks: true }, at(thread));
    const [asked] = (await states(own, thread)).ids;
    const { rows } = await database.query<{ ns: string; id: string; task: string }>(
      `SELECT checkpoint_ns AS ns, checkpoint_id AS id, task_id AS task FROM ${database.table('checkpoint_writes')}
       WHERE thread_id = $1 AND channel = '__interrupt__' ORDER BY length(checkpoint_ns) DESC LIMIT 1`,
      [thread],
    );
    await database.query(
      `INSERT INTO ${database.table('interrupts')} (thread_id, interrupt_id, run_id, kind, node, checkpoint_id, origin_ns, origin_checkpoint_id, origin_task_id, value)
       VALUES ($1, 'q', $2, 'interrupt', 'ask', $3, $4, $5, $6, '1')`,
      [thread, randomUUID(), asked, rows[0]?.ns, rows[0]?.id, rows[0]?.task],
    );
    expect(rows[0]?.ns).toMatch(/^asking:/);
    for (let turn = 2; turn <= 5; turn += 1) await own.invoke({ v: turn, asks: false }, at(thread));
    const pruned = await prune(thread, { keep_last: 1 });
    expect(pruned.kept).toMatchObject({ policy: 1, question: 1 });
    const { rowCount } = await database.query(
      `SELECT FROM ${database.table('checkpoint_writes')} WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3 AND task_id = $4`,
      [thread, rows[0]?.ns, rows[0]?.id, rows[0]?.task],
    );
    expect(rowCount).toBeGreaterThan(0);
    await database.query(
      `UPDATE ${database.table('interrupts')} SET status = 'superseded' WHERE thread_id = $1`,
      [thread],
    );
    expect((await prune(thread, { keep_last: 1 })).kept).not.toHaveProperty('question');
  });

  test('is what a subgraph with a state of its own had before', async () => {
    const Own = Annotation.Root({
      runs: Annotation<number>({ reducer: (x, y) => x + y, default: () => 0 }),
      said: Annotation<string>(),
    });
    const remembers = new StateGraph(Own)
      .addNode('count', ({ runs }) => ({ runs: 1, said: `run ${runs + 1}` }))
      .addEdge(START, 'count')
      .compile({ checkpointer: true });
    const Outer = Annotation.Root({ said: Annotation<string>() });
    const own = new StateGraph(Outer)
      .addNode('first', () => ({}))
      .addNode('remembers', remembers)
      .addEdge(START, 'first')
      .addEdge('first', 'remembers')
      .compile({ checkpointer: saver });
    const thread = await makeThread(database);
    for (let turn = 1; turn <= 3; turn += 1)
      expect(await own.invoke({ said: '' }, at(thread))).toEqual({ said: `run ${turn}` });
    let before = '';
    for await (const { next, config } of own.getStateHistory(at(thread)))
      if (before === '' && next.includes('first')) before = String(config.configurable?.['checkpoint_id']);
    // All of the last turn, and nothing of those before it.
    const pruned = await prune(thread, { keep_last: 4 });
    expect(pruned.root_checkpoints).toBe(8);
    expect(await own.invoke(null, at(thread, before))).toEqual({ said: 'run 3' });
  });

  test('is younger than the age, and the newest whatever its age', async () => {
    const thread = await makeThread(database);
    const own = app();
    await own.invoke({ v: 1, asks: false }, at(thread));
    expect(await prune(thread, { older_than: 3_600_000 })).toMatchObject({ outcome: 'nothing' });
    await database.query(
      `UPDATE ${database.table('checkpoints')} SET checkpoint = jsonb_set(checkpoint, '{ts}', '"2020-01-01T00:00:00.000Z"') WHERE thread_id = $1`,
      [thread],
    );
    const pruned = await prune(thread, { older_than: 3_600_000 });
    expect(pruned.kept).toHaveProperty('head', 1);
    expect(pruned.root_checkpoints).toBeGreaterThan(0);
  });
});

test('a saver used alone that counts on what goes meanwhile brings it again', async () => {
  const thread = await makeThread(database);
  const value = ['one', LONG];
  const own = new PerdureSaver(database);
  await app().invoke({ v: 1, asks: false }, at(thread));
  const { config } = (await own.getTuple(at(thread))) ?? {};
  if (!config) throw new Error('no checkpoint');
  const store = (task: string) => own.putWrites(config, [['log', value]], task);
  await store(randomUUID());
  const task = randomUUID();
  const client = await database.pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(
      `UPDATE ${database.table('threads')} SET fence = fence + 1 WHERE checkpoint_thread_id = $1`,
      [thread],
    );
    // It has seen that the elements are there, and waits for the thread's row.
    const stored = store(task);
    await expect.poll(() => waitsForLock(client), { timeout: 20_000, interval: 10 }).toBe(true);
    await client.query(
      `DELETE FROM ${database.table('checkpoint_writes')} WHERE thread_id = $1 AND checkpoint_id = $2`,
      [thread, config.configurable?.['checkpoint_id']],
    );
    await client.query(
      `DELETE FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1 AND blob = $2`,
      [thread, Buffer.from(LONG)],
    );
    await client.query('COMMIT');
    await stored;
  } finally {
    client.release();
  }
  expect(await loose(thread)).toMatchObject({ missing: 0 });
  expect((await new PerdureSaver(database).getTuple(config))?.pendingWrites).toEqual([[task, 'log', value]]);
});

/** Whether another connection waits for the one that asks. */
async function waitsForLock(client: { query(text: string): Promise<{ rowCount: number | null }> }) {
  const { rowCount } = await client.query(
    `SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))`,
  );
  return (rowCount ?? 0) > 0;
}

describe('E22: pruning gives back what old turns took', () => {
  async function bytesOf(thread: string): Promise<number> {
    const sums = TABLES.map(
      (table) =>
        `(SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM ${database.table(table)} r WHERE r.thread_id = $1)`,
    );
    const { rows } = await database.query<{ bytes: string }>(`SELECT ${sums.join(' + ')} AS bytes`, [thread]);
    return Number(rows[0]?.bytes);
  }

  test.each<ChatKind>(['plain', 'delta', 'agent'])(
    '%s: what is left is the newest state, and goes on',
    async (kind) => {
      const [turns, size] = [kind === 'delta' ? 45 : 20, 2_000];
      const thread = await makeThread(database);
      const own = chat(kind, saver, size) as unknown as {
        invoke(input: unknown, config: unknown): Promise<{ messages: { id: string; text: string }[] }>;
      };
      const say = async (turn: number) =>
        (await own.invoke({ messages: [new HumanMessage(`question ${turn}`)] }, at(thread))).messages.map(
          ({ text }) => text,
        );
      let last: string[] = [];
      for (let turn = 1; turn <= turns; turn += 1) last = await say(turn);
      const before = { bytes: await bytesOf(thread), rows: await rowsOf(database, thread) };
      const pruned = await prune(thread, { keep_last: 1 });
      const after = { bytes: await bytesOf(thread), rows: await rowsOf(database, thread) };
      expect(before.bytes - after.bytes).toBeGreaterThanOrEqual(pruned.bytes);
      // A DeltaChannel makes a snapshot every so many updates, and needs the chain back to it.
      if (kind === 'delta') expect(after.rows['checkpoints']).toBeLessThan(before.rows['checkpoints'] ?? 0);
      else {
        // The messages with their ids, the model's and the person's too.
        expect(after.bytes).toBeLessThan(2.2 * turns * size);
        expect(after.bytes).toBeLessThan(0.8 * before.bytes);
        expect(after.rows['checkpoints']).toBe(1);
      }
      expect((await say(turns + 1)).slice(0, last.length)).toEqual(last);
      expect(await loose(thread)).toEqual(NOTHING_LOOSE);
    },
    60_000,
  );
});
