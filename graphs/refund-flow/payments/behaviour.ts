import { z } from 'zod';

/** The paths that can be told to misbehave, for any method or for one. */
const PATHS = ['/orders', '/refunds', '/messages'] as const;
const misbehavingPath = z.templateLiteral([z.enum(['', 'GET ', 'POST ']), z.enum(PATHS)]);

/**
 * How the service acts. The first five are faults: for the next `times` requests, or until told otherwise, on
 * `path` or on all. The last two are settings of the whole service and stay as they are when not mentioned.
 */
export const behaviour = z.strictObject({
  /** Waits this long before it does anything, in ms. */
  slow_ms: z.int().min(0).optional(),
  /** Commits, then waits this long before it replies, in ms. */
  slow_reply_ms: z.int().min(0).optional(),
  /** Fails with this status and commits nothing; `true` means 500. */
  fail: z.union([z.literal(true), z.int().min(500).max(599)]).optional(),
  /** POST only: commits, then cuts the connection instead of replying. */
  lose_reply: z.boolean().optional(),
  /** POST only: says no with 402 or 422 and this reason, and commits nothing. */
  refuse: z
    .strictObject({ status: z.union([z.literal(402), z.literal(422)]), reason: z.string() })
    .optional(),
  /** How many requests the faults are for. Default: all, until changed. */
  times: z.int().min(1).optional(),
  /** Where the faults happen, such as `/refunds` or `POST /refunds`. Default: everywhere. */
  path: misbehavingPath.optional(),
  /** Whether the same Idempotency-Key gets the first answer again. At first: no. */
  honour_idempotency_key: z.boolean().optional(),
  /** Whether a second refund of one order is turned down. At first: no, so that double payments show. */
  one_refund_per_order: z.boolean().optional(),
});
export type Behaviour = z.infer<typeof behaviour>;

/** What one request meets. */
export type Faults = Pick<Behaviour, 'slow_ms' | 'slow_reply_ms' | 'fail' | 'lose_reply' | 'refuse'>;

type Rule = { faults: Faults; left: number };

export type BehaviourState = {
  honourIdempotencyKey: boolean;
  oneRefundPerOrder: boolean;
  /** Replaces the faults of `told.path`; without a path, those of all paths. */
  tell(told: Behaviour): void;
  /** The faults for a request, which counts as one of their `times`. */
  meet(method: string, path: string): Faults;
  /** What holds now, as JSON. */
  show(): { honour_idempotency_key: boolean; one_refund_per_order: boolean; faults: Record<string, unknown> };
};

export function createBehaviour(): BehaviourState {
  const rules = new Map<string, Rule>();
  const state: BehaviourState = {
    honourIdempotencyKey: false,
    oneRefundPerOrder: false,
    tell({ honour_idempotency_key, one_refund_per_order, path, times, ...faults }) {
      state.honourIdempotencyKey = honour_idempotency_key ?? state.honourIdempotencyKey;
      state.oneRefundPerOrder = one_refund_per_order ?? state.oneRefundPerOrder;
      if (path === undefined) rules.clear();
      const place = path ?? '*';
      if (Object.keys(faults).length === 0) rules.delete(place);
      else rules.set(place, { faults, left: times ?? Infinity });
    },
    meet(method, path) {
      for (const place of [`${method} ${path}`, path, '*']) {
        const rule = rules.get(place);
        if (rule === undefined) continue;
        rule.left -= 1;
        if (rule.left === 0) rules.delete(place);
        return rule.faults;
      }
      return {};
    },
    show() {
      const faults = [...rules].map(([place, rule]) => [
        place,
        { ...rule.faults, ...(rule.left === Infinity ? {} : { times: rule.left }) },
      ]);
      return {
        honour_idempotency_key: state.honourIdempotencyKey,
        one_refund_per_order: state.oneRefundPerOrder,
        faults: Object.fromEntries(faults),
      };
    },
  };
  return state;
}
