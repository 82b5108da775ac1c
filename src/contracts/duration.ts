import { z } from 'zod';

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  millisecond: 1,
  s: 1_000,
  sec: 1_000,
  second: 1_000,
  m: 60_000,
  min: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hr: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
};

const MAX_DURATION = 365 * 86_400_000;

/** A span of time in ms, given as a number of ms or as Temporal writes it: `'30 seconds'`, `'5m'`. At most 365 days. */
export const duration = z.union([z.number(), z.string()]).transform((given, context) => {
  const ms = typeof given === 'number' ? given : parseDuration(given);
  if (ms !== undefined && Number.isFinite(ms) && ms > 0 && ms <= MAX_DURATION) return Math.ceil(ms);
  context.addIssue({
    code: 'custom',
    message: `${JSON.stringify(given)} is no duration; give ms above 0, or such as '30 seconds', at most 365 days`,
  });
  return z.NEVER;
});

function parseDuration(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(text);
  const unit = match?.[2]?.toLowerCase() ?? '';
  const size = UNITS[unit] ?? UNITS[unit.replace(/s$/, '')];
  return size === undefined ? undefined : Number(match?.[1]) * size;
}
