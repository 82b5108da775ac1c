import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ScheduleRequest } from '../../src/contracts/schedules.ts';
import { createSchedule, fireSchedule, readSchedule } from '../../src/threads/schedules.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const report = new StateGraph(Annotation.Root({ log: Annotation<string>() }))
  .addNode('write', () => ({ log: 'written' }))
  .addEdge(START, 'write')
  .compile();

let at: Installation;
let name: string;
// No worker, so no sweeper: the tests hold the clock.
beforeAll(async () => {
  at = await openInstallation();
  await at.register({ report });
});
beforeEach(() => {
  name = `s-${crypto.randomUUID().slice(0, 8)}`;
});
afterAll(() => at.close());

/** As if it had been made some time before its occurrence `first`. */
const create = async (first: string, more: Partial<ScheduleRequest>) => {
  await createSchedule(at.database, 'default', {
    name,
    graph: 'report',
    cron: '0 * * * *',
    input: {},
    ...more,
  });
  await at.database.query(`UPDATE ${at.database.table('schedules')} SET next_at = $2 WHERE name = $1`, [
    name,
    first,
  ]);
};
const fire = (now: string) => fireSchedule(at.database, 'default', name, new Date(now));
const get = () => readSchedule(at.database, 'default', name);

test.each([
  ['30 2 * * *', '2026-03-08T05:00:00Z', '2026-03-08T07:30:00.000Z', '2026-03-09T06:30:00.000Z'],
  ['30 1 * * *', '2026-11-01T04:00:00Z', '2026-11-01T05:30:00.000Z', '2026-11-02T06:30:00.000Z'],
])(
  '%s in New York begins one run on the day when clocks change, whoever asks and however often',
  async (cron, day, first, second) => {
    await create(first, { cron, timezone: 'America/New_York' });
    const begun = [];
    for (let minute = 0; minute < 24 * 60; minute += 30) {
      const now = new Date(Date.parse(day) + minute * 60_000).toISOString();
      begun.push(...(await Promise.all([fire(now), fire(now)])));
    }
    expect(begun.flatMap((run) => run?.thread_id ?? [])).toEqual([`${name}-${first}`]);
    expect(await get()).toMatchObject({ last_at: first, next_at: second, skipped: 0 });
    await at.client.cancel(`${name}-${first}`);
    expect(await fire(second)).toMatchObject({ thread_id: `${name}-${second}` });
  },
);

test('after an outage the newest occurrence that was missed is made up for, the others are counted', async () => {
  await create('2026-05-01T00:00:00Z', {});
  expect(await fire('2026-05-01T09:20:00Z')).toMatchObject({
    thread_id: `${name}-2026-05-01T09:00:00.000Z`,
  });
  expect(await get()).toMatchObject({ skipped: 9, next_at: '2026-05-01T10:00:00.000Z' });
});

test('after years it does not count every minute', async () => {
  await create('2016-05-01T00:00:00Z', { cron: '* * * * *' });
  expect(await fire('2026-05-01T09:20:30Z')).toBeDefined();
  expect(await get()).toMatchObject({ next_at: '2026-05-01T09:21:00.000Z' });
});

test.each([
  ['skip', { skipped: 2, buffered: null, runs: 1 }],
  ['buffer_one', { skipped: 1, buffered: '2026-05-01T01:00:00.000Z', runs: 1 }],
  ['allow_all', { skipped: 0, buffered: null, runs: 3 }],
] as const)('while the run before is unfinished: overlap %s', async (overlap, expected) => {
  await create('2026-05-01T00:00:00Z', { thread_id: name, overlap });
  for (const hour of [0, 1, 2]) await fire(`2026-05-01T0${hour}:00:01Z`);
  expect(await get()).toMatchObject({ skipped: expected.skipped, buffered_at: expected.buffered });
  expect(await at.client.runs(name)).toHaveLength(expected.runs);
  await at.client.cancel(name);
  const next = await fire('2026-05-01T02:30:00Z');
  expect(next !== undefined).toBe(overlap === 'buffer_one');
  if (next) expect(await get()).toMatchObject({ buffered_at: null, last_at: '2026-05-01T01:00:00.000Z' });
});
