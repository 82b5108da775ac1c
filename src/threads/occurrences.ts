import { Cron } from 'croner';
import { InvalidInputError } from '../contracts/errors.ts';

/** Fields that croner and Temporal understand alike. */
const FIELD = /^[0-9A-Za-z*,/-]+$/;
const NICKNAMES = new Set(['@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually']);

/** @throws InvalidInputError when the expression or the time zone is none, or nothing of it ever comes. */
export function checkCron(cron: string, timezone: string): void {
  try {
    offsetMinutes(new Date(0), timezone);
  } catch {
    throw new InvalidInputError(
      `timezone: '${timezone}' is no time zone; give an IANA name such as America/New_York.`,
    );
  }
  const fields = cron.trim().split(/\s+/);
  const wellFormed =
    NICKNAMES.has(cron) || (fields.length === 5 && fields.every((field) => FIELD.test(field)));
  if (!wellFormed)
    throw new InvalidInputError(
      `cron: '${cron}' is not five fields (minute, hour, day of month, month, day of week) such as '30 2 * * 1-5', nor @hourly, @daily, @weekly, @monthly, @yearly.`,
    );
  let next: Date | null;
  try {
    next = nextOccurrence(cron, timezone, new Date());
  } catch (error) {
    throw new InvalidInputError(`cron: '${cron}': ${error instanceof Error ? error.message : String(error)}`);
  }
  if (next === null) throw new InvalidInputError(`cron: '${cron}' never comes.`);
}

/**
 * The first occurrence after a time; null when there is none. On a day when clocks change, a time that does not exist
 * comes once, moved by the change, and one that exists twice comes once, the first time. An expression for every hour
 * (or every second, third, ...) goes by what has passed, as cron does: it comes in both of the hours that are one by
 * the clock.
 */
export function nextOccurrence(cron: string, timezone: string, after: Date): Date | null {
  const next = firstAfter(new Cron(cron, { timezone, paused: true }), after);
  if (next === null || !everyHour(cron)) return next;
  const between = [after, next].flatMap((at) => {
    const offset = offsetMinutes(at, timezone);
    const candidate = new Cron(cron, { utcOffset: offset, paused: true }).nextRun(after);
    return candidate !== null && candidate < next && offsetMinutes(candidate, timezone) === offset
      ? [candidate]
      : [];
  });
  return between.reduce((first, one) => (one < first ? one : first), next);
}

const MINUTE_MS = 60_000;
/** No clock is put back by more, in minutes. */
const LONGEST_REPEAT = 24 * 60;

/** In an hour that the clock repeats, croner gives times of the first pass also from within the second: look on. */
function firstAfter(cron: Cron, after: Date): Date | null {
  for (let minutes = 0; minutes <= LONGEST_REPEAT; minutes += 1) {
    const next = cron.nextRun(new Date(after.getTime() + minutes * MINUTE_MS));
    if (next === null || next > after) return next;
  }
  return null;
}

function everyHour(cron: string): boolean {
  return cron === '@hourly' || (cron.trim().split(/\s+/)[1]?.startsWith('*') ?? false);
}

/** How far the zone is ahead of UTC. */
function offsetMinutes(at: Date, timezone: string): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: timezone,
    timeZoneName: 'longOffset',
  }).formatToParts(at);
  const name = parts.find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign = '+', hours = '0', minutes = '0'] = /GMT([+-])(\d+):(\d+)/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}
