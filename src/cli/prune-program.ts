import type { Command } from 'commander';
import type { PruneCommandOptions } from './prune-command.ts';
import { addCommon, examples, keepLast, type Start } from './program-parts.ts';

/** The command that deletes what a thread no longer needs. */
export function addPruneCommand(program: Command, start: Start): void {
  addCommon(program.command('prune'))
    .summary('delete old checkpoints')
    .description(
      'Deletes old checkpoints of threads, with all that only they refer to. What a thread still needs stays: where it stands, its pending questions, the ends and beginnings of its branches. A thread with an unfinished run is left alone. Nothing is ever pruned by itself.',
    )
    .argument('[thread...]', 'the threads (default: all)')
    .addOption(keepLast())
    .option(
      '--older-than <age>',
      "only checkpoints that are older, such as '30 days'; with --keep-last, both have to say so",
    )
    .option('--graph <name>', 'only threads of this graph')
    .option('--dry-run', 'show what would go, and delete nothing')
    .addHelpText(
      'after',
      `${examples(
        'perdure prune --keep-last 10 --dry-run',
        "perdure prune --older-than '30 days' --keep-last 1 --graph refund-flow",
        'perdure prune mira --keep-last 1 --json',
      )}\n\nA run whose last checkpoint goes keeps its record and loses its output. Effects stay on record.\nExit status: 0 done, 1 when a thread was busy or something failed, 2 wrong usage.`,
    )
    .action(async (threads: string[], options: PruneCommandOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./prune-command.ts')).pruneCheckpoints(session, threads, options),
      ),
    );
}
