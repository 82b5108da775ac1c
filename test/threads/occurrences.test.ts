import { expect, test } from 'vitest';
import { checkCron, nextOccurrence } from '../../src/threads/occurrences.ts';

function occurrences(cron: string, timezone: string, from: string, until: string): string[] {
  const found: string[] = [];
  for (let at: Date | null = new Date(from); (at = nextOccurrence(cron, timezone, at)) !== null;) {
    if (at >= new Date(until) || found.length > 1_000) break;
    found.push(at.toISOString().replace('.000Z', 'Z'));
  }
  return found;
}

test('daily at 02:30 in New York comes once on the day that has no 02:30', () => {
  expect(occurrences('30 2 * * *', 'America/New_York', '2026-03-07T00:00Z', '2026-03-10T00:00Z')).toEqual([
    '2026-03-07T07:30:00Z',
    '2026-03-08T07:30:00Z',
    '2026-03-09T06:30:00Z',
  ]);
});

test('daily at 01:30 in New York comes once on the day that has two', () => {
  expect(occurrences('30 1 * * *', 'America/New_York', '2026-10-31T00:00Z', '2026-11-03T00:00Z')).toEqual([
    '2026-10-31T05:30:00Z',
    '2026-11-01T05:30:00Z',
    '2026-11-02T06:30:00Z',
  ]);
});

test.each([
  ['0 * * * *', 'America/New_York', '2026-03-08T04:30Z', 60],
  ['0 * * * *', 'America/New_York', '2026-11-01T03:30Z', 60],
  ['@hourly', 'Europe/Berlin', '2026-10-24T22:30Z', 60],
  ['*/20 * * * *', 'America/New_York', '2026-11-01T03:30Z', 20],
  ['*/20 * * * *', 'Europe/Berlin', '2026-03-28T23:30Z', 20],
])('%s in %s comes by what has passed, also when clocks change', (cron, timezone, from, minutes) => {
  const until = new Date(Date.parse(from) + 6 * 3_600_000).toISOString();
  const found = occurrences(cron, timezone, from, until).map((at) => Date.parse(at));
  expect(found).toHaveLength((6 * 60) / minutes);
  for (const [i, at] of found.entries()) if (i > 0) expect(at - (found[i - 1] ?? 0)).toBe(minutes * 60_000);
});

test.each([
  ['30 1 * * *', '2026-11-01T06:10:00Z', '2026-11-02T06:30:00Z'],
  ['*/5 1-2 * * *', '2026-11-01T06:10:00Z', '2026-11-01T07:00:00Z'],
  ['*/20 * * * *', '2026-11-01T06:20:00Z', '2026-11-01T06:40:00Z'],
])('%s after %s, within the hour that the clock repeats, comes later, never earlier', (cron, after, next) => {
  expect(nextOccurrence(cron, 'America/New_York', new Date(after))).toEqual(new Date(next));
});

test.each([
  ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-02T12:00Z'],
  ['45 1 * * *', 'Australia/Lord_Howe', '2026-04-02T12:00Z'],
  ['0 0 * * *', 'America/Santiago', '2026-09-04T12:00Z'],
  ['30 2 * * *', 'Europe/Berlin', '2026-10-23T12:00Z'],
])('daily %s in %s comes once on each of five days', (cron, timezone, from) => {
  const until = new Date(Date.parse(from) + 5 * 86_400_000).toISOString();
  const days = occurrences(cron, timezone, from, until).map((at) =>
    new Date(at).toLocaleDateString('en-CA', { timeZone: timezone }),
  );
  expect(new Set(days).size).toBe(days.length);
  expect(days).toHaveLength(5);
});

test.each([
  ['30 2 * *', 'UTC', 'five fields'],
  ['30 2 L * *', 'Mars/Olympus', 'time zone'],
  ['61 2 * * *', 'UTC', 'cron'],
  ['0 0 31 2 *', 'UTC', 'never'],
  ['0 0 * * 5#2', 'UTC', 'five fields'],
  ['@every 5m', 'UTC', 'five fields'],
])('%s in %s is refused', (cron, timezone, why) => {
  expect(() => checkCron(cron, timezone)).toThrow(why);
});
