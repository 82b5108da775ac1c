// npm run test:cluster [-- VITEST ARGUMENTS]: builds a production Temporal server (its four services in one process,
// on Postgres persistence), and runs the tests of folders temporal/ and faults/ against it. Needs Go.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { removeHome, up } from '../../src/dev/index.ts';
import { buildCluster } from './build.ts';
import { startCluster } from './server.ts';

const WHAT = ['test/temporal', 'test/faults', 'test/cli/run.test.ts'];

const progress = (line: string) => process.stderr.write(`${line}\n`);
const root = fileURLToPath(new URL('../..', import.meta.url));

async function main(): Promise<number> {
  const binaries = await buildCluster(join(homedir(), '.cache', 'perdure'), progress);
  const folder = mkdtempSync(join(tmpdir(), 'perdure-cluster-'));
  // Else the user that Postgres runs as could not reach its data when this runs as root.
  chmodSync(folder, 0o755);
  const home = join(folder, '.perdure');
  const ends: (() => Promise<unknown>)[] = [
    () => rm(folder, { recursive: true, force: true }),
    () => removeHome({ home }),
  ];
  const end = async () => {
    for (const one of ends.splice(0).toReversed()) await one();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void end().finally(() => process.exit(1)));
  try {
    // The address keeps `up` from starting the development server.
    const { databaseUrl } = await up({ home, temporalAddress: '127.0.0.1:1', onProgress: progress });
    const cluster = await startCluster({ folder, binaries, databaseUrl, progress });
    ends.push(() => cluster.stop());
    const wanted = process.argv.slice(2);
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const tests = spawn(process.execPath, [vitest, 'run', ...(wanted.length > 0 ? wanted : WHAT)], {
      cwd: root,
      stdio: 'inherit',
      env: {
        ...process.env,
        PERDURE_TEST_DATABASE_URL: databaseUrl,
        PERDURE_TEST_TEMPORAL_ADDRESS: cluster.address,
      },
    });
    ends.push(async () => {
      if (tests.exitCode === null && tests.signalCode === null && tests.kill('SIGTERM'))
        await once(tests, 'exit');
    });
    const [code] = (await once(tests, 'exit')) as [number | null];
    return code ?? 1;
  } finally {
    await end();
  }
}

process.exitCode = await main();
