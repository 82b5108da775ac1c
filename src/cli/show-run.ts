import type { ErrorRecord } from '../contracts/json.ts';
import { NEW_EFFECT_QUESTION_PREFIX } from '../contracts/operations.ts';
import type { RunResult, RunRetry, RunStatus } from '../contracts/runs.ts';
import type { RecordedRun } from '../threads/request-run.ts';
import { EXIT } from './exit-status.ts';
import { sleeps } from './due-lines.ts';
import { plain } from './output.ts';
import { time } from './table.ts';
import type { Session } from './session.ts';

/** What a run that was only asked for is shown as. */
export function asPending({
  thread_id,
  run_id,
  graph,
  version,
  stopped,
}: RecordedRun & Pick<RunResult, 'stopped'>): RunResult {
  return { thread_id, run_id, graph, version, status: 'pending', ...(stopped ? { stopped } : {}) };
}

/** Prints how a run ended. @returns the exit status that says the same. */
export function showRun(session: Session, result: RunResult): number {
  if (result.stopped) session.output.note(stoppedLines(result.stopped).join('\n'));
  session.output.result(result, ({ bold, green, yellow, red }) => {
    const where = `thread ${bold(plain(result.thread_id))}, ${result.graph}@${result.version}, run ${result.run_id}`;
    switch (result.status) {
      case 'success':
        if (result.output_pruned_at !== undefined)
          return `${green('done')}: ${where}\nIts output went when its last checkpoint was pruned, at ${time(result.output_pruned_at)}.`;
        return `${green('done')}: ${where}\n${plain(JSON.stringify(result.values ?? null, null, 2))}`;
      case 'interrupted':
        if (result.stopped_by !== undefined)
          return `${yellow('stopped')}: ${where}, by run ${result.stopped_by}`;
        return `${yellow('waiting')}: ${where}\n${questions(session, result)}`;
      case 'error':
        return `${red('failed')}: ${where}\n${plain(errorLine(result.error))}${result.error?.hint === undefined ? '' : `\n${plain(result.error.hint)}`}`;
      case 'cancelled':
        return `${red('cancelled')}: ${where}`;
      case 'rolled_back':
        return [`${red('rolled back')}: ${where}, by run ${result.stopped_by}`, ...effects(result)].join(
          '\n',
        );
      default:
        return `${result.status}: ${where}\nFollow it: ${session.commandLine('thread', result.thread_id)}`;
    }
  });
  return statusOf(result);
}

/** Ends that are not `pending`: those say only that the run was taken. */
function statusOf({ status, stopped_by }: RunResult): number {
  if (status === 'interrupted') return stopped_by === undefined ? EXIT.waiting : EXIT.failed;
  return FAILED.has(status) ? EXIT.failed : EXIT.done;
}

const FAILED: ReadonlySet<RunStatus> = new Set(['error', 'cancelled', 'rolled_back']);

function stoppedLines({
  stopping_run,
  dropped_runs,
  effects: done,
}: NonNullable<RunResult['stopped']>): string[] {
  return [
    ...(stopping_run === null ? [] : [`Run ${stopping_run} was told to stop.`]),
    ...(dropped_runs.length === 0 ? [] : [`Will not run: ${dropped_runs.join(', ')}`]),
    ...effects({ effects: done }),
  ];
}

/** What a run that was stopped did outside. */
function effects({ effects: done = [] }: Pick<RunResult, 'effects'>): string[] {
  return done.map(
    ({ operation_id, tool, status, args }) =>
      `its effect stays: ${tool} (${status}), operation ${plain(operation_id)}, with ${plain(JSON.stringify(args))}`,
  );
}

function questions(session: Session, { thread_id, interrupts = [], next = [] }: RunResult): string {
  if (interrupts.length === 0)
    return `It stopped before or after a node, as it was told to. Next: ${next.join(', ') || 'nothing'}.\nGo on: ${resumeLine(session, thread_id)}`;
  return interrupts
    .map(({ id, node, value, kind, due_at }) =>
      sleeps({ kind })
        ? `${node} sleeps until ${time(due_at)}`
        : [
            `${node} ${kind === 'operation' ? operationAsks(id) : 'asks'}:`,
            indented(plain(typeof value === 'string' ? value : JSON.stringify(value, null, 2))),
            `Answer: ${resumeLine(session, thread_id, id, kind)}`,
            ...(kind === 'operation'
              ? [`    or: ${resumeLine(session, thread_id, id, kind, `'{"retry": true}'`)}`]
              : []),
          ].join('\n'),
    )
    .join('\n\n');
}

function operationAsks(id: string): string {
  return id.startsWith(NEW_EFFECT_QUESTION_PREFIX)
    ? 'would have a new effect, and asks'
    : 'does not know whether its effect happened';
}

/** The command that answers, ready to be pasted; the answer itself is the reader's. */
export function resumeLine(
  session: Session,
  threadId: string,
  interruptId?: string,
  kind?: string,
  answer?: string,
): string {
  const value = answer ?? (kind === 'operation' ? `'{"happened": RESULT}'` : `'JSON'`);
  const options = interruptId === undefined ? '' : ` --interrupt ${interruptId} --value ${value}`;
  // A thread id that looks like an option has to come last, after --.
  if (threadId.startsWith('-'))
    return `${session.commandLine('resume')}${options} ${session.commandLine('--', threadId).slice('perdure '.length)}`;
  return `${session.commandLine('resume', threadId)}${options}`;
}

export function errorLine(error: ErrorRecord | undefined): string {
  if (!error) return 'no reason is on record';
  return `${error.node === undefined ? '' : `in ${error.node}: `}${error.name}: ${error.message}`;
}

/** Why a thread is blocked, and what to do. */
export function blockedLines(error: ErrorRecord): string[] {
  const times = error.attempts === undefined ? '' : ` (attempt ${error.attempts}, ${error.reason})`;
  return [
    `blocked by an error${error.node === undefined ? '' : ` in ${plain(error.node)}`}${times}:`,
    indented(plain(error.stack ?? `${error.name}: ${error.message}`)),
    ...(error.hint === undefined ? [] : [plain(error.hint)]),
  ];
}

/** Until when a run waits, and after what. */
export function pauseLines(session: Session, threadId: string, { retry_at, error }: RunRetry): string[] {
  return [
    `waits since attempt ${error.attempts ?? 1} failed, and tries again at ${retry_at}: ${plain(errorLine(error))}`,
    `At once: ${session.commandLine('retry', threadId)}`,
  ];
}

function indented(text: string): string {
  return text.replace(/^/gm, '    ');
}
