import { setTimeout as delay } from 'node:timers/promises';
import { isRunning, removeRunFolders } from './run-folders.ts';

/**
 * Waits for a test run to end, however it ends, and removes what it left: vitest leaves within a millisecond of a
 * Ctrl-C, so its own teardown can't. Started by the global set-up as a process of its own.
 */
const run = Number(process.argv[2]);
while (isRunning(run)) await delay(300);
// Its worker processes notice a moment later that it is gone, and could still be starting servers.
await delay(1_000);
await removeRunFolders((pid) => pid === run);
