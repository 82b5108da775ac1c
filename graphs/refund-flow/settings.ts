/** What this graph reads from the environment, all of it here. */

export const DEFAULT_PAYMENTS_URL = 'http://127.0.0.1:4710';

export const REFUND_KINDS = ['idempotent', 'reconcilable', 'exclusive', 'pure'] as const;
export type RefundKind = (typeof REFUND_KINDS)[number];

type Environment = Record<string, string | undefined>;

/** A setting can't be used; the message names it. */
export class SettingError extends Error {
  override name = 'SettingError';
}

/** The address of the payment service, or undefined when none was given. @throws SettingError */
export function paymentsUrl(environment: Environment = process.env): string | undefined {
  const text = environment['PAYMENTS_URL'];
  if (!text) return undefined;
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw new SettingError(
      `PAYMENTS_URL: '${text}' is no http address. Give it as ${DEFAULT_PAYMENTS_URL}, or unset it.`,
    );
  return text.replace(/\/+$/, '');
}

/** Where a payment service that the graph starts itself keeps its books; see payments-address.ts. */
export function booksDatabaseUrl(environment: Environment = process.env): string | undefined {
  return environment['DATABASE_URL'] || undefined;
}

/**
 * How a refund whose fate is unknown is dealt with: by `configurable.refund_kind` of the run, else by the variable
 * REFUND_KIND, else `idempotent`. @throws SettingError
 */
export function refundKind(configured: unknown, environment: Environment = process.env): RefundKind {
  const [name, value] =
    configured === undefined
      ? ['REFUND_KIND', environment['REFUND_KIND']]
      : ['configurable.refund_kind', configured];
  if (value === undefined || value === '') return 'idempotent';
  const kind = REFUND_KINDS.find((known) => known === value);
  if (kind === undefined)
    throw new SettingError(`${name}: ${JSON.stringify(value)} is none of ${REFUND_KINDS.join(', ')}.`);
  return kind;
}
