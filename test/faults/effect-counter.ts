import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the far side knows of one effect. */
export type Effect = { key: string; result: { id: string } };

/** A far side that counts how often each effect really happened. */
export type EffectCounter = {
  url: string;
  /** How often each effect happened, by its business key. */
  happened(): Record<string, number>;
  /** Requests that were answered from an idempotency key. */
  repeated(): number;
  find(key: string): Effect | undefined;
  close(): Promise<void>;
};

/** It acts at once and replies after this long, in ms: a caller that dies in between can't know. */
const REPLY_AFTER = 150;

/**
 * POST /effects/KEY does KEY, once for each `Idempotency-Key` where there is one and again for each request where there
 * is none. GET /effects/KEY tells whether it has been done.
 */
export async function startEffectCounter(): Promise<EffectCounter> {
  const counts: Record<string, number> = {};
  const effects = new Map<string, Effect>();
  const answered = new Map<string, Effect>();
  let repeated = 0;
  const server: Server = createServer((request, response) => {
    const key = decodeURIComponent((request.url ?? '').replace('/effects/', ''));
    request.resume();
    if (request.method === 'GET') {
      const found = effects.get(key);
      response.writeHead(found ? 200 : 404).end(JSON.stringify(found?.result ?? null));
      return;
    }
    const honoured =
      request.headers['x-honour'] === 'yes' ? String(request.headers['idempotency-key']) : undefined;
    const earlier = honoured === undefined ? undefined : answered.get(honoured);
    if (earlier) repeated += 1;
    else counts[key] = (counts[key] ?? 0) + 1;
    const effect = earlier ?? { key, result: { id: `${key}#${counts[key]}` } };
    effects.set(key, effect);
    if (honoured !== undefined) answered.set(honoured, effect);
    setTimeout(() => response.writeHead(200).end(JSON.stringify(effect.result)), REPLY_AFTER);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    happened: () => ({ ...counts }),
    repeated: () => repeated,
    find: (key) => effects.get(key),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
