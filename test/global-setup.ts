import { chmodSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { removeHome, up } from '../src/dev/index.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    databaseUrl: string;
    temporalAddress: string;
  }
}

const PREFIX = 'perdure-test-';

/**
 * One Postgres and one Temporal for the whole run. A developer can keep a pair running between runs: with
 * PERDURE_TEST_DATABASE_URL and PERDURE_TEST_TEMPORAL_ADDRESS set, those are used and none is started.
 */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const databaseUrl = process.env['PERDURE_TEST_DATABASE_URL'];
  const temporalAddress = process.env['PERDURE_TEST_TEMPORAL_ADDRESS'];
  if (databaseUrl !== undefined && temporalAddress !== undefined) {
    project.provide('databaseUrl', databaseUrl);
    project.provide('temporalAddress', temporalAddress);
    return undefined;
  }
  await removeLeftBehind();
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  // Else the user that Postgres runs as could not reach its data when the tests run as root.
  chmodSync(folder, 0o755);
  const teardown = once(async () => {
    await removeHome({ home: join(folder, '.perdure') });
    await rm(folder, { recursive: true, force: true });
  });
  stopOnSignals(teardown);
  try {
    const servers = await up({
      home: join(folder, '.perdure'),
      databaseUrl,
      temporalAddress,
      temporalCli: process.env['PERDURE_TEMPORAL_CLI'],
      cacheDir: process.env['PERDURE_CACHE'],
      onProgress: (line) => console.error(line),
    });
    process.env['PERDURE_TEST_DATABASE_URL'] = servers.databaseUrl;
    process.env['PERDURE_TEST_TEMPORAL_ADDRESS'] = servers.temporalAddress;
    project.provide('databaseUrl', servers.databaseUrl);
    project.provide('temporalAddress', servers.temporalAddress);
  } catch (error) {
    await teardown();
    throw error;
  }
  return teardown;
}

function stopOnSignals(teardown: () => Promise<void>): void {
  for (const [signal, status] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const) {
    process.once(signal, () => {
      void teardown().finally(() => process.exit(status));
    });
  }
}

/** A run that was killed outright could not tear down; its pid is in its folder's name. */
async function removeLeftBehind(): Promise<void> {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (pid === undefined || isRunning(Number(pid))) continue;
    await removeHome({ home: join(tmpdir(), name, '.perdure') });
    await rm(join(tmpdir(), name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another user's process counts as running: its folder isn't ours to remove.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= work());
}
