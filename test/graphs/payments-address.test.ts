import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, expect, inject, test, vi } from 'vitest';
import { paymentsAddress } from '../../graphs/refund-flow/payments-address.ts';
import { DEFAULT_PAYMENTS_URL } from '../../graphs/refund-flow/settings.ts';

afterEach(() => vi.unstubAllEnvs());

/** Somebody at work on this machine may have one running. */
const taken = await fetch(`${DEFAULT_PAYMENTS_URL}/health`).then(
  () => true,
  () => false,
);

test('PAYMENTS_URL wins, whoever is there', async () => {
  vi.stubEnv('PAYMENTS_URL', 'http://127.0.0.1:9/');
  expect(await paymentsAddress()).toBe('http://127.0.0.1:9');
});

test.skipIf(taken)('without a service and without a database, an error names the variables', async () => {
  vi.stubEnv('PAYMENTS_URL', '');
  vi.stubEnv('DATABASE_URL', '');
  await expect(paymentsAddress()).rejects.toThrow(/PAYMENTS_URL.*DATABASE_URL/s);
});

test.skipIf(taken)('without a service, one is started for this process, and once', async () => {
  vi.stubEnv('PAYMENTS_URL', '');
  vi.stubEnv('DATABASE_URL', inject('databaseUrl'));
  const [one, two] = await Promise.all([paymentsAddress(), paymentsAddress()]);
  expect(one).toBe(two);
  expect(await paymentsAddress()).toBe(one);
  const acts: unknown = await fetch(`${one}/behaviour`).then((response) => response.json());
  expect(acts).toMatchObject({ honour_idempotency_key: true });
  expect(await fetch(`${one}/orders/order-1042`).then((response) => response.status)).toBe(200);
});

test('the service ends with the process that started it, also when that is killed', async () => {
  const module = fileURLToPath(new URL('../../graphs/refund-flow/payments/process.ts', import.meta.url));
  const script = `
    const { startPayments } = await import(${JSON.stringify(pathToFileURL(module).href)});
    const { url } = await startPayments({ databaseUrl: process.env.DATABASE_URL });
    console.log(JSON.stringify({ url }));
    setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    env: { ...process.env, DATABASE_URL: inject('databaseUrl') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
  const { url } = JSON.parse(line) as { url: string };
  expect((await fetch(`${url}/health`)).status).toBe(200);
  parent.kill('SIGKILL');
  const answers = () =>
    fetch(`${url}/health`).then(
      () => true,
      () => false,
    );
  await expect.poll(answers, { timeout: 10_000 }).toBe(false);
});
