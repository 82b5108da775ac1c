import { channel } from 'node:diagnostics_channel';
import { closeSync, openSync } from 'node:fs';

/**
 * Named places in the code where a test may end the process as `kill -9` does. Nothing happens unless a fault
 * was armed, which only the worker's entry point does, from the environment.
 *
 * Whoever listens to this channel of `node:diagnostics_channel` hears the name of every point that is passed, also of
 * those in a second copy of this package.
 */
export const FAULT_POINTS = 'perdure.fault-points';

const passings = channel(FAULT_POINTS);

export type Fault = {
  /** The name given to faultPoint(), such as `operation:effect-done`. */
  point: string;
  /** Which passing of the point kills, counted from 1. Default 1. */
  nth?: number;
  /** A file made just before the kill; where it exists already the fault does not fire again. */
  onceFile?: string;
};

let armed: Fault | undefined;
let passed = 0;

export function armFault(fault: Fault | undefined): void {
  armed = fault;
  passed = 0;
}

/** Whether any fault is armed, or somebody listens, so that costly points can be left out. */
export function faultsArmed(): boolean {
  return armed !== undefined || passings.hasSubscribers;
}

/** Ends this process at once when a fault is armed for `point`. */
export function faultPoint(point: string): void {
  if (passings.hasSubscribers) passings.publish(point);
  if (armed === undefined || armed.point !== point) return;
  passed += 1;
  if (passed !== (armed.nth ?? 1)) return;
  if (armed.onceFile !== undefined && !claim(armed.onceFile)) return;
  process.kill(process.pid, 'SIGKILL');
  // The signal is on its way: nothing after this point may run.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

/** Makes the file; false when it was there. */
function claim(file: string): boolean {
  try {
    closeSync(openSync(file, 'wx'));
    return true;
  } catch {
    return false;
  }
}
