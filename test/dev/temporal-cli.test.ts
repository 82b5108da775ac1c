import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { up } from '../../src/dev/index.ts';
import { findTemporalCli, TEMPORAL_VERSION } from '../../src/dev/temporal-cli.ts';
import { NO_POSTGRES, temporaryFolder, temporaryHome, writeScript } from './homes.ts';

const WORKS = 'echo "temporal version 1.2.3 (Server 1.29.1, UI 2.42.1)"';
const NO_TALK = () => undefined;

beforeEach(() => {
  // Nothing listens on the discard port: every download is refused, on machines with a network too.
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY']) vi.stubEnv(name, 'http://127.0.0.1:9');
  for (const name of ['NO_PROXY', 'no_proxy']) vi.stubEnv(name, '');
});

afterEach(() => {
  vi.unstubAllEnvs();
});

test('when every way fails, one error lists all of them with their reasons', async () => {
  const home = temporaryHome();
  const lines: string[] = [];
  const failed: unknown = await up({
    home,
    ...NO_POSTGRES,
    temporalCli: '/nowhere/temporal',
    cacheDir: join(home, '..', 'cache'),
    searchPath: '',
    onProgress: (line) => lines.push(line),
  }).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'TEMPORAL_NOT_FOUND' });
  const message = String(failed);
  expect(message).toMatch(/PERDURE_TEMPORAL_CLI \(\/nowhere\/temporal\): there is no such file/);
  expect(message).toMatch(/temporal on PATH: no 'temporal' on PATH/);
  expect(message).toMatch(/cache \(.*\): not there/);
  expect(message).toMatch(/download of .* by the Temporal SDK: .*temporal\.download/);
  expect(message).toMatch(/go install github\.com\/temporalio\/cli\/cmd\/temporal@v.*: no 'go' on PATH/);
  expect(message).toMatch(/TEMPORAL_ADDRESS/);
  expect(lines.filter((line) => line.startsWith('Temporal: '))).toHaveLength(4);
});

test('a refused download is told in one line, and Go builds into the cache once', async () => {
  const folder = temporaryFolder();
  const cacheDir = join(folder, 'cache');
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeScript(
    join(bin, 'go'),
    `echo "$@" >> "${folder}/calls"; printf '#!/bin/sh\\n%s\\n' '${WORKS}' > "$GOBIN/temporal"; chmod +x "$GOBIN/temporal"`,
  );
  const lines: string[] = [];
  const found = await findTemporalCli({ cacheDir, searchPath: bin, onProgress: (line) => lines.push(line) });
  const cached = join(cacheDir, `temporal-cli-${TEMPORAL_VERSION}`, 'temporal');
  expect(found).toEqual({ path: cached, version: '1.29.1' });
  expect(lines.find((line) => line.includes('download of'))).toMatch(/temporal\.download/);
  expect(lines.at(-1)).toMatch(/building Temporal .* from source with Go: 0 s/);
  expect(readdirSync(cacheDir)).toEqual([`temporal-cli-${TEMPORAL_VERSION}`]);

  await findTemporalCli({ cacheDir, searchPath: bin, onProgress: NO_TALK });
  expect(readFileSync(join(folder, 'calls'), 'utf8')).toBe(
    `install github.com/temporalio/cli/cmd/temporal@v${TEMPORAL_VERSION}\n`,
  );
});

test('a build that fails says why and leaves nothing in the cache', async () => {
  const folder = temporaryFolder();
  writeScript(join(folder, 'go'), 'echo "go: module lookup disabled" >&2; exit 1');
  const cacheDir = join(folder, 'cache');
  await expect(findTemporalCli({ cacheDir, searchPath: folder, onProgress: NO_TALK })).rejects.toThrow(
    /go install .*: go: module lookup disabled/,
  );
  expect(readdirSync(cacheDir)).toEqual([]);
});

test('the one on PATH comes before the cache; a broken one is told and passed over', async () => {
  const folder = temporaryFolder();
  const directory = join(folder, 'cache', `temporal-cli-${TEMPORAL_VERSION}`);
  mkdirSync(directory, { recursive: true });
  writeScript(join(directory, 'temporal'), WORKS);
  const good = join(folder, 'good');
  const broken = join(folder, 'broken');
  for (const bin of [good, broken]) mkdirSync(bin);
  writeScript(join(good, 'temporal'), WORKS);
  writeScript(join(broken, 'temporal'), 'echo "wrong machine" >&2; exit 126');

  const options = { cacheDir: join(folder, 'cache'), onProgress: NO_TALK };
  expect((await findTemporalCli({ ...options, searchPath: good })).path).toBe(join(good, 'temporal'));
  const lines: string[] = [];
  const onProgress = (line: string) => lines.push(line);
  expect((await findTemporalCli({ ...options, searchPath: broken, onProgress })).path).toBe(
    join(directory, 'temporal'),
  );
  expect(lines).toEqual([expect.stringMatching(/^Temporal: temporal on PATH: .*wrong machine/)]);
  expect(
    (await findTemporalCli({ ...options, searchPath: '', temporalCli: join(good, 'temporal') })).path,
  ).toBe(join(good, 'temporal'));
});
