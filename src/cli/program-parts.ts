import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Work } from './session.ts';

/** Does a command's work and keeps its exit status. */
export type Start = (command: Command, work: Work) => Promise<void>;

export function addCommon(command: Command): Command {
  return command
    .option('--json', 'print one JSON document on stdout, and nothing else there')
    .option('--project <path>', 'the langgraph.json, or its folder (default: the nearest from here upward)');
}

export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}

function wholeNumber(max: number) {
  return (text: string) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < 1 || value > max)
      throw new InvalidArgumentError(`It must be a whole number from 1 to ${max}.`);
    return value;
  };
}

export const limit = (what: string, standard: number) =>
  new Option('--limit <n>', `${what} at most`).argParser(wholeNumber(10_000)).default(standard);
export const workers = () =>
  new Option(
    '--workers <n>',
    'how many worker processes, 1 to 100 (default: as many as run, or one)',
  ).argParser(wholeNumber(100));
export const noWorker = () => new Option('--no-worker', 'start no worker here');
export const keepLast = () =>
  new Option('--keep-last <n>', 'the newest so many checkpoints of each thread stay').argParser(
    wholeNumber(1_000_000),
  );
