import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { FAULT_POINTS } from '../../src/telemetry/fault-points.ts';

/** Every passing of a fault point while `work` goes on, as `point#n`: what PERDURE_FAULT takes. */
export async function passedPoints<T>(work: () => Promise<T>): Promise<{ points: string[]; result: T }> {
  const passed = new Map<string, number>();
  const points: string[] = [];
  const listen = (point: unknown): void => {
    const name = String(point);
    // Passed by who asks, not by the worker.
    if (name.startsWith('wake:')) return;
    const nth = (passed.get(name) ?? 0) + 1;
    passed.set(name, nth);
    points.push(`${name}#${nth}`);
  };
  subscribe(FAULT_POINTS, listen);
  try {
    return { result: await work(), points };
  } finally {
    unsubscribe(FAULT_POINTS, listen);
  }
}
