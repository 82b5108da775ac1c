import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ChildOrder } from './crash-child.ts';

export type ChildEnd = { signal: string | null; code: number | null; output: unknown };

/** Runs the order in a process of its own, to its end. */
export function runChild(order: ChildOrder): Promise<ChildEnd> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      process.execPath,
      ['--import', 'tsx', fileURLToPath(new URL('./crash-child.ts', import.meta.url))],
      { env: { ...process.env, CHILD_ORDER: JSON.stringify(order) } },
      (error, stdout, stderr) => {
        if (error !== null && error.signal !== 'SIGKILL') reject(new Error(`${error.message}\n${stderr}`));
        else
          resolve({
            signal: child.signalCode,
            code: child.exitCode,
            output: stdout === '' ? undefined : JSON.parse(stdout),
          });
      },
    );
  });
}
