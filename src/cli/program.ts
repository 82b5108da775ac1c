import { Argument, Command, Option } from 'commander';
import { MULTITASK_STRATEGIES, threadStatus } from '../contracts/runs.ts';
import type { OperationsOptions } from './operation-commands.ts';
import type { ResolveOptions } from './resolve-command.ts';
import type { ResumeOptions } from './resume-command.ts';
import type { RetryOptions } from './retry-command.ts';
import type { RunOptions } from './run-command.ts';
import type { ThreadsOptions } from './thread-commands.ts';
import { addArtifactCommands } from './artifacts-program.ts';
import { addScheduleCommands } from './schedule-program.ts';
import { addTimeTravelCommands } from './time-travel-program.ts';
import { addCommon, examples, limit, noWorker, workers, type Start } from './program-parts.ts';
import { addPruneCommand } from './prune-program.ts';
import type { UpOptions } from './server-commands.ts';
import { addRestoredCommand, addVersionCommands } from './versions-program.ts';
import { perform, type CommonOptions, type Host, type Work } from './session.ts';

// Commands import their work when they are called, so that --help costs no more than this file.

export type Program = {
  command: Command;
  /** The exit status of the command that ran. */ status(): number | undefined;
};

/** Every command, its options and the words that teach it. */
export function createProgram(host: Host, version: string): Program {
  let status: number | undefined;
  const start = async (command: Command, work: Work) => {
    status = await perform(host, command.optsWithGlobals<CommonOptions>(), work);
  };
  const program = new Command('perdure')
    .description(
      'Runs LangGraph.js graphs as long-lived, crash-proof programs: Temporal owns execution, Postgres holds state.',
    )
    .version(version, '-V, --version', 'show the version')
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .addHelpText('after', OVERVIEW);
  addCommon(program);
  addServerCommands(program, start);
  addRunCommands(program, start);
  addThreadCommands(program, start);
  addScheduleCommands(program, start);
  addTimeTravelCommands(program, start);
  addPruneCommand(program, start);
  addArtifactCommands(program, start);
  addOperationCommands(program, start);
  addRestoredCommand(program, start);
  return { command: program, status: () => status };
}

const OVERVIEW = `
Examples:
  $ perdure up                                                 start Postgres, Temporal and a worker
  $ perdure run refund-flow --input ticket.json                run a graph of langgraph.json
  $ perdure approvals                                          see what waits for a person
  $ perdure resume THREAD --interrupt ID --value '{"ok":true}' answer, and go on
  $ perdure down                                               stop what runs here; the data stays

Which project: the nearest langgraph.json from here upward, or --project. Its data lies beside it in .perdure
(PERDURE_HOME moves it). DATABASE_URL and TEMPORAL_ADDRESS point to servers of your own.

What starts what: up, run, resume, retry, fork and threads migrate start servers and a worker where they don't run;
schedule, cancel, migrate and operations resolve start servers (the last a worker too). threads, thread, approvals,
schedules, history, diff, operations and doctor only look, prune deletes, and artifacts keeps files: where nothing runs
they say so.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 waiting for a person.`;

const showSecrets = () => new Option('--show-secrets', 'show passwords');

function addServerCommands(program: Command, start: Start): void {
  addCommon(program.command('up'))
    .summary('start Postgres, Temporal and workers')
    .description(
      'Starts Postgres and Temporal on this machine (unless DATABASE_URL and TEMPORAL_ADDRESS name others), sets up the schema, and starts a worker for the graphs of langgraph.json. What runs already is left alone; a worker with old code is replaced.',
    )
    .addOption(workers())
    .addOption(noWorker())
    .addOption(showSecrets())
    .addHelpText('after', examples('perdure up', 'perdure up --workers 4', 'perdure up --no-worker --json'))
    .action(async (options: UpOptions, command: Command) =>
      start(command, async (session) => (await import('./server-commands.ts')).startAll(session, options)),
    );
  addCommon(program.command('down'))
    .summary('stop what was started here')
    .description(
      'Stops the workers of this home (they hand over what they have in hand) and its servers. Data stays, runs in flight go on with the next up.',
    )
    .addHelpText('after', examples('perdure down'))
    .action(async (_: unknown, command: Command) =>
      start(command, async (session) => (await import('./server-commands.ts')).stopAll(session)),
    );
  addCommon(program.command('doctor'))
    .summary('look for what is wrong')
    .description(
      'Checks Node, langgraph.json, that each graph loads and is not changed under an old version, both servers, the schema, and that every waiting thread has a worker. Starts and changes nothing. Exit status 0 when all is well, else 1.',
    )
    .addOption(showSecrets())
    .addHelpText('after', examples('perdure doctor', 'perdure doctor --json --show-secrets'))
    .action(async (options: { showSecrets?: boolean }, command: Command) =>
      start(command, async (session) => (await import('./doctor-command.ts')).examine(session, options)),
    );
  addCommon(program.command('migrate'))
    .summary('set up the schema, or bring it up to date')
    .description(
      'Applies migrations that the schema (PERDURE_SCHEMA) lacks. up, run and resume do so by themselves.',
    )
    .addHelpText('after', examples('perdure migrate', 'DATABASE_URL=postgres://... perdure migrate --json'))
    .action(async (_: unknown, command: Command) =>
      start(command, async (session) => (await import('./server-commands.ts')).migrateSchema(session)),
    );
}

