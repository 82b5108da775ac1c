import type { ChildProcess } from 'node:child_process';

/** How a child process ended, and what it said on stderr (the last 10,000 characters). */
export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  said: string;
}

/** Waits until the child has ended and closed its streams. @throws when it could not be started. */
export async function endOf(child: ChildProcess): Promise<ChildEnd> {
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString('utf8')).slice(-10_000);
  });
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, said: said.trim() }));
  });
}
