import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { openArtifacts, type Artifacts, type Verification } from '../artifacts/artifacts.ts';
import { artifactSettings } from '../config/config.ts';
import type { ArtifactStatus } from '../contracts/artifacts.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { duration } from '../contracts/duration.ts';
import { size } from './bytes.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { withDatabase } from './looking.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';
import { table, time } from './table.ts';

export type ListOptions = { status?: ArtifactStatus; thread?: string; limit: number };
export type PutOptions = { mediaType: string; name?: string };
export type GetOptions = { output?: string };
export type VerifyOptions = { quarantine?: boolean };
export type GcOptions = { grace: string; dryRun?: boolean };

/** Artifacts that are read from Postgres at a time. */
const PAGE = 500;

async function withArtifacts<T>(session: Session, work: (artifacts: Artifacts) => Promise<T>): Promise<T> {
  const { config } = await session.settings();
  return withDatabase(session, async (database, tenant) => {
    const artifacts = await openArtifacts({ database, tenant, settings: artifactSettings(config) });
    try {
      return await work(artifacts);
    } finally {
      artifacts.close();
    }
  });
}

export async function showArtifacts(session: Session, options: ListOptions): Promise<number> {
  const { status, thread: threadId, limit } = options;
  const artifacts = await withArtifacts(session, (all) => all.list({ status, threadId, limit }));
  session.output.result({ artifacts }, () =>
    table(
      ['ARTIFACT', 'STATUS', 'SIZE', 'MEDIA TYPE', 'NAME', 'MADE', 'HELD BY'],
      artifacts.map((one) => [
        one.artifact_id,
        one.status,
        one.size === null ? null : size(one.size),
        one.media_type,
        one.name,
        time(one.created_at),
        one.references,
      ]),
      'no artifacts',
    ),
  );
  return EXIT.done;
}

export async function putArtifact(session: Session, file: string, options: PutOptions): Promise<number> {
  const { config } = await session.settings();
  const path = resolve(session.cwd, file);
  if (file !== '-') checkFile(path);
  const name = options.name ?? (file === '-' ? undefined : basename(path));
  const made = await withArtifacts(session, (artifacts) =>
    artifacts.put(file === '-' ? process.stdin : createReadStream(path), {
      mediaType: options.mediaType,
      name,
      holder: { kind: 'user', id: config.actor },
    }),
  );
  session.output.result(
    made,
    () => `${made.artifact_id}\n${size(made.size)}, ${made.media_type}, sha256 ${made.sha256}`,
  );
  return EXIT.done;
}

/** @throws UsageError */
function checkFile(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new UsageError(`There is no file ${path}.`, { file: path });
  if (found.isDirectory())
    throw new UsageError(`${path} is a folder. Give a file, or - for stdin.`, { file: path });
}

export async function getArtifact(session: Session, id: string, { output }: GetOptions): Promise<number> {
  const { output: shown } = session;
  if (shown.json && (output === undefined || output === '-'))
    throw new UsageError('With --json, give a file: --output FILE.', { option: '--output' });
  if (output === undefined && shown.isTerminal)
    throw new UsageError(
      'What is in it may be no text: give --output FILE, or --output - for the terminal.',
      {
        option: '--output',
      },
    );
  await withArtifacts(session, async (artifacts) => {
    const view = await artifacts.view(id);
    const bytes = await artifacts.open(id);
    if (output === undefined || output === '-') return shown.bytes(bytes);
    const file = resolve(session.cwd, output);
    await writeWhole(file, bytes);
    return shown.result({ ...view, file }, () => `${file}: ${size(view.size ?? 0)}, ${view.media_type}`);
  });
  return EXIT.done;
}

/** The file is there with all its bytes, or as it was before. @throws UsageError where it can't be written. */
async function writeWhole(file: string, bytes: Readable): Promise<void> {
  const part = `${file}.${randomUUID().slice(0, 8)}.part`;
  try {
    await pipeline(bytes, createWriteStream(part, { flags: 'wx' }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    if (error instanceof Error && 'syscall' in error)
      throw new UsageError(
        `--output: ${file} can't be written: ${error.message}`,
        { option: '--output', file },
        { cause: error },
      );
    throw error;
  }
}

export async function verifyArtifacts(
  session: Session,
  id: string | undefined,
  { quarantine = false }: VerifyOptions,
): Promise<number> {
  const progress = await session.output.progress();
  const found: Verification[] = [];
  await withArtifacts(session, async (artifacts) => {
    for await (const one of id === undefined ? allReady(artifacts) : [id]) {
      try {
        found.push(await artifacts.verify(one, { quarantine }));
      } catch (error) {
        // It was erased, or collected, since it was listed.
        const gone = isPerdureError(error, 'ARTIFACT_UNKNOWN') || isPerdureError(error, 'ARTIFACT_ERASED');
        if (id !== undefined || !gone) throw error;
      }
      progress(`${found.length} artifacts read`);
    }
  });
  const wrong = found.filter((one) => !one.ok);
  session.output.result({ verified: found.length, wrong: wrong.length, artifacts: found }, (colours) =>
    [
      ...wrong.map((one) => `${colours.red('wrong')} ${plain(one.message)} (${one.status})`),
      `${found.length} read, ${wrong.length} wrong`,
    ].join('\n'),
  );
  return wrong.length > 0 ? EXIT.failed : EXIT.done;
}

async function* allReady(artifacts: Artifacts): AsyncGenerator<string> {
  for (let before: string | undefined; ;) {
    const page = await artifacts.list({ status: 'ready', limit: PAGE, before });
    yield* page.map(({ artifact_id }) => artifact_id);
    before = page.at(-1)?.artifact_id;
    if (page.length < PAGE) return;
  }
}

export async function eraseArtifact(session: Session, id: string): Promise<number> {
  const erased = await withArtifacts(session, (artifacts) => artifacts.erase(id));
  session.output.result(erased, () => `${erased.artifact_id} is erased; its bytes are gone for good.`);
  return EXIT.done;
}

export async function collectArtifacts(session: Session, options: GcOptions): Promise<number> {
  const grace = duration.safeParse(options.grace);
  if (!grace.success)
    throw new UsageError(`--grace: ${grace.error.issues[0]?.message ?? 'is no duration'}`, {
      option: '--grace',
    });
  const dryRun = options.dryRun === true;
  const went = await withArtifacts(session, (artifacts) => artifacts.gc({ graceMs: grace.data, dryRun }));
  session.output.result({ dry_run: dryRun, ...went }, () => {
    const verb = dryRun ? 'would go' : 'went';
    return `${went.unreferenced} artifacts that nothing holds ${verb}, ${size(went.bytes)}; and what was left behind: ${went.pending} uploads that were cut off, ${went.uploads + went.contents} objects.`;
  });
  return EXIT.done;
}
