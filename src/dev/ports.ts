import { createHash } from 'node:crypto';
import { createServer } from 'node:net';
import getPort from 'get-port';
import { codeOf } from './errors.ts';

/** Every server of a home listens here and nowhere else. */
export const LOOPBACK = '127.0.0.1';

/** Below the ports that systems give to outgoing connections, which could sit on a remembered one. */
const FIRST = 15_000;
const HOMES = 1_600;
const PER_HOME = 10;

/** Whether a server could listen on this port of the loopback address now. */
export async function isPortFree(port: number): Promise<boolean> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if (['EADDRINUSE', 'EACCES'].includes(codeOf(error) ?? '')) resolve(false);
      else reject(error);
    });
    server.listen({ port, host: LOOPBACK }, () => server.close(() => resolve(true)));
  });
}

/**
 * The remembered port while it is free, else another one: first out of ten that belong to the home by its name,
 * so that a home keeps its ports even when its `servers.json` is lost.
 */
export async function choosePort(
  home: string,
  remembered: number | undefined,
  exclude: readonly number[] = [],
): Promise<number> {
  // get-port refuses a port that it gave out in the last half minute, so the remembered one is tried by hand.
  if (remembered !== undefined && !exclude.includes(remembered) && (await isPortFree(remembered))) {
    return remembered;
  }
  const seed = createHash('sha256').update(home).digest().readUInt32BE(0);
  const start = FIRST + (seed % HOMES) * PER_HOME;
  const own = Array.from({ length: PER_HOME }, (_, index) => start + index);
  return await getPort({ port: own, host: LOOPBACK, exclude });
}
