import { Option, type Command } from 'commander';
import { EFFECTS_MODES } from '../contracts/runs.ts';
import type { CopyCommandOptions } from './copy-command.ts';
import type { ForkCommandOptions } from './fork-command.ts';
import { addCommon, examples, limit, noWorker, type Start } from './program-parts.ts';

const EFFECTS =
  'Effects: recorded takes results that are on record, and asks before a new effect; live runs new effects;\ndry lets nothing happen and takes what tools give as their simulation.';

/** The commands that look back, and go on from there. */
export function addTimeTravelCommands(program: Command, start: Start): void {
  addCommon(program.command('history'))
    .summary('list the checkpoints of a thread')
    .description('Lists the checkpoints of a thread, the newest first, with its forks as a tree.')
    .argument('<thread>')
    .addOption(limit('checkpoints', 50))
    .option('--subgraphs', 'those of subgraphs as well; fork takes them too')
    .addHelpText(
      'after',
      examples(
        'perdure history mira',
        'perdure history mira --limit 5 --json',
        'perdure history mira --subgraphs',
      ),
    )
    .action(async (thread: string, options: { limit: number; subgraphs?: boolean }, command: Command) =>
      start(command, async (session) =>
        (await import('./history-command.ts')).showHistory(session, thread, options),
      ),
    );
  addCommon(program.command('diff'))
    .summary('compare two checkpoints of a thread')
    .description(
      'Shows what differs between the values of two checkpoints: what is only in B is added, what is only in A removed.',
    )
    .argument('<thread>')
    .argument('<a>', "a checkpoint's id, as history shows it")
    .argument('<b>', 'another')
    .addHelpText(
      'after',
      examples(
        'perdure diff mira 1f0c8a52-3c1e-6d30-8001-7a1b2c3d4e5f 1f0c8a52-3f77-6e10-8002-5e6f7a8b9c0d',
        'perdure diff mira A B --json',
      ),
    )
    .action(async (thread: string, a: string, b: string, _: unknown, command: Command) =>
      start(command, async (session) =>
        (await import('./history-command.ts')).showDiff(session, thread, a, b),
      ),
    );
  addCommon(program.command('copy'))
    .summary('copy a thread')
    .description(
      'Makes a new thread that stands where another one stands, or stood at a checkpoint. Its pending questions wait in both and are answered in each by themselves. Nothing runs yet, and the original stays as it is.',
    )
    .argument('<thread>')
    .option(
      '--at <checkpoint>',
      'where the copy stands, as history shows it (default: where the thread stands)',
    )
    .option('--as <thread>', "the copy's id (default: a random one)")
    .addOption(
      new Option('--effects <mode>', 'what may happen outside (default: recorded)').choices(EFFECTS_MODES),
    )
    .addHelpText(
      'after',
      `${examples(
        'perdure copy mira --as mira-2',
        'perdure copy mira --at 1f0c8a52-3c1e-6d30-8001-7a1b2c3d4e5f --effects dry',
      )}\n\n${EFFECTS}\nGo on: perdure resume COPY, as with any thread that waits.`,
    )
    .action(async (thread: string, options: CopyCommandOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./copy-command.ts')).copyOfThread(session, thread, options),
      ),
    );
  addCommon(program.command('fork'))
    .summary('go on from an older checkpoint')
    .description(
      'Begins a new branch of a thread at one of its checkpoints (of the whole graph, or of a subgraph), goes on from there and waits for the end. The branch that was there stays as it is; answers given in it are asked for again.',
    )
    .argument('<thread>')
    .requiredOption('--at <checkpoint>', 'where the branch begins, as history shows it')
    .option(
      '--set <values>',
      'change the state first: JSON text of what a node would return, a file, or - for stdin',
    )
    .option('--as-node <node>', 'the node that the change is attributed to (default: the one that ran last)')
    .addOption(
      new Option('--effects <mode>', 'what may happen outside (default: recorded)').choices(EFFECTS_MODES),
    )
    .option(
      '--config <config>',
      'a file or JSON text with settings as of run (default: those of the run that made the checkpoint)',
    )
    .option('--detach', 'return as soon as the fork is recorded')
    .addOption(noWorker())
    .addHelpText(
      'after',
      `${examples(
        'perdure fork mira --at 1f0c8a52-3c1e-6d30-8001-7a1b2c3d4e5f',
        `perdure fork mira --at CHECKPOINT --set '{"amount":200}'`,
        `perdure fork mira --at CHECKPOINT --set '{"draft":"Dear Mira"}' --as-node write --effects dry`,
      )}\n\n${EFFECTS}\nExit status: as of run.`,
    )
    .action(async (thread: string, options: ForkCommandOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./fork-command.ts')).forkThread(session, thread, options),
      ),
    );
}
