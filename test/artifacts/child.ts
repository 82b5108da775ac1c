import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';
import type { ChildTask } from './artifact-child.ts';
import type { Scene } from './scene.ts';

const SCRIPT = fileURLToPath(new URL('artifact-child.ts', import.meta.url));

/** Does the task in a process of its own. */
export async function inChild(
  { database, folder }: Scene,
  task: Omit<ChildTask, 'databaseUrl' | 'schema' | 'place'> & { place?: string },
): Promise<{ signal: unknown; code: unknown; stdout: string; stderr: string }> {
  const whole: ChildTask = {
    databaseUrl: inject('databaseUrl'),
    schema: database.schema,
    place: folder,
    ...task,
  };
  const child = spawn(process.execPath, ['--no-warnings', '--import', 'tsx', SCRIPT, JSON.stringify(whole)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  process.once('exit', () => child.kill('SIGKILL'));
  const [[code, signal], stdout, stderr] = await Promise.all([
    once(child, 'exit') as Promise<unknown[]>,
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, signal, stdout, stderr };
}
