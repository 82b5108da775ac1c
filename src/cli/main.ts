#!/usr/bin/env node
// The command `perdure`.
import { readFileSync } from 'node:fs';
import { CommanderError, type Command } from 'commander';
import { EXIT, UsageError } from './exit-status.ts';
import { Output, type Streams } from './output.ts';
import { createProgram } from './program.ts';
import type { Host } from './session.ts';

const args = process.argv.slice(2);
const wantsJson = args.slice(0, args.includes('--') ? args.indexOf('--') : undefined).includes('--json');

// Modules of graphs may print when they are loaded; stdout is for the result alone.
const write = process.stdout.write.bind(process.stdout);
const writeError = process.stderr.write.bind(process.stderr);
process.stdout.write = writeError;

const here = { env: process.env, cwd: process.cwd() };
const host: Host = { ...here, streams: streams(here.env) };

for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever read it (`| head`) has gone.
    if (error.code === 'EPIPE') process.exit(EXIT.failed);
    throw error;
  });
// Work that a graph's module left behind may fail at any time; it must not pass for the command's own success.
process.on('unhandledRejection', (reason) => {
  void end(fail(reason));
});

await end(await main());

async function main(): Promise<number> {
  const program = createProgram(host, packageVersion());
  let usage = '';
  forAll(program.command, (command) => {
    command.exitOverride().configureOutput({
      writeOut: (text) => write(text),
      // Help that stands in for an error, such as after `perdure --json`.
      writeErr: (text) => {
        usage += text;
      },
      outputError: () => undefined,
      getOutHasColors: () => host.streams.colours && host.streams.stdoutIsTerminal,
    });
  });
  if (args.length === 0) {
    program.command.outputHelp();
    return EXIT.done;
  }
  try {
    await program.command.parseAsync(args, { from: 'user' });
    return program.status() ?? EXIT.done;
  } catch (error) {
    if (!(error instanceof CommanderError)) return fail(error);
    if (error.exitCode === 0) return EXIT.done;
    return failUsage(error, program.command, usage);
  }
}

function failUsage(error: CommanderError, program: Command, usage: string): number {
  const wanted = program.commands.find(
    (command) => command.name() === args.find((word) => !word.startsWith('-')),
  );
  const help = `perdure ${wanted ? `${wanted.name()} ` : ''}--help`;
  const message =
    error.code === 'commander.help'
      ? 'No command was given.'
      : error.message.replace(/^error: /, '').replace(/\n/g, ' ');
  const output = new Output(host.streams, wantsJson);
  if (usage !== '' && !wantsJson) output.note(usage);
  output.failure(new UsageError(message, { help }), `See ${help}`);
  return EXIT.usage;
}

function fail(error: unknown): number {
  new Output(host.streams, wantsJson).failure(error);
  return EXIT.failed;
}

/** Ends the process when everything is written, whatever a graph's module keeps open. */
async function end(status: number): Promise<never> {
  await new Promise<void>((resolve) => {
    write('', () => resolve());
  });
  process.exit(status);
}

function streams(env: Host['env']): Streams {
  return {
    stdout: (text) => void write(text),
    stdoutBytes: (bytes) =>
      new Promise((resolve, reject) => {
        write(bytes, (error) => (error ? reject(error) : resolve()));
      }),
    stderr: (text) => void writeError(text),
    stdoutIsTerminal: process.stdout.isTTY,
    // A terminal without a width (some containers' and CI's) can't show a spinner: it would clear lines forever.
    stderrIsTerminal: process.stderr.isTTY && process.stderr.columns > 0,
    colours: (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb',
  };
}

function forAll(command: Command, change: (command: Command) => void): void {
  change(command);
  for (const below of command.commands) forAll(below, change);
}

/** Of package.json, seen from src/cli and from dist/src/cli. */
function packageVersion(): string {
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string })
        .version;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
  }
  return 'unknown';
}
