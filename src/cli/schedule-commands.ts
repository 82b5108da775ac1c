import { scheduleRequest, type ScheduleRequest, type ScheduleView } from '../contracts/schedules.ts';
import { listSchedules } from '../threads/schedules.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { readJsonOption } from './json-text.ts';
import { withDatabase } from './looking.ts';
import { plain } from './output.ts';
import type { Runtime } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';
import { cell, table, time } from './table.ts';

export type ScheduleOptions = {
  graph: string;
  cron: string;
  timezone: string;
  input: string;
  version?: string;
  thread?: string;
  config?: string;
  overlap?: string;
};

export async function createSchedule(
  session: Session,
  name: string,
  options: ScheduleOptions,
): Promise<number> {
  const request = await readRequest(session, name, options);
  const schedule = await withClient(session, ({ client, settings }) =>
    client.schedules.create({ ...request, actor: settings.config.actor }),
  );
  return show(session, schedule, 'created');
}

/** @throws UsageError when the command line does not make a request. */
async function readRequest(
  session: Session,
  name: string,
  options: ScheduleOptions,
): Promise<ScheduleRequest> {
  const { graph, cron, timezone, version, thread, overlap } = options;
  const parsed = scheduleRequest.safeParse({
    name,
    graph,
    cron,
    timezone,
    input: await readJsonOption('--input', options.input, session.cwd),
    ...(options.config === undefined
      ? {}
      : { config: await readJsonOption('--config', options.config, session.cwd) }),
    ...(version === undefined ? {} : { version }),
    ...(thread === undefined ? {} : { thread_id: thread }),
    ...(overlap === undefined ? {} : { overlap }),
  });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const [field] = issue?.path ?? [];
  if (field === 'name') throw new UsageError(issue?.message ?? 'the name is invalid');
  const option = `--${field === 'thread_id' ? 'thread' : String(field)}`;
  throw new UsageError(`${option}: ${issue?.message}`, { option });
}

export async function showSchedules(session: Session): Promise<number> {
  const schedules = await withDatabase(session, listSchedules);
  session.output.result({ schedules }, () =>
    table(
      ['SCHEDULE', 'GRAPH', 'CRON', 'TIME ZONE', 'NEXT', 'LAST', 'SKIPPED', 'STATE'],
      schedules.map((schedule) => [
        schedule.name,
        schedule.version === null ? schedule.graph : `${schedule.graph}@${schedule.version}`,
        schedule.cron,
        schedule.timezone,
        time(schedule.next_at),
        time(schedule.last_at),
        schedule.skipped || '',
        schedule.last_error === null ? (schedule.paused ? 'paused' : 'active') : cell(schedule.last_error),
      ]),
      'no schedules',
    ),
  );
  return EXIT.done;
}

export async function changeSchedule(
  session: Session,
  name: string,
  change: 'pause' | 'resume' | 'delete',
): Promise<number> {
  const schedule = await withClient(session, ({ client }) => client.schedules[change](name));
  return show(session, schedule, { pause: 'paused', resume: 'resumed', delete: 'deleted' }[change]);
}

export async function triggerSchedule(session: Session, name: string): Promise<number> {
  const run = await withClient(session, ({ client }) => client.schedules.trigger(name));
  return showRun(session, asPending(run));
}

async function withClient<T>(session: Session, work: (runtime: Runtime) => Promise<T>): Promise<T> {
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { withRuntime } = await import('./runtime.ts');
  return withRuntime(session, settings, progress, work);
}

function show(session: Session, schedule: ScheduleView, what: string): number {
  session.output.result(schedule, ({ bold }) => {
    const next = what === 'deleted' || schedule.next_at === null ? '' : `, next ${time(schedule.next_at)}`;
    return `${what}: ${bold(plain(schedule.name))}, ${schedule.cron} in ${schedule.timezone}${next}`;
  });
  return EXIT.done;
}
