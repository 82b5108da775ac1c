import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Newer ones ask for a newer Go than is common. */
const VERSION = '1.30.4';

export type ClusterBinaries = { version: string; server: string; sql: string };

/** The server and its schema tool, built with Go the first time: some three minutes on two cores. */
export async function buildCluster(
  cache: string,
  progress: (line: string) => void,
): Promise<ClusterBinaries> {
  const folder = join(cache, `temporal-server-${VERSION}`);
  const binaries = { version: VERSION, server: join(folder, 'server'), sql: join(folder, 'sql') };
  if (existsSync(binaries.server) && existsSync(binaries.sql)) return binaries;
  progress(`building Temporal's production server ${VERSION} with Go: three minutes or more, only once`);
  const making = `${folder}.${process.pid}`;
  await mkdir(making, { recursive: true });
  try {
    const module = (path: string) => `go.temporal.io/server/cmd/${path}@v${VERSION}`;
    const go = spawn('go', ['install', module('server'), module('tools/sql')], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, GOBIN: making },
    });
    const [code] = (await once(go, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`go install ended with status ${String(code)}; is Go on the PATH?`);
    await rm(folder, { recursive: true, force: true });
    await rename(making, folder);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return binaries;
}
