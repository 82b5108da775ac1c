import { Option, type Command } from 'commander';
import { OVERLAPS } from '../contracts/schedules.ts';
import { addCommon, examples, type Start } from './program-parts.ts';
import type { ScheduleOptions } from './schedule-commands.ts';

/** The commands for runs that come again and again. */
export function addScheduleCommands(program: Command, start: Start): void {
  addCommon(program.command('schedules'))
    .summary('list schedules')
    .description('Lists schedules: when they come next, when they last began a run, and what went wrong.')
    .addHelpText('after', examples('perdure schedules', 'perdure schedules --json'))
    .action(async (_: unknown, command: Command) =>
      start(command, async (session) => (await import('./schedule-commands.ts')).showSchedules(session)),
    );
  const schedule = addCommon(program.command('schedule'))
    .summary('run a graph again and again')
    .description('Makes and changes schedules: runs that come by the clock of a time zone.')
    .enablePositionalOptions();
  addCommon(schedule.command('create'))
    .summary('make a schedule')
    .description(
      'Runs a graph at the times of a cron expression. Each time begins one run, also on days when clocks change. A worker has to be up; after an outage the newest time that was missed is made up for.',
    )
    .argument('<name>', 'what to call it')
    .requiredOption('--graph <graph>', 'its name in langgraph.json')
    .requiredOption(
      '--cron <expression>',
      "minute, hour, day of month, month, day of week: '30 2 * * *'; or @daily",
    )
    .option('--timezone <zone>', 'an IANA time zone', 'UTC')
    .option('--input <input>', "a file, '-' for stdin, or JSON text that begins with {, [ or \"", '{}')
    .option('--version <version>', "the graph's version (default: the newest when a run is due)")
    .option('--thread <id>', 'the thread of all runs (default: a new one for each)')
    .option('--config <config>', 'a file or JSON text, as of run')
    .addOption(
      new Option('--overlap <policy>', 'while the run before is under way or waits (default: skip)').choices(
        OVERLAPS,
      ),
    )
    .addHelpText(
      'after',
      examples(
        "perdure schedule create nightly --graph report --cron '30 2 * * *' --timezone America/New_York",
        `perdure schedule create digest --graph agent --cron '0 9 * * 1-5' --thread team --input question.json`,
      ),
    )
    .action(async (name: string, options: ScheduleOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./schedule-commands.ts')).createSchedule(session, name, options),
      ),
    );
  const changes = {
    pause: 'let it begin no runs; what is due meanwhile is not made up for',
    resume: 'let it begin runs again',
    delete: 'remove it; runs that it began go on',
  };
  for (const change of ['pause', 'resume', 'delete'] as const)
    addCommon(schedule.command(change))
      .summary(changes[change])
      .description(`${changes[change][0]?.toUpperCase()}${changes[change].slice(1)}.`)
      .argument('<name>')
      .addHelpText('after', examples(`perdure schedule ${change} nightly`))
      .action(async (name: string, _: unknown, command: Command) =>
        start(command, async (session) =>
          (await import('./schedule-commands.ts')).changeSchedule(session, name, change),
        ),
      );
  addCommon(schedule.command('trigger'))
    .summary('begin a run of it now')
    .description('Begins a run now, whatever its times, its overlap and whether it is paused.')
    .argument('<name>')
    .addHelpText('after', examples('perdure schedule trigger nightly'))
    .action(async (name: string, _: unknown, command: Command) =>
      start(command, async (session) =>
        (await import('./schedule-commands.ts')).triggerSchedule(session, name),
      ),
    );
}