function addRunCommands(program: Command, start: Start): void {
  addCommon(program.command('run'))
    .summary('run a graph')
    .description(
      'Runs a graph of langgraph.json on a new or an old thread and waits for the end: its output, or the question it asks. Ctrl-C ends the waiting, not the run.',
    )
    .addArgument(new Argument('<graph>', 'its name in langgraph.json'))
    .requiredOption('--input <input>', "a file, '-' for stdin, or JSON text that begins with {, [ or \"")
    .option('--thread <id>', 'the thread to run on (default: a new one)')
    .option(
      '--version <version>',
      "the graph's version (default: the thread's own, for a new thread that of langgraph.json)",
    )
    .option(
      '--config <config>',
      'a file or JSON text: recursion_limit, configurable, context, metadata, tags, interrupt_before, interrupt_after, deadline, max_concurrency',
    )
    .addOption(
      new Option('--strategy <strategy>', 'what to do while the thread is busy (default: enqueue)').choices(
        MULTITASK_STRATEGIES,
      ),
    )
    .option('--detach', 'return as soon as the run is recorded')
    .addOption(noWorker())
    .addHelpText(
      'after',
      `${examples(
        'perdure run refund-flow --input ticket.json',
        `perdure run agent --input '{"messages":[{"role":"user","content":"Where is my order?"}]}' --thread mira`,
        'generate-ticket | perdure run refund-flow --input - --detach --json',
        'perdure run agent --input question.json --config \'{"recursion_limit":50}\'',
      )}\n\nWhile the thread is busy: enqueue waits its turn, reject refuses, interrupt stops what is unfinished and goes on from\nwhat it did, rollback stops it and goes on from before it.\nWith --detach --no-worker the run is recorded, and done once a worker comes up.\nExit status: 0 success, 1 error or cancelled, 2 wrong usage or input, 3 waiting for a person.`,
    )
    .action(async (graph: string, options: RunOptions, command: Command) =>
      start(command, async (session) => (await import('./run-command.ts')).runGraph(session, graph, options)),
    );
  addCommon(program.command('resume'))
    .summary('answer a question, and go on')
    .description(
      'Gives the answer to what a thread asks, lets it go on and waits for the end. Without --value: goes on after a static interrupt (interrupt_before, interrupt_after).',
    )
    .argument('<thread>', 'the thread that waits')
    .option('--interrupt <id>', 'which question (may be left out when only one is pending)')
    .option('--value <json>', "the answer, as JSON text: '{\"approved\":true}', '\"yes\"', 'true'")
    .option('--approve', 'yes, in the shape that the question expects')
    .option('--reject [reason]', 'no, in the shape that the question expects, with what the model is told')
    .option(
      '--edit <json>',
      'yes, with these arguments; a list for several actions, null leaves one as it is',
    )
    .option('--digest <hex>', 'refuse the answer unless the question is the one with this digest')
    .option('--detach', 'return as soon as the answer is recorded')
    .addOption(noWorker())
    .addHelpText(
      'after',
      `${examples(
        `perdure resume mira --value '{"approved":true}'`,
        `perdure resume mira --interrupt 6a9f6c1b5d1c5b5e --value '"yes"' --json`,
        'perdure resume mira --approve --digest 5f1d0c2a9b3e',
        `perdure resume mira --edit '{"amount":15}'`,
        "perdure resume mira --reject 'too much'",
        'perdure resume mira',
      )}\n\nOf two answers to one question the first counts; the other is told who gave it.\nExit status: as of run.`,
    )
    .action(async (thread: string, options: ResumeOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./resume-command.ts')).resumeThread(session, thread, options),
      ),
    );
  addCommon(program.command('retry'))
    .summary('go on after an error')
    .description(
      'Goes on with a thread that an error blocked, from its last checkpoint, once the cause is gone. What had finished is not run again. A run that waits for its next attempt is tried at once.',
    )
    .argument('<thread>')
    .option('--detach', "don't wait for the end")
    .addOption(noWorker())
    .addHelpText('after', examples('perdure retry mira'))
    .action(async (thread: string, options: RetryOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./retry-command.ts')).retryThread(session, thread, options),
      ),
    );
  addCommon(program.command('cancel'))
    .summary('end what a thread has under way')
    .description(
      'Cancels queued runs and withdraws questions at once; a run that a worker has in hand ends as soon as its worker has heard.',
    )
    .argument('<thread>')
    .addHelpText('after', examples('perdure cancel mira'))
    .action(async (thread: string, _: unknown, command: Command) =>
      start(command, async (session) => (await import('./cancel-command.ts')).cancel(session, thread)),
    );
}

