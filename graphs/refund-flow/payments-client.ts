import { z } from 'zod';
import {
  type Message,
  type MessageRequest,
  type OrderView,
  type Refund,
  type RefundRequest,
  message,
  orderView,
  refund,
} from './payments/contracts.ts';

/** `fetch` itself, or one that adds an Idempotency-Key. */
type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** It answered with 5xx, or not at all: whether something happened there is not known. Worth another try. */
export class PaymentsUnavailableError extends Error {
  override name = 'PaymentsUnavailableError';
}

/** It answered, but with nothing that this graph can go on from. Another try would get the same. */
export class PaymentsRejectedError extends Error {
  override name = 'PaymentsRejectedError';
  readonly status: number;

  constructor(status: number, body: unknown) {
    super(`The payment service said ${status}: ${JSON.stringify(body)}`);
    this.status = status;
  }
}

/** The service says no, and nothing happened. */
export type Refusal = { refused: string };

const refusal = z.object({ error: z.string(), reason: z.string().optional() });

/** The payment service at `url`, spoken to through `call`. */
export function paymentsAt(url: string, call: Fetch) {
  async function ask(
    method: 'GET' | 'POST',
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: unknown }> {
    try {
      const response = await call(`${url}${path}`, {
        method,
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      });
      const text = await response.text();
      if (response.status >= 500)
        throw new PaymentsUnavailableError(`${method} ${path} at ${url}: ${response.status} ${text.trim()}`);
      return { status: response.status, body: JSON.parse(text) };
    } catch (error) {
      // What fetch throws when there was no answer; everything else, a cancellation too, goes on as it is.
      if (!(error instanceof TypeError)) throw error;
      throw new PaymentsUnavailableError(
        `The payment service at ${url} (PAYMENTS_URL) gave no answer to ${method} ${path}: ${causeOf(error)}. Is it running?`,
        { cause: error },
      );
    }
  }

  return {
    async order(id: string): Promise<OrderView | null> {
      const { status, body } = await ask('GET', `/orders/${encodeURIComponent(id)}`);
      return status === 404 ? null : expect(200, status, body, orderView);
    },
    /** A refusal by the service is an answer, not an error. */
    async refund(request: RefundRequest): Promise<Refund | Refusal> {
      const { status, body } = await ask('POST', '/refunds', request);
      const no = status === 402 || status === 404 || status === 422 ? refusal.safeParse(body) : undefined;
      if (no?.success && no.data.error !== 'idempotency_key_reused')
        return { refused: no.data.reason ?? no.data.error };
      return expect(201, status, body, refund);
    },
    /** The refund that was made under a key, if there is one. */
    async findRefund(key: string): Promise<Refund | undefined> {
      const { status, body } = await ask('GET', `/refunds?idempotency_key=${encodeURIComponent(key)}`);
      return expect(200, status, body, z.object({ refunds: z.array(refund) })).refunds[0];
    },
    async send(request: MessageRequest): Promise<Message> {
      const { status, body } = await ask('POST', '/messages', request);
      return expect(201, status, body, message);
    },
  };
}

function expect<T>(wanted: number, status: number, body: unknown, schema: z.ZodType<T>): T {
  if (status !== wanted) throw new PaymentsRejectedError(status, body);
  return schema.parse(body);
}

function causeOf(error: TypeError): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
