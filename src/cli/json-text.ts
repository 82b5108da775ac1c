import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import type { JsonValue } from '../contracts/json.ts';
import { UsageError } from './exit-status.ts';

/**
 * The JSON that an option gives: the text itself where it begins with `{`, `[` or `"`, stdin for `-`, else a file.
 * @throws UsageError that names the option and the position.
 */
export async function readJsonOption(option: string, given: string, cwd: string): Promise<JsonValue> {
  if (given === '-') return parseJsonOption(`${option} (stdin)`, await readAll(process.stdin));
  if (/^\s*[{["]/.test(given)) return parseJsonOption(option, given);
  const file = resolve(cwd, given);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const reason =
      error instanceof Error && 'code' in error && error.code === 'ENOENT'
        ? 'there is no such file'
        : String(error);
    throw new UsageError(
      `${option}: ${file} can't be read: ${reason}. Give a file, '-' for stdin, or JSON text that begins with {, [ or ".`,
      { option, file },
      { cause: error },
    );
  }
  return parseJsonOption(`${option} (${file})`, text);
}

/** @throws UsageError that names the option and the position. */
export function parseJsonOption(option: string, text: string): JsonValue {
  const content = text.replace(/^\uFEFF/, '');
  try {
    return JSON.parse(content) as JsonValue;
  } catch (error) {
    const position = invalidAt(content);
    const before = content.slice(0, position).split('\n');
    const line = before.length;
    const column = (before.at(-1)?.length ?? 0) + 1;
    const found =
      position >= content.length
        ? 'it ends too early'
        : `'${String.fromCodePoint(content.codePointAt(position) ?? 32)}' is not expected there`;
    throw new UsageError(
      `${option} is not valid JSON: at position ${position} (line ${line}, column ${column}) ${found}.${quoteHint(content)}`,
      { option, position, line, column },
      { cause: error },
    );
  }
}

function quoteHint(content: string): string {
  return /^[A-Za-z][^{}[\]"]*$/.test(content.trim())
    ? ` A text needs double quotes within: '"${content.trim()}"'.`
    : '';
}

const TOKEN =
  /\s*(?:(?<value>"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|(?<mark>[{}[\],:]))/y;

/** What may come at each place of a document; `key` and `value` are followed by what their holder expects. */
type Expect = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | ', or end' | 'nothing';

/**
 * Where invalid JSON stops being JSON, counted from 0; its length where it only ends too early. V8 tells the
 * position of some errors only.
 */
export function invalidAt(text: string): number {
  const open: ('{' | '[')[] = [];
  let expect: Expect = 'value';
  const after = (): Expect => (open.length === 0 ? 'nothing' : ', or end');
  TOKEN.lastIndex = 0;
  for (let at = 0; ; at = TOKEN.lastIndex) {
    const start = at + (/^\s*/.exec(text.slice(at))?.[0].length ?? 0);
    const match = TOKEN.exec(text);
    if (match === null) return start >= text.length || text[start] === '"' ? endOfBroken(text, start) : start;
    const { value, mark } = match.groups ?? {};
    if (value !== undefined) {
      if (expect === 'value' || expect === 'value or ]') expect = after();
      else if ((expect === 'key' || expect === 'key or }') && value.startsWith('"')) expect = ':';
      else return start;
    } else if ((mark === '{' || mark === '[') && (expect === 'value' || expect === 'value or ]')) {
      open.push(mark);
      expect = mark === '{' ? 'key or }' : 'value or ]';
    } else if (mark === ':' && expect === ':') expect = 'value';
    else if (mark === ',' && expect === ', or end') expect = open.at(-1) === '{' ? 'key' : 'value';
    else if (closes(mark, open.at(-1), expect)) {
      open.pop();
      expect = after();
    } else return start;
  }
}

function closes(mark: string | undefined, holder: '{' | '[' | undefined, expect: Expect): boolean {
  if (mark === '}') return holder === '{' && (expect === 'key or }' || expect === ', or end');
  return mark === ']' && holder === '[' && (expect === 'value or ]' || expect === ', or end');
}

/** Within a string that is broken: its first bad character, or the end of the text. */
function endOfBroken(text: string, start: number): number {
  const good = /"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*/y;
  good.lastIndex = start;
  return good.test(text) ? good.lastIndex : start;
}
