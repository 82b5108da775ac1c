import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, inject, test } from 'vitest';
import { makeRunFolder } from '../dev/run-folders.ts';
import { until } from '../support/eventually.ts';
import { openInstallation } from '../support/installation.ts';
import { startEffectCounter } from './effect-counter.ts';
import { endProcesses, type TestProcess } from './processes.ts';
import {
  effectsOf,
  KINDS,
  logOf,
  orderRun,
  review,
  startShopWorker,
  writeRelease,
  type Order,
  type Place,
} from './shop.ts';

/**
 * How long workers are killed at random, in seconds. The suite takes 12; PERDURE_TEST_CHAOS_SECONDS=120 takes longer.
 * PERDURE_TEST_SEED repeats the choice of the victims.
 */
const SECONDS = Number(process.env['PERDURE_TEST_CHAOS_SECONDS'] ?? 12);
const SEED = Number(process.env['PERDURE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const THREADS = 50;
/** The first are started under 17, the rest once 18 is there. */
const BEFORE = 30;
/** Pause between two kills, in ms. */
const KILL_EVERY = 1_000;
const MIN_KILLS = 4;

const farSide = await startEffectCounter();
const folder = makeRunFolder(Number(process.env['PERDURE_TEST_RUN'] ?? process.pid));
const releases = { '17': writeRelease(folder, '17'), '18': writeRelease(folder, '18') };
const at = await openInstallation('upgrade');
const place: Place = {
  databaseUrl: inject('databaseUrl'),
  temporalAddress: inject('temporalAddress'),
  schema: at.schema,
};
afterAll(async () => {
  await endProcesses();
  await at.close();
  await farSide.close();
});

type Version = keyof typeof releases;
type Case = { thread: string; version: Version; orders: Order[]; late: boolean };

/** Every fourth asks and is answered while workers die; every other of those once that is over. */
function makeCase(number: number): Case {
  const thread = `thread-${number}`;
  const how = number % 4 === 0 || number % 4 === 1 ? 'asks' : 'runs';
  const kind = KINDS[number % KINDS.length] ?? 'idempotent';
  // Inputs that queue behind the first, also where that has to ask what became of its charge.
  const inputs = how === 'runs' && number % 5 === 2 ? 3 : 1;
  return {
    thread,
    version: number < BEFORE ? '17' : '18',
    late: number % 4 === 1,
    orders: Array.from({ length: inputs }, (_, nth) => ({ key: `order-${number}-${nth}`, how, kind })),
  };
}
const cases = Array.from({ length: THREADS }, (_, number) => makeCase(number));

type ShopWorker = { version: Version; process: TestProcess; ready: boolean };

/** Kills one worker after the other once it works, and starts one of the same version in its place. */
class Chaos {
  #workers: ShopWorker[] = [];
  #random = SEED;
  kills = 0;

  start(version: Version): TestProcess {
    const process = startShopWorker(place, releases[version], farSide);
    const worker: ShopWorker = { version, process, ready: false };
    this.#workers.push(worker);
    void process.said.then(() => {
      worker.ready = true;
    });
    return process;
  }

  async until(end: number): Promise<void> {
    // On a busy machine workers are long in starting.
    while (Date.now() < end || this.kills < MIN_KILLS) {
      await delay(KILL_EVERY);
      const ready = this.#workers.filter((worker) => worker.ready);
      const victim = ready[this.#next(ready.length)];
      if (!victim) continue;
      this.#workers = this.#workers.filter((worker) => worker !== victim);
      victim.process.kill('SIGKILL');
      this.kills += 1;
      this.start(victim.version);
    }
  }

  /** Mulberry32. */
  #next(below: number): number {
    this.#random = (this.#random + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#random ^ (this.#random >>> 15), 1 | this.#random);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  }
}

test(
  'fifty threads at all kinds of places end under their versions while workers are killed and 18 comes beside 17',
  { timeout: (SECONDS + 240) * 1_000 },
  async () => {
    const chaos = new Chaos();
    const { client } = at;
    const begin = ({ thread, orders, version }: Case) =>
      Promise.all(
        orders.map((order) => client.startRun(orderRun(thread, order, version === '17' ? '17' : undefined))),
      );
    await chaos.start('17').said;
    chaos.start('17');
    const runs = new Map(
      await Promise.all(cases.slice(0, BEFORE).map(async (one) => [one.thread, await begin(one)] as const)),
    );
    const started = Date.now();
    const killing = chaos.until(started + SECONDS * 1_000);
    let over = false;
    const late = new Set(cases.filter((one) => one.late).map(({ thread }) => thread));
    const reviewing = (async () => {
      for (;;) {
        const all = over;
        const left = await review(at, farSide, (thread) => all || !late.has(thread));
        if (all && left === 0 && (await unfinished()) === 0) return;
        await delay(300);
      }
    })();

    await delay((SECONDS * 1_000) / 4);
    chaos.start('18');
    chaos.start('18');
    await until(async () => (await client.graphs()).some(({ version }) => version === '18'), 60_000);
    for (const one of cases.slice(BEFORE)) runs.set(one.thread, await begin(one));

    // Some of those that wait for their person are moved, while workers of both versions die.
    const moved = new Set(
      cases
        .filter((one) => one.late && one.version === '17')
        .slice(0, 4)
        .map((one) => one.thread),
    );
    await until(async () => {
      const waiting = await client.threads({ status: 'interrupted', limit: THREADS });
      return [...moved].every((thread) => waiting.some(({ thread_id }) => thread_id === thread));
    }, 120_000);
    const left = new Set(moved);
    await until(async () => {
      const moves = client.migrateThreads({ graph: 'shop', to: '18', threadIds: [...left] });
      for await (const { thread_id, outcome, reason } of moves) {
        if (outcome === 'migrated' || outcome === 'already') left.delete(thread_id);
        else expect(`${outcome}: ${reason}`).toMatch(/^busy/);
      }
      return left.size === 0;
    }, 120_000);

    await killing;
    over = true;
    await reviewing;

    const told = `seed ${SEED}, ${chaos.kills} kills`;
    const happened = farSide.happened();
    const astray = cases.filter(({ orders }) =>
      Object.keys(effectsOf(orders)).some((one) => happened[one] !== 1),
    );
    const records = await Promise.all(astray.map(({ thread }) => recordsOf(thread)));
    expect(happened, `${told}\n${JSON.stringify(records, null, 1)}`).toEqual(
      effectsOf(cases.flatMap(({ orders }) => orders)),
    );
    for (const { thread, version, orders } of cases) {
      const about = `${told}, ${thread}`;
      const view = await client.thread(thread);
      const goes = moved.has(thread) ? '18' : version;
      expect(view, about).toMatchObject({
        status: 'idle',
        version: goes,
        unfinished_runs: 0,
        pending_interrupts: 0,
      });
      const all = await client.runs(thread);
      expect(
        all
          .filter(({ kind }) => kind === 'input')
          .map(({ run_id }) => run_id)
          .sort(),
        about,
      ).toEqual((runs.get(thread) ?? []).map(({ run_id }) => run_id).sort());
      const last = await client.readRun(all[0]?.run_id ?? '');
      expect(last.status, about).toBe('success');
      const log = logOf(last);
      const each = [
        'reserve',
        'pause',
        `approve${orders[0]?.how === 'asks' ? ' yes' : ''}`,
        'charge',
        'ship',
      ];
      const expected = moved.has(thread)
        ? [
            ...each.slice(0, 2).map((node) => `17 ${node}`),
            'moved',
            ...[...each.slice(2), 'thank'].map((node) => `18 ${node}`),
          ]
        : orders.flatMap(() =>
            [...each, ...(version === '18' ? ['thank'] : [])].map((node) => `${version} ${node}`),
          );
      expect(log, about).toEqual(expected);
    }
  },
);

/** What a failure is to be understood by. */
async function recordsOf(thread: string): Promise<unknown> {
  const { client } = at;
  return {
    thread: await client.thread(thread),
    runs: await client.runs(thread),
    operations: await client.operations({ threadId: thread }),
  };
}

async function unfinished(): Promise<number> {
  const threads = await at.client.threads({ limit: 2 * THREADS });
  return threads.filter(({ status }) => status !== 'idle').length;
}
