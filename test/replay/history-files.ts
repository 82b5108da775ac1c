import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { temporal } from '@temporalio/proto';

const { History } = temporal.api.history.v1;

/** A recorded history, in the JSON of Temporal's protocol buffers. */
export type RecordedHistory = { events: Record<string, unknown>[] };

const FOLDER = new URL('histories/', import.meta.url);

/** Longer ones are compressed, in characters. */
const LONG = 100_000;

/** The release that this tree becomes: the version in package.json. */
export function thisRelease(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Every recorded history, by release and life. */
export function historyFiles(): { release: string; life: string; file: string }[] {
  return readdirSync(FOLDER).flatMap((release) =>
    readdirSync(new URL(`${release}/`, FOLDER)).map((name) => ({
      release,
      life: name.replace(/\.json(\.gz)?$/, ''),
      file: fileURLToPath(new URL(`${release}/${name}`, FOLDER)),
    })),
  );
}

export function readHistory(file: string): RecordedHistory {
  const bytes = readFileSync(file);
  const text = file.endsWith('.gz') ? gunzipSync(bytes) : bytes;
  return JSON.parse(text.toString()) as RecordedHistory;
}

/** As the SDK takes it. Its own `historyFromJSON` fails where npm lays several copies of protobufjs. */
export function asHistory(recorded: RecordedHistory): temporal.api.history.v1.History {
  return History.fromObject(recorded);
}

export function writeHistory(
  release: string,
  life: string,
  recorded: temporal.api.history.v1.IHistory,
): void {
  const history = History.fromObject(recorded).toJSON() as RecordedHistory;
  const folder = new URL(`${release}/`, FOLDER);
  if (!existsSync(folder)) mkdirSync(folder, { recursive: true });
  const text = `${JSON.stringify({ events: history.events.map(withoutPlaces) })}\n`;
  if (text.length > LONG) writeFileSync(new URL(`${life}.json.gz`, folder), gzipSync(text, { level: 9 }));
  else writeFileSync(new URL(`${life}.json`, folder), text);
}

/** What tells where it was recorded: names of machines and processes, stacks. Replay looks at none of it. */
function withoutPlaces(event: Record<string, unknown>): Record<string, unknown> {
  return JSON.parse(JSON.stringify(event), (key, value: unknown) => {
    if (key === 'stackTrace') return '';
    // A worker's own queue is named after its host.
    if (
      typeof value === 'object' &&
      value !== null &&
      'kind' in value &&
      value.kind === 'TASK_QUEUE_KIND_STICKY'
    )
      return { ...value, name: 'sticky' };
    return key === 'identity' ? 'worker' : value;
  }) as Record<string, unknown>;
}
