import { createRequire } from 'node:module';
import type pc from 'picocolors';
import { errorDocument, type ErrorDocument } from './exit-status.ts';

/** Where the command writes, and whether a person looks at it. */
export type Streams = {
  /** Results only. */
  stdout(text: string): void;
  /** Bytes of a result, once they are taken. */
  stdoutBytes(bytes: Uint8Array): Promise<void>;
  /** Progress, notes, errors for people. */
  stderr(text: string): void;
  stdoutIsTerminal: boolean;
  stderrIsTerminal: boolean;
  /** Whether colours are wanted where a terminal shows them: NO_COLOR is unset and TERM is not `dumb`. */
  colours: boolean;
};

type Colours = ReturnType<typeof pc.createColors>;

/** Long work that a person is told of. */
export type Progress = {
  /** Says what is being done now. */
  (line: string): void;
  /** Takes the spinner away. */
  end(): void;
};

/** Prints a command's one result, as JSON or for a person, and everything else to stderr. */
export class Output {
  readonly json: boolean;
  readonly colours: Colours;
  readonly #streams: Streams;
  readonly #stderrColours: Colours;
  #spinner: { text: string; stop(): unknown } | undefined;

  constructor(streams: Streams, json: boolean) {
    this.#streams = streams;
    this.json = json;
    this.colours = colours(streams.colours && streams.stdoutIsTerminal && !json);
    this.#stderrColours = colours(streams.colours && streams.stderrIsTerminal);
  }

  /** The result: `document` as JSON, or what `forPeople` makes of it. Called once in a command. */
  result(document: unknown, forPeople: (colours: Colours) => string): void {
    this.endProgress();
    const text = this.json
      ? JSON.stringify(document, null, this.#streams.stdoutIsTerminal ? 2 : 0)
      : forPeople(this.colours);
    this.#streams.stdout(text.endsWith('\n') ? text : `${text}\n`);
  }

  /** A result that is bytes, in place of {@link result}. */
  async bytes(pieces: AsyncIterable<Uint8Array>): Promise<void> {
    this.endProgress();
    for await (const piece of pieces) await this.#streams.stdoutBytes(piece);
  }

  get isTerminal(): boolean {
    return this.#streams.stdoutIsTerminal;
  }

  /** A line beside the result. */
  note(line: string): void {
    this.endProgress();
    this.#streams.stderr(`${line}\n`);
  }

  /** The error, with `--json` on stdout as the one document. */
  failure(error: unknown, hint?: string): ErrorDocument {
    this.endProgress();
    const document = errorDocument(error);
    if (this.json) {
      this.#streams.stdout(`${JSON.stringify(document)}\n`);
      return document;
    }
    this.#streams.stderr(`${this.#stderrColours.red('error:')} ${plain(document.error.message)}\n`);
    if (hint !== undefined) this.#streams.stderr(`${hint}\n`);
    if (document.error.code === 'UNEXPECTED' && error instanceof Error && error.stack !== undefined)
      this.#streams.stderr(`${this.#stderrColours.dim(error.stack)}\n`);
    return document;
  }

  /** A spinner on a terminal, lines elsewhere. */
  async progress(): Promise<Progress> {
    const end = () => this.endProgress();
    if (!this.#streams.stderrIsTerminal)
      return Object.assign((line: string) => this.#streams.stderr(`${line}\n`), { end });
    const { default: ora } = await import('ora');
    return Object.assign(
      (line: string) => {
        // Ctrl-C is ours to handle, so the spinner leaves stdin alone.
        this.#spinner ??= ora({
          text: line,
          discardStdin: false,
          ...(this.#streams.colours ? {} : { color: false as const }),
        }).start();
        this.#spinner.text = line;
      },
      { end },
    );
  }

  endProgress(): void {
    this.#spinner?.stop();
    this.#spinner = undefined;
  }
}

function colours(wanted: boolean): Colours {
  // CommonJS, and asked for what we decided: by itself it colours for any CI.
  const picocolors = createRequire(import.meta.url)('picocolors') as typeof pc;
  return picocolors.createColors(wanted);
}

/** Text of others, such as a question of a graph, without what could steer a terminal. Line breaks and tabs stay. */
export function plain(text: string): string {
  return text.replace(
    /[^\P{Cc}\n\t]/gu,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}
