import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { temporalScheduleId } from '../../src/contracts/ids.ts';
import type { ScheduleRequest } from '../../src/contracts/schedules.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const report = new StateGraph(State)
  .addNode('write', () => ({ log: ['written'] }))
  .addEdge(START, 'write')
  .compile();

let at: Installation;
let name: string;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ report });
});
beforeEach(() => {
  name = `s-${crypto.randomUUID().slice(0, 8)}`;
});
afterAll(async () => {
  for (const schedule of await at.client.schedules.list()) await at.client.schedules.delete(schedule.name);
  await at.close();
});

const create = (more: Partial<ScheduleRequest> = {}) =>
  at.client.schedules.create({ name, graph: 'report', cron: '0 0 1 1 *', input: {}, ...more });
const get = () => at.client.schedules.get(name);
const temporal = () => at.temporal.schedule.getHandle(temporalScheduleId(at.schema, 'default', name));
/** As if it had been made long ago, with the occurrences since then not yet begun. */
const nextAt = (time: string) =>
  at.database.query(`UPDATE ${at.database.table('schedules')} SET next_at = $2 WHERE name = $1`, [
    name,
    time,
  ]);

test('Temporal’s schedule is a mirror, in the same time zone, and begins what Postgres says is due', async () => {
  await create({ cron: '30 2 * * *', timezone: 'America/New_York' });
  const { spec, state } = await temporal().describe();
  expect(spec.timezone).toBe('America/New_York');
  expect(state.paused).toBe(false);
  await at.client.schedules.pause(name);
  expect((await temporal().describe()).state.paused).toBe(true);
  await at.client.schedules.resume(name);
  expect((await temporal().describe()).state.paused).toBe(false);
  // An occurrence that is due, but not by so much that the sweeper would take it.
  const due = new Date(Date.now() - 100).toISOString();
  await nextAt(due);
  await temporal().trigger();
  await until(async () => (await get()).last_at === due);
  // Asked once more, nothing is due.
  await temporal().trigger();
  const { last_thread_id: thread } = await get();
  await until(async () => (await at.client.thread(thread ?? '')).status === 'idle');
  expect(await at.client.runs(thread ?? '')).toHaveLength(1);
  await at.client.schedules.delete(name);
  await expect(temporal().describe()).rejects.toThrow();
});

test('a schedule that Temporal has lost is made again, and does not miss its time', async () => {
  await create();
  await temporal().delete();
  const due = new Date(Date.now() - 5_000).toISOString();
  await nextAt(due);
  await until(async () => (await get()).last_at === due);
  await at.database.query(
    `UPDATE ${at.database.table('schedules')} SET mirrored_at = now() - interval '10 minutes' WHERE name = $1`,
    [name],
  );
  const found = await eventually(() => temporal().describe());
  expect(found.spec.timezone).toBe('UTC');
});

test('trigger begins a run of a paused schedule; a graph that is gone is told, and the next time tries again', async () => {
  await create({ graph: 'nothing' });
  await expect(at.client.schedules.trigger(name)).rejects.toMatchObject({ code: 'GRAPH_UNKNOWN' });
  await nextAt('2026-05-01T00:00:00Z');
  await until(async () => (await get()).last_error !== null);
  expect(await get()).toMatchObject({
    last_run_id: null,
    last_error: expect.stringContaining('nothing') as string,
  });
  await at.client.schedules.delete(name);
  await create();
  await at.client.schedules.pause(name);
  const run = await at.client.schedules.trigger(name);
  expect(await at.client.waitForRun(run.run_id)).toMatchObject({ status: 'success' });
  expect(await get()).toMatchObject({ paused: true, next_at: null, last_run_id: run.run_id });
});

test('what is no schedule is refused, and of two of one name the second', async () => {
  await expect(create({ cron: 'often' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(create({ timezone: 'Nowhere' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(get()).rejects.toMatchObject({ code: 'SCHEDULE_UNKNOWN' });
  await expect(at.client.schedules.trigger(name)).rejects.toMatchObject({ code: 'SCHEDULE_UNKNOWN' });
  await create();
  await expect(create()).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});
