import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type BehaviourState, type Faults, behaviour } from './behaviour.ts';
import { messageRequest, order, refundRequest } from './contracts.ts';
import type { Ledger, Written } from './ledger.ts';

/** The largest body that is read, in bytes. */
const MAX_BODY = 1_000_000;

type Reply = { status: number; body: unknown; headers?: Record<string, string> };
type Request = { method: string; path: string; query: URLSearchParams; key: string | null; body: unknown };

class BadRequest extends Error {}

/** The HTTP door of the payment service. */
export function createPaymentServer(ledger: Ledger, acts: BehaviourState): Server {
  const requests = new Map<string, number>();
  return createServer((incoming, response) => {
    void answer(incoming, response).catch((error: unknown) => {
      if (response.headersSent) return response.destroy();
      const status = error instanceof BadRequest ? 400 : 503;
      send(response, {
        status,
        body: { error: status === 400 ? 'bad_request' : 'unavailable', reason: String(error) },
      });
    });
  });

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await read(incoming);
    const place = `/${request.path.split('/')[1] ?? ''}`;
    const name = `${request.method} ${place}`;
    requests.set(name, (requests.get(name) ?? 0) + 1);

    const faults: Faults = CONTROLS.has(place) ? {} : acts.meet(request.method, place);
    if (faults.slow_ms !== undefined) await delay(faults.slow_ms);
    if (faults.fail !== undefined) {
      const status = faults.fail === true ? 500 : faults.fail;
      return send(response, { status, body: { error: 'failed', reason: 'told to fail' } });
    }
    const writes = request.method === 'POST';
    if (writes && faults.refuse !== undefined) {
      const { status, reason } = faults.refuse;
      return send(response, { status, body: { error: 'refused', reason } });
    }
    const reply = await route(request);
    if (faults.slow_reply_ms !== undefined) await delay(faults.slow_reply_ms);
    if (writes && faults.lose_reply === true) return void incoming.socket.destroy();
    send(response, reply);
  }

  async function route(request: Request): Promise<Reply> {
    const { method, path, query, key, body } = request;
    const orderId = /^\/orders\/([^/]+)$/.exec(path)?.[1];
    if (method === 'GET' && orderId !== undefined) {
      const found = await ledger.findOrder(decoded(orderId));
      return found === null ? refused(404, 'unknown_order') : { status: 200, body: found };
    }
    switch (`${method} ${path}`) {
      case 'GET /health':
        return { status: 200, body: { ok: true, service: 'payments' } };
      case 'POST /orders':
        await ledger.addOrders([parse(order, body)]);
        return { status: 201, body: { ok: true } };
      case 'POST /refunds': {
        const options = { key, honourKey: acts.honourIdempotencyKey, onePerOrder: acts.oneRefundPerOrder };
        return written(await ledger.addRefund(parse(refundRequest, body), options));
      }
      case 'GET /refunds':
        return {
          status: 200,
          body: { refunds: await ledger.findRefunds(query.get('order_id'), query.get('idempotency_key')) },
        };
      case 'POST /messages': {
        const options = { key, honourKey: acts.honourIdempotencyKey };
        return written(await ledger.addMessage(parse(messageRequest, body), options));
      }
      case 'GET /books':
        return { status: 200, body: { ...(await ledger.books()), requests: Object.fromEntries(requests) } };
      case 'POST /behaviour':
        acts.tell(parse(behaviour, body));
        return { status: 200, body: acts.show() };
      case 'GET /behaviour':
        return { status: 200, body: acts.show() };
      default:
        return refused(404, 'unknown_path');
    }
  }
}

/** What watches or steers the service never misbehaves. */
const CONTROLS = new Set(['/health', '/books', '/behaviour']);

const refused = (status: number, error: string): Reply => ({ status, body: { error } });

function written<T>(result: Written<T>): Reply {
  switch (result.outcome) {
    case 'created':
      return { status: 201, body: result.row };
    case 'replayed':
      return { status: 201, body: result.row, headers: { 'idempotent-replay': 'true' } };
    case 'unknown_order':
      return refused(404, 'unknown_order');
    case 'already_refunded':
      return refused(422, 'already_refunded');
    case 'key_reused':
      return refused(422, 'idempotency_key_reused');
  }
}

async function read(incoming: IncomingMessage): Promise<Request> {
  const url = new URL(incoming.url ?? '/', 'http://payments');
  const key = incoming.headers['idempotency-key'];
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MAX_BODY) throw new BadRequest(`the body is over ${MAX_BODY} bytes`);
    chunks.push(bytes);
  }
  return {
    method: incoming.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    key: typeof key === 'string' ? key : null,
    body: parseJson(Buffer.concat(chunks).toString()),
  };
}

function decoded(segment: string): string {
  try {
    const text = decodeURIComponent(segment);
    if (!text.includes('\u0000')) return text;
  } catch {
    // Said below.
  }
  throw new BadRequest(`'${segment}' is no id`);
}

function parseJson(text: string): unknown {
  if (text === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    // Postgres keeps no NUL in text.
    if (text.includes('\\u0000') && JSON.stringify(value).replaceAll('\\\\', '').includes('\\u0000'))
      throw new BadRequest('the body holds a NUL character');
    return value;
  } catch (error) {
    throw error instanceof BadRequest ? error : new BadRequest('the body is not JSON');
  }
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw new BadRequest(z.prettifyError(parsed.error));
  return parsed.data;
}

function send(response: ServerResponse, { status, body, headers = {} }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(`${JSON.stringify(body)}\n`);
}
