import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Booking = { key: string | undefined; method: string; path: string; body: string };

/**
 * A service that keeps books. `POST /charges` charges; one with an idempotency key that it knows is answered as
 * before and not charged again. `POST /plain` charges every time. `GET /charges?key=` tells whether it knows a key.
 * `GET /gate?count=` holds its callers until that many have come.
 */
export class FarSide {
  readonly booked: Booking[] = [];
  readonly requests: Booking[] = [];
  /** Answers the next request in another way, after it was booked or without booking it. */
  next: ((response: ServerResponse) => void) | undefined;
  bookBeforeNext = true;
  readonly #server: Server;
  readonly #waiting: ServerResponse[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FarSide> {
    const server = createServer();
    const farSide = new FarSide(server);
    server.on('request', (request, response) => void farSide.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return farSide;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '/', this.url);
    const header = request.headers['idempotency-key'];
    const key = Array.isArray(header) ? header.join(',') : header;
    const booking = {
      key,
      method: request.method ?? '',
      path: url.pathname,
      body: Buffer.concat(chunks).toString(),
    };
    if (url.pathname === '/gate') return this.#hold(Number(url.searchParams.get('count')), response);
    if (request.method === 'GET') return this.#lookup(url.searchParams.get('key'), response);
    this.requests.push(booking);
    const { next } = this;
    this.next = undefined;
    if (next === undefined || this.bookBeforeNext) this.#book(booking);
    if (next !== undefined) return next(response);
    json(response, 200, { charged: this.booked.length });
  }

  #book(booking: Booking): void {
    const known = booking.path === '/charges' && this.booked.some((each) => each.key === booking.key);
    if (!known) this.booked.push(booking);
  }

  #lookup(key: string | null, response: ServerResponse): void {
    json(response, 200, { happened: this.booked.some((each) => each.key === key) });
  }

  #hold(count: number, response: ServerResponse): void {
    this.#waiting.push(response);
    if (this.#waiting.length < count) return;
    for (const each of this.#waiting.splice(0)) json(each, 200, {});
  }
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}
