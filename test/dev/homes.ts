import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { removeHome, up, type RunningServers, type UpOptions } from '../../src/dev/index.ts';
import { makeRunFolder } from './run-folders.ts';

/** Servers that these tests don't look at need not be started. */
export const NO_TEMPORAL = { temporalAddress: '127.0.0.1:1' };
export const NO_POSTGRES = { databaseUrl: 'postgres://127.0.0.1:1/none' };

export const isRoot = process.getuid?.() === 0;

/** A folder that is gone after the test. */
export function temporaryFolder(mode = 0o755): string {
  const folder = makeRunFolder(Number(process.env['PERDURE_TEST_RUN'] ?? process.pid), mode);
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A home that does not exist yet, and is stopped and gone after the test. */
export function temporaryHome(name = '.perdure', mode = 0o755): string {
  const home = join(temporaryFolder(mode), name);
  onTestFinished(() => removeHome({ home }));
  return home;
}

/** `up` in this home, with the lines it told. */
export async function upTold(options: UpOptions): Promise<{ servers: RunningServers; lines: string[] }> {
  const lines: string[] = [];
  const servers = await up({ ...settings(), ...options, onProgress: (line) => lines.push(line) });
  return { servers, lines };
}

/** Where this machine keeps its Temporal CLI; tests that don't test the search for it use that. */
export function settings(): Pick<UpOptions, 'temporalCli' | 'cacheDir'> {
  return { temporalCli: process.env['PERDURE_TEMPORAL_CLI'], cacheDir: process.env['PERDURE_CACHE'] };
}

/** `up` in a process of its own. */
export function upInChild(
  options: UpOptions,
  user: { uid?: number; gid?: number } = {},
): ChildProcessByStdio<null, Readable, Readable> {
  const script = fileURLToPath(new URL('./up-child.ts', import.meta.url));
  return spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify({ ...settings(), ...options })], {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...user,
  });
}

export async function query(databaseUrl: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Every process that works in this folder or below, by looking at all of them. */
export function processesIn(folder: string): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && workingDirectory(name).startsWith(folder))
    .map(Number);
}

function workingDirectory(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    // Gone meanwhile, or a zombie.
    return '';
  }
}

/** Takes the port until the test ends. */
export async function occupy(port: number): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host: '127.0.0.1' }, resolve);
  });
  onTestFinished(() => void server.close());
}

interface Recorded {
  home: string;
  postgres: { password?: string; process?: { pid: number; identity: string } };
  temporal: { process?: { pid: number; identity: string } };
}

/** Changes a home's `servers.json`, as a crash or a person could have. */
export function rewriteRecord(home: string, change: (record: Recorded) => void): void {
  const path = join(home, 'servers.json');
  const record = JSON.parse(readFileSync(path, 'utf8')) as Recorded;
  change(record);
  writeFileSync(path, JSON.stringify(record));
}

/** Writes an executable shell script. */
export function writeScript(path: string, body: string): void {
  writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
}
