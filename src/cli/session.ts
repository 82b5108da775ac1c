import { exitStatusOf } from './exit-status.ts';
import { Output, type Streams } from './output.ts';
import type { Environment, Settings } from './project-context.ts';

/** The process that the command runs in. */
export type Host = { streams: Streams; env: Environment; cwd: string };

/** Options that every command takes. */
export type CommonOptions = { json?: boolean; project?: string };

/** One command at work. */
export class Session {
  readonly output: Output;
  readonly cwd: string;
  readonly projectOption: string | undefined;
  readonly #host: Host;

  constructor(host: Host, options: CommonOptions) {
    this.#host = host;
    this.cwd = host.cwd;
    this.projectOption = options.project;
    this.output = new Output(host.streams, options.json === true);
  }

  /** langgraph.json and the environment, read anew. @throws ConfigError | UsageError */
  async settings(): Promise<Settings> {
    const { readSettings } = await import('./project-context.ts');
    return readSettings(this.place());
  }

  place(): { env: Environment; cwd: string; projectOption: string | undefined } {
    return { env: this.#host.env, cwd: this.cwd, projectOption: this.projectOption };
  }

  /** `perdure <words>`, as it has to be typed here to mean this project. */
  commandLine(...words: string[]): string {
    return [
      'perdure',
      ...words,
      ...(this.projectOption === undefined ? [] : ['--project', this.projectOption]),
    ]
      .map(quoted)
      .join(' ');
  }
}

/** A command's work; what it returns is the exit status. */
export type Work = (session: Session) => Promise<number>;

/** Runs the work and shows its error, if any. @returns the exit status. */
export async function perform(host: Host, options: CommonOptions, work: Work): Promise<number> {
  const session = new Session(host, options);
  try {
    return await work(session);
  } catch (error) {
    session.output.failure(error);
    return exitStatusOf(error);
  } finally {
    session.output.endProgress();
  }
}

/** A word as a POSIX shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
