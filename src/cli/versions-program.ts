import type { Command } from 'commander';
import type { MigrateThreadsOptions } from './migrate-threads-command.ts';
import { addCommon, examples, noWorker, type Start } from './program-parts.ts';

/** The commands about versions of graphs. `threads` is the command that lists them. */
export function addVersionCommands(threads: Command, start: Start): void {
  addCommon(threads.command('migrate'))
    .summary('move threads to another version of their graph')
    .description(
      'Moves threads to another version of their graph by the migrations that its code declares. Each thread moves as a whole or not at all; questions that wait for a person stay open, under the same id. A thread with a run in hand is left alone.',
    )
    .requiredOption('--graph <name>', 'the graph')
    .requiredOption('--to <version>', 'the version to go to; a worker has to serve it')
    .option('--from <version>', 'only threads of this version')
    .option('--thread <id...>', 'only these threads')
    .option('--dry-run', 'show what would happen to each thread, and change nothing')
    .option('--wait', 'try again for busy threads, until none is')
    .addOption(noWorker())
    .addHelpText(
      'after',
      `${examples(
        'perdure threads migrate --graph refund-flow --to 18 --dry-run',
        'perdure threads migrate --graph refund-flow --from 17 --to 18 --json',
        'perdure threads migrate --graph refund-flow --to 18 --thread mira noor',
      )}\n\nExit status: 0 when each thread moved (or would), 1 when one did not, 2 wrong usage.`,
    )
    .action(async (_: unknown, command: Command) => {
      // `threads` itself has a --graph: commander gives it what stands before the subcommand.
      const options = command.opts<MigrateThreadsOptions>();
      return start(command, async (session) =>
        (await import('./migrate-threads-command.ts')).migrateThreads(session, options),
      );
    });
}

/** The command for the day after a restore. */
export function addRestoredCommand(program: Command, start: Start): void {
  addCommon(program.command('restored'))
    .summary('say that Postgres was put back to a backup')
    .description(
      'To be called after Postgres was put back to a backup while no worker ran; workers that run notice by themselves. Effects that the backup does not know are then looked for on the far side, or asked for, before a thread has new ones; workflows of threads that it does not know are ended. Repeating it is harmless.',
    )
    .addHelpText('after', examples('perdure restored'))
    .action(async (_: unknown, command: Command) =>
      start(command, async (session) => (await import('./restored-command.ts')).declareRestored(session)),
    );
}