function addThreadCommands(program: Command, start: Start): void {
  const threads = addCommon(program.command('threads'))
    .summary('list threads, and move them to another version')
    .description('Lists threads, the newest change first.')
    .enablePositionalOptions()
    .addOption(new Option('--status <status>', 'only these').choices(threadStatus.options))
    .option('--graph <name>', 'only threads of this graph')
    .addOption(limit('threads', 50))
    .addHelpText(
      'after',
      examples('perdure threads', 'perdure threads --status interrupted --graph refund-flow --json'),
    )
    .action(async (options: ThreadsOptions, command: Command) =>
      start(command, async (session) => (await import('./thread-commands.ts')).showThreads(session, options)),
    );
  addVersionCommands(threads, start);
  addCommon(program.command('thread'))
    .summary('show one thread')
    .description('Shows the status of a thread, what comes next, its newest runs and the questions it asks.')
    .argument('<thread>')
    .addHelpText('after', examples('perdure thread mira'))
    .action(async (thread: string, _: unknown, command: Command) =>
      start(command, async (session) => (await import('./thread-commands.ts')).showThread(session, thread)),
    );
  addCommon(program.command('approvals'))
    .summary('list what waits for a person')
    .description(
      'Lists the pending questions of all threads, the oldest first, with their deadlines and whom they were escalated to. Threads that only sleep are not among them: see threads --status sleeping.',
    )
    .option('--thread <id>', 'only those of this thread')
    .addOption(limit('questions', 50))
    .addHelpText('after', examples('perdure approvals', 'perdure approvals --thread mira --json'))
    .action(async (options: { thread?: string; limit: number }, command: Command) =>
      start(command, async (session) =>
        (await import('./thread-commands.ts')).showApprovals(session, options),
      ),
    );
}

function addOperationCommands(program: Command, start: Start): void {
  const operations = addCommon(program.command('operations'))
    .summary('list side effects, and say what became of unknown ones')
    .description('Lists operations (the side effects of tools) of one thread or all.')
    .enablePositionalOptions()
    .argument('[thread]', 'only those of this thread')
    .addOption(
      new Option('--status <status>', 'only these').choices([
        'pending',
        'running',
        'succeeded',
        'failed',
        'unknown',
      ]),
    )
    .addOption(limit('operations', 50))
    .addHelpText(
      'after',
      examples('perdure operations', 'perdure operations mira', 'perdure operations --status unknown --json'),
    )
    .action(async (thread: string | undefined, options: OperationsOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./operation-commands.ts')).showOperations(session, thread, options),
      ),
    );
  addCommon(operations.command('resolve'))
    .summary('say what became of an operation')
    .description(
      'Says whether an operation happened whose fate is unknown, after looking on the far side. The thread that waits for it goes on.',
    )
    .argument('<id>', 'the operation_id')
    .option('--happened <json>', 'it did: its result, as JSON text')
    .option('--retry', 'it did not: run it again')
    .addOption(noWorker())
    .addHelpText(
      'after',
      examples(
        `perdure operations resolve refund:order-1042 --happened '{"refund_id":"r-77"}'`,
        'perdure operations resolve refund:order-1042 --retry',
      ),
    )
    .action(async (id: string, options: ResolveOptions, command: Command) =>
      start(command, async (session) =>
        (await import('./resolve-command.ts')).resolveOperation(session, id, options),
      ),
    );
}
