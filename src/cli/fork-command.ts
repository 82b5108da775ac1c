import { graphRef } from '../contracts/ids.ts';
import { forkRequest } from '../contracts/runs.ts';
import { requireCheckpoint } from '../threads/views.ts';
import { UsageError } from './exit-status.ts';
import { readJsonOption } from './json-text.ts';
import type { Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';
import { checkThreadId } from './thread-id.ts';

export type ForkCommandOptions = {
  at: string;
  set?: string;
  asNode?: string;
  effects?: string;
  config?: string;
  detach?: boolean;
  worker: boolean;
};

/** Begins a new branch at a checkpoint and, unless detached, waits for the run's end. @returns the exit status. */
export async function forkThread(
  session: Session,
  threadId: string,
  options: ForkCommandOptions,
): Promise<number> {
  checkThreadId(threadId);
  const request = await readRequest(session, options);
  const settings = await session.settings();
  const progress = await session.output.progress();
  // Late, since they bring the clients of both servers along: a slip is told without them.
  const [{ servedBy, withRuntime }, { stopOnInterrupt, waitAndShow }] = await Promise.all([
    import('./runtime.ts'),
    import('./wait-for-run.ts'),
  ]);
  return withRuntime(session, settings, progress, async (runtime) => {
    const { client } = runtime;
    const thread = await client.thread(threadId);
    // A slip in the id is told before a worker is started for it.
    await requireCheckpoint(client.database, client.tenant, threadId, request.checkpointId);
    const serving: Serving = options.worker ? await servedBy(runtime, thread) : { started: 'nobody' };
    const stopped = stopOnInterrupt();
    const run = await client.fork(threadId, { ...request, actor: settings.config.actor });
    if (options.detach === true) return showRun(session, asPending(run));
    if (options.worker && serving.started === 'nobody') {
      session.output.note(
        `No worker serves ${graphRef(thread.graph, thread.version)}. This is recorded, and goes on once one does.`,
      );
      return showRun(session, asPending(run));
    }
    return waitAndShow(session, runtime, run, serving, progress, stopped);
  });
}

const OPTION_OF: Record<string, string> = {
  checkpoint_id: '--at',
  values: '--set',
  as_node: '--as-node',
  effects: '--effects',
  config: '--config',
};

/** @throws UsageError when the command line does not make a request. */
async function readRequest(session: Session, options: ForkCommandOptions) {
  const parsed = forkRequest.safeParse({
    checkpoint_id: options.at,
    ...(options.set === undefined ? {} : { values: await readJsonOption('--set', options.set, session.cwd) }),
    ...(options.asNode === undefined ? {} : { as_node: options.asNode }),
    ...(options.effects === undefined ? {} : { effects: options.effects }),
    ...(options.config === undefined
      ? {}
      : { config: await readJsonOption('--config', options.config, session.cwd) }),
  });
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const option = OPTION_OF[String(issue?.path[0])] ?? '--at';
    throw new UsageError(`${option}: ${issue?.message ?? 'is invalid'}`, { option });
  }
  const { checkpoint_id: checkpointId, values, as_node: asNode, effects, config } = parsed.data;
  if (asNode !== undefined && values === undefined)
    throw new UsageError('--as-node names who changed the state: give the change with --set JSON.', {
      option: '--as-node',
    });
  return {
    checkpointId,
    ...(values === undefined ? {} : { values }),
    ...(asNode === undefined ? {} : { asNode }),
    ...(effects === undefined ? {} : { effects }),
    ...(config === undefined ? {} : { config }),
  };
}
