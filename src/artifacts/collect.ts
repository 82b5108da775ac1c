import type pg from 'pg';
import { faultPoint } from '../telemetry/fault-points.ts';
import { lastPart } from './paths.ts';
import type { Store } from './put.ts';
import { inTransaction, isContentUsed, lockContent } from './rows.ts';

export type CollectOptions = {
  /** What is younger stays, in ms. Default 24 h. Has to be longer than any upload takes. */
  graceMs?: number | undefined;
  /** Say what would go, change nothing. Default false. */
  dryRun?: boolean | undefined;
};

/** What went, or would go. */
export type Collected = {
  /** Ready artifacts that nothing references, and their bytes. */
  unreferenced: number;
  bytes: number;
  /** Uploads that were cut off: rows that say `pending`. */
  pending: number;
  /** Objects of uploads without such a row. */
  uploads: number;
  /** Objects under a hash that no artifact has. */
  contents: number;
};

const DEFAULT_GRACE_MS = 24 * 3_600_000;

/** Rows and objects that are looked at in one statement. */
const PAGE = 500;

/** Removes what nothing references and what crashes left behind. Uploads and new references may come at any time. */
export async function collectGarbage(
  store: Store,
  { graceMs = DEFAULT_GRACE_MS, dryRun = false }: CollectOptions,
): Promise<Collected> {
  const before = await graceBegan(store, graceMs);
  return {
    ...(await collectUnreferenced(store, before, dryRun)),
    pending: await collectPending(store, before, dryRun),
    uploads: await collectUploads(store, before, dryRun),
    contents: await collectContents(store, before, dryRun),
  };
}

async function graceBegan({ database }: Store, graceMs: number): Promise<Date> {
  const { rows } = await database.query<{ now: Date }>('SELECT now() AS now', []);
  return new Date((rows[0]?.now ?? new Date()).getTime() - graceMs);
}

type Candidate = { artifact_id: string; sha256: Buffer; size: string };

/** The artifact a, of tenant $1, is ready, not touched since $2, and nothing references it. */
const unreferenced = ({ database }: Store) => `
  a.tenant_id = $1 AND a.status = 'ready' AND a.touched_at < $2
  AND NOT EXISTS (SELECT FROM ${database.table('artifact_references')} r
                  WHERE r.tenant_id = a.tenant_id AND r.artifact_id = a.artifact_id)`;

async function collectUnreferenced(
  store: Store,
  before: Date,
  dryRun: boolean,
): Promise<Pick<Collected, 'unreferenced' | 'bytes'>> {
  const { database, tenant } = store;
  let [count, bytes] = [0, 0];
  for (let after: string | null = null; ;) {
    const { rows }: pg.QueryResult<Candidate> = await database.query<Candidate>(
      `SELECT a.artifact_id, a.sha256, a.size FROM ${database.table('artifacts')} a
       WHERE ${unreferenced(store)} AND ($3::uuid IS NULL OR a.artifact_id > $3)
       ORDER BY a.artifact_id LIMIT $4`,
      [tenant, before, after, PAGE],
    );
    for (const one of rows) {
      if (!dryRun && !(await take(store, one, before))) continue;
      count += 1;
      bytes += Number(one.size);
    }
    const last = rows.at(-1);
    if (rows.length < PAGE || last === undefined) return { unreferenced: count, bytes };
    after = last.artifact_id;
  }
}

/** First the row, then the bytes: a row is never there without them. @returns false where somebody needs it by now. */
async function take(store: Store, { artifact_id, sha256 }: Candidate, before: Date): Promise<boolean> {
  const { database, tenant } = store;
  const gone = await database.transaction(async (client) => {
    await lockContent(client, database, tenant, sha256);
    // A reference that is being made is waited for here, and seen by the next statement.
    await client.query(
      `SELECT FROM ${database.table('artifacts')} WHERE tenant_id = $1 AND artifact_id = $2 FOR UPDATE`,
      [tenant, artifact_id],
    );
    const { rowCount } = await client.query(
      `DELETE FROM ${database.table('artifacts')} a WHERE ${unreferenced(store)} AND a.artifact_id = $3`,
      [tenant, before, artifact_id],
    );
    return rowCount === 1;
  });
  faultPoint('artifact:row-gone');
  if (gone) await removeUnused(store, sha256);
  return gone;
}

