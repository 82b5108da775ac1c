import { startPayments } from './payments/process.ts';
import { booksDatabaseUrl, DEFAULT_PAYMENTS_URL, paymentsUrl, SettingError } from './settings.ts';

/** The service that this process started, while it lives. */
let own: Promise<{ url: string }> | undefined;

/**
 * Where the payment service is: at PAYMENTS_URL; else at the default address, if it answers there; else this process
 * starts one of its own, with its books in DATABASE_URL, so that `perdure run refund-flow` works at once. That one
 * ends with this process; its books stay.
 * @throws SettingError that says which variables would help.
 */
export async function paymentsAddress(): Promise<string> {
  const given = paymentsUrl();
  if (given !== undefined) return given;
  if (own === undefined && (await answers(DEFAULT_PAYMENTS_URL))) return DEFAULT_PAYMENTS_URL;
  if (own !== undefined && !(await answers((await own).url))) own = undefined;
  own ??= startOwn();
  // A start that failed is no reason not to try again.
  own.catch(() => (own = undefined));
  return (await own).url;
}

async function startOwn(): Promise<{ url: string }> {
  const databaseUrl = booksDatabaseUrl();
  if (databaseUrl === undefined)
    throw new SettingError(
      `PAYMENTS_URL is not set and no payment service answers at ${DEFAULT_PAYMENTS_URL}. Start it as ` +
        'graphs/refund-flow/README.md says and set PAYMENTS_URL, or set DATABASE_URL, and the graph starts one itself.',
    );
  // The kind `idempotent` promises that keys are honoured.
  const service = await startPayments({ databaseUrl, behaviour: { honour_idempotency_key: true } });
  process.stderr.write(
    `refund-flow: PAYMENTS_URL is not set, so a payment service was started at ${service.url}\n`,
  );
  return service;
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) });
    const body: unknown = await response.json();
    return (
      response.ok &&
      typeof body === 'object' &&
      body !== null &&
      'service' in body &&
      body.service === 'payments'
    );
  } catch {
    // Nobody there, or somebody else.
    return false;
  }
}
