import { chmodSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeHome, up } from '../src/dev/index.ts';

export type BenchServers = { databaseUrl: string; temporalAddress: string; close(): Promise<void> };

/** Embedded servers for one benchmark, or those that PERDURE_TEST_DATABASE_URL and _TEMPORAL_ADDRESS name. */
export async function startBenchServers(progress: (line: string) => void): Promise<BenchServers> {
  const databaseUrl = process.env['PERDURE_TEST_DATABASE_URL'];
  const temporalAddress = process.env['PERDURE_TEST_TEMPORAL_ADDRESS'];
  if (databaseUrl && temporalAddress) return { databaseUrl, temporalAddress, close: async () => undefined };
  const folder = mkdtempSync(join(tmpdir(), 'perdure-bench-'));
  // Else the user that Postgres runs as could not reach its data when this runs as root.
  chmodSync(folder, 0o755);
  const home = join(folder, '.perdure');
  const close = async () => {
    await removeHome({ home });
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const servers = await up({ home, searchPath: process.env['PATH'], onProgress: progress });
    return { databaseUrl: servers.databaseUrl, temporalAddress: servers.temporalAddress, close };
  } catch (error) {
    await close();
    throw error;
  }
}
