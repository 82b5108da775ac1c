// A process that puts artifacts in and ends as told. Arguments: JSON with these fields.
import { createHash } from 'node:crypto';
import { openArtifacts } from '../../src/artifacts/artifacts.ts';
import { parseArtifactPlace } from '../../src/config/artifact-settings.ts';
import { openDatabase } from '../../src/postgres/database.ts';
import { armFault } from '../../src/telemetry/fault-points.ts';

export type ChildTask = {
  databaseUrl: string;
  schema: string;
  /** A folder or a bucket. */
  place: string;
  /** Of the bucket. */
  endpoint?: string;
  /** Ends the process there, as kill -9 does. */
  faultPoint?: string;
  /** What to do, in this order. */
  put?: string;
  erase?: string;
  gc?: boolean;
  /** Bytes to put in and to read back. */
  large?: number;
};

const task = JSON.parse(process.argv[2] ?? '{}') as ChildTask;
const database = openDatabase({ connectionString: task.databaseUrl, schema: task.schema, max: 3 });
const artifacts = await openArtifacts({
  database,
  tenant: 'default',
  settings: parseArtifactPlace(task.place, process.cwd(), { endpoint: task.endpoint }),
});
if (task.faultPoint !== undefined) armFault({ point: task.faultPoint });
if (task.put !== undefined) await artifacts.put(task.put);
if (task.erase !== undefined) await artifacts.erase(task.erase);
if (task.gc === true) await artifacts.gc({ graceMs: 0 });
if (task.large !== undefined) console.log(JSON.stringify(await moveLarge(task.large)));
artifacts.close();
await database.close();

async function moveLarge(size: number) {
  const hash = createHash('sha256');
  const started = Date.now();
  const made = await artifacts.put(generate(size));
  const uploaded = Date.now();
  let read = 0;
  for await (const piece of await artifacts.open(made)) {
    hash.update(piece as Buffer);
    read += (piece as Buffer).length;
  }
  return {
    read,
    same: hash.digest('hex') === made.sha256,
    peakMegabytes: process.resourceUsage().maxRSS / 1_024,
    seconds: { put: (uploaded - started) / 1_000, read: (Date.now() - uploaded) / 1_000 },
  };
}

/** New memory for each piece, as it comes from a network. */
function* generate(size: number): Generator<Buffer> {
  for (let at = 0; at < size; at += 65_536) {
    const piece = Buffer.alloc(Math.min(65_536, size - at), at & 0xff);
    piece.writeDoubleLE(at, 0);
    yield piece;
  }
}
