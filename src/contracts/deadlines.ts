import { z } from 'zod';
import { jsonValue, type JsonValue } from './json.ts';

const UNITS: Record<string, number> = {
  ms: 1,
  s: 1_000,
  second: 1_000,
  m: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
  w: 604_800_000,
  week: 604_800_000,
};

/** The longest duration, in ms: a hundred years. */
const MAX_DURATION_MS = 36_525 * 86_400_000;

/**
 * A duration in ms: of `'40 days'`, `'1.5 hours'`, `'90s'`, `'250 ms'`, or a number of ms. A day has 24 hours, a week
 * seven days; there are no months, whose length depends on the date. Undefined for anything else.
 */
export function durationMs(duration: string | number): number | undefined {
  let ms = typeof duration === 'number' ? duration : undefined;
  if (typeof duration === 'string') {
    const [, amount, unit = ''] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/.exec(duration) ?? [];
    const size = UNITS[unit] ?? UNITS[unit.replace(/s$/, '')];
    if (amount !== undefined && size !== undefined) ms = Number(amount) * size;
  }
  if (ms === undefined || !(ms >= 0 && ms <= MAX_DURATION_MS)) return undefined;
  return Math.round(ms);
}

export const duration = z
  .union([z.string(), z.number()])
  .refine(
    (value) => durationMs(value) !== undefined,
    "is no duration; write '2 days', '90 minutes', '30s', or a number of ms, at most a hundred years",
  );

/** What happens to a question that nobody has answered in time. */
export type DeadlinePolicy = {
  /** How long after it was asked, or (in `and_then`) escalated: `'2 days'`, `'90 minutes'`, `'30s'`, or a number of ms. */
  after: string | number;
} & (
  | {
      /** It is answered with this. */
      answer: JsonValue;
    }
  | {
      /**
       * For `humanInTheLoopMiddleware`: every action that waits is rejected with this message. Any other question is
       * answered `{ type: 'reject', message }`.
       */
      reject: string;
    }
  | {
      /** It is escalated: recorded and shown. It goes on waiting. */
      escalate_to: string;
      /** What happens when it still has no answer. Default: nothing, ever. */
      and_then?: DeadlinePolicy | undefined;
    }
);

export const deadlinePolicy: z.ZodType<DeadlinePolicy> = z.lazy(() =>
  z.union(
    [
      z.strictObject({ after: duration, answer: jsonValue }),
      z.strictObject({ after: duration, reject: z.string().min(1).max(2_000) }),
      z.strictObject({
        after: duration,
        escalate_to: z.string().min(1).max(200),
        and_then: deadlinePolicy.optional(),
      }),
    ],
    "must be { after, answer }, { after, reject } or { after, escalate_to, and_then? }, with after such as '2 days'",
  ),
);

/** One escalation of a question. */
export const escalation = z.object({
  /** 1 for the first. */
  level: z.int(),
  to: z.string(),
  at: z.string(),
});
export type Escalation = z.infer<typeof escalation>;