/** Removes bytes, unless an artifact has them, be it since a moment ago. @returns whether they are gone. */
export async function removeUnused(
  { database, tenant, objects, paths }: Store,
  sha256: Buffer,
): Promise<boolean> {
  return database.transaction(async (client) => {
    await lockContent(client, database, tenant, sha256);
    if (await isContentUsed(inTransaction(client), database, tenant, sha256)) return false;
    await objects.remove(paths.content(sha256.toString('hex')));
    return true;
  });
}

async function collectPending(
  { database, tenant, objects, paths }: Store,
  before: Date,
  dryRun: boolean,
): Promise<number> {
  const artifacts = database.table('artifacts');
  const stale = `SELECT artifact_id FROM ${artifacts} WHERE tenant_id = $1 AND status = 'pending' AND created_at < $2`;
  // One that is being made ready is passed over: waiting for it with other rows in hand would be a deadlock.
  const { rows } = await database.query<{ artifact_id: string }>(
    dryRun
      ? stale
      : `DELETE FROM ${artifacts} WHERE tenant_id = $1 AND artifact_id IN (${stale} FOR UPDATE SKIP LOCKED)
         RETURNING artifact_id`,
    [tenant, before],
  );
  if (!dryRun) for (const { artifact_id } of rows) await objects.remove(paths.upload(artifact_id));
  return rows.length;
}

async function collectUploads(store: Store, before: Date, dryRun: boolean): Promise<number> {
  const { database, tenant, objects, paths } = store;
  let count = 0;
  for await (const page of pages(objects.list(paths.uploads))) {
    const { rows } = await database.query<{ id: string }>(
      `SELECT artifact_id::text AS id FROM ${database.table('artifacts')}
       WHERE tenant_id = $1 AND status = 'pending' AND artifact_id::text = ANY($2)`,
      [tenant, page.map(lastPart)],
    );
    const wanted = new Set(rows.map(({ id }) => id));
    for (const path of page) {
      if (wanted.has(lastPart(path)) || !(await isOlder(store, path, before))) continue;
      if (!dryRun) await objects.remove(path);
      count += 1;
    }
  }
  return count;
}

async function collectContents(store: Store, before: Date, dryRun: boolean): Promise<number> {
  const { database, tenant, objects, paths } = store;
  let count = 0;
  for await (const page of pages(objects.list(paths.contents))) {
    const hashes = page.map(lastPart).filter((name) => /^[0-9a-f]{64}$/.test(name));
    const { rows } = await database.query<{ sha256: string; used: boolean }>(
      `SELECT encode(sha256, 'hex') AS sha256, bool_or(status IN ('ready', 'quarantined')) AS used
       FROM ${database.table('artifacts')}
       WHERE tenant_id = $1 AND sha256 = ANY(SELECT decode(hash, 'hex') FROM unnest($2::text[]) AS hash)
       GROUP BY sha256`,
      [tenant, hashes],
    );
    const used = new Map(rows.map((row) => [row.sha256, row.used]));
    for (const hash of hashes) {
      if (used.get(hash) === true) continue;
      // What was to be erased waits for no grace.
      if (!used.has(hash) && !(await isOlder(store, paths.content(hash), before))) continue;
      if (!dryRun && !(await removeUnused(store, Buffer.from(hash, 'hex')))) continue;
      count += 1;
    }
  }
  return count;
}

/** Whether the object is there, and was written before. */
async function isOlder({ objects }: Store, path: string, before: Date): Promise<boolean> {
  const stat = await objects.stat(path);
  return stat !== undefined && stat.modifiedAt < before.getTime();
}

async function* pages(paths: AsyncIterable<string>): AsyncGenerator<string[]> {
  let page: string[] = [];
  for await (const path of paths) {
    page.push(path);
    if (page.length < PAGE) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}
