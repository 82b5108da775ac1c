import type { InterruptView } from '../contracts/runs.ts';
import { plain } from './output.ts';
import { cell, time } from './table.ts';

/** Whether nobody has to answer: the node wakes by itself. */
export function sleeps({ kind }: { kind: string }): boolean {
  return kind === 'timer';
}

/** To whom a question was escalated, and when. */
export function escalationLines({ escalations }: Pick<InterruptView, 'escalations'>): string[] {
  return escalations.map(({ to, at }) => `escalated to ${plain(to)}, ${time(at)}`);
}

/** What happens unless somebody answers. */
export function dueLines({ due_at, on_due: onDue }: Pick<InterruptView, 'due_at' | 'on_due'>): string[] {
  if (due_at === null || typeof onDue !== 'object' || onDue === null || Array.isArray(onDue)) return [];
  if (typeof onDue['escalate_to'] === 'string')
    return [`${time(due_at)}: is escalated to ${plain(onDue['escalate_to'])}`];
  if (typeof onDue['reject'] === 'string') return [`${time(due_at)}: is rejected: ${plain(onDue['reject'])}`];
  return [`${time(due_at)}: is answered with ${plain(cell(onDue['answer'] ?? null))}`];
}
