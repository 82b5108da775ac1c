import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import type { EffectCounter } from './effect-counter.ts';
import type { Installation } from '../support/installation.ts';
import { startWorkerProcess, type TestProcess } from './processes.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The effect kinds that the charge of an order may have. */
export const KINDS = ['idempotent', 'reconcilable', 'exclusive'] as const;

/** What an order does before it is charged. */
export type How = 'runs' | 'asks' | 'sleeps' | 'times_out';

export type Order = { key: string; how: How; kind: (typeof KINDS)[number] };

/**
 * `reserve -> pause -> approve -> charge -> ship`, each but the second with an effect on the far side. Every node notes
 * the version that it ran under.
 */
const graph = (version: string) => `
import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { askPerson, defineGraph, operation, sleep } from 'perdure';

const VERSION = '${version}';
const State = Annotation.Root({
  key: Annotation<string>, how: Annotation<string>, kind: Annotation<any>,
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const far = (name: string) => process.env['FAR_SIDE'] + '/effects/' + encodeURIComponent(name);
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function effect(what: string, key: string, kind: any) {
  const name = what + ':' + key;
  const lookup = async () => {
    const found = await fetch(far(name));
    return found.ok ? { happened: true as const, result: await found.json() } : { happened: false as const };
  };
  await operation(what, { kind, key: name, lease: 1_500, ...(kind === 'reconcilable' ? { lookup } : {}) }, async (call) =>
    (await call.fetch(far(name), { method: 'POST', headers: { 'x-honour': kind === 'idempotent' ? 'yes' : 'no' } })).json());
  return { log: [VERSION + ' ' + what] };
}
async function approve(how: string) {
  if (how === 'asks') return { log: [VERSION + ' approve ' + interrupt('go on?')] };
  if (how === 'sleeps') await sleep(process.env['SLEEP'] ?? '5s');
  if (how === 'times_out') return { log: [VERSION + ' approve ' + await askPerson('go on?', { after: process.env['SLEEP'] ?? '5s', answer: 'late' })] };
  return { log: [VERSION + ' approve'] };
}
export const shop = defineGraph({
  name: 'shop', version: VERSION,
  graph: new StateGraph(State)
    .addNode('reserve', ({ key }) => effect('reserve', key, 'idempotent'))
    .addNode('pause', async () => { await pause(200); return { log: [VERSION + ' pause'] }; })
    .addNode('approve', ({ how }) => approve(how))
    .addNode('charge', ({ key, kind }) => effect('charge', key, kind))
    .addNode('ship', ({ key }) => effect('ship', key, 'idempotent'))
    .addEdge(START, 'reserve').addEdge('reserve', 'pause').addEdge('pause', 'approve')
    .addEdge('approve', 'charge').addEdge('charge', 'ship').addEdge('ship', END)
    ${version === '18' ? `.addNode('thank', () => ({ log: [VERSION + ' thank'] })).addEdge('ship', 'thank')` : ''}
    .compile(),
  migrations: { '17->18': (values) => ({ ...values, log: [...(values.log as string[]), 'moved'] }) },
});
`;

/** A folder with one version of the graph, as a release would be deployed. @returns its langgraph.json */
export function writeRelease(folder: string, version: string): string {
  const at = join(folder, `release-${version}`);
  mkdirSync(join(at, 'node_modules'), { recursive: true });
  symlinkSync(ROOT, join(at, 'node_modules/perdure'));
  symlinkSync(join(ROOT, 'node_modules/@langchain'), join(at, 'node_modules/@langchain'));
  writeFileSync(join(at, 'package.json'), '{"type":"module"}');
  writeFileSync(join(at, 'shop.ts'), graph(version));
  const file = join(at, 'langgraph.json');
  writeFileSync(file, JSON.stringify({ graphs: { shop: './shop.ts:shop' } }));
  return file;
}

export type Place = { databaseUrl: string; temporalAddress: string; schema: string };

export function startShopWorker(
  place: Place,
  project: string,
  farSide: EffectCounter,
  env: Record<string, string> = {},
): TestProcess {
  return startWorkerProcess({ ...place, project, env: { FAR_SIDE: farSide.url, ...env } });
}

export const orderRun = (thread_id: string, order: Order, version?: string) => ({
  graph: 'shop',
  thread_id,
  input: { ...order, log: [] } as JsonValue,
  ...(version === undefined ? {} : { version }),
});

/** The effects that orders have, each once, when all has gone well. */
export function effectsOf(orders: readonly Order[]): Record<string, number> {
  return Object.fromEntries(
    orders.flatMap(({ key }) => ['reserve', 'charge', 'ship'].map((what) => [`${what}:${key}`, 1])),
  );
}

/**
 * A person who answers what is asked: yes to the graph's own questions of threads for which `may` holds; and of an
 * operation whose fate is unknown what the far side says.
 * @returns how many questions were answered.
 */
export async function review(
  { client }: Installation,
  farSide: EffectCounter,
  may: (threadId: string) => boolean,
): Promise<number> {
  const pending = await client.interrupts({ status: 'pending', for_people: true, limit: 500 });
  const answered = await Promise.all(
    pending.map(async ({ id, kind, thread_id, value }) => {
      if (kind === 'interrupt' && !may(thread_id)) return 0;
      const found = kind === 'operation' ? farSide.find(operationIn(value)) : undefined;
      const said: JsonValue =
        kind === 'interrupt' ? 'yes' : found ? { happened: found.result } : { retry: true };
      // It may have been overtaken, or be answered by somebody else this moment.
      const taken = await client
        .answer(thread_id, said, { interruptId: id, actor: 'user:reviewer' })
        .catch(() => undefined);
      return taken ? 1 : 0;
    }),
  );
  return answered.reduce<number>((sum, one) => sum + one, 0);
}

function operationIn(value: JsonValue): string {
  const id =
    typeof value === 'object' && value !== null && 'operation_id' in value ? value['operation_id'] : '';
  // The ledger's id of a business key.
  return (typeof id === 'string' ? id : '').replace(/^key:/, '');
}

/** The log of a thread's newest run, with what each node noted. */
export function logOf(result: RunResult): string[] {
  const values = result.values;
  return typeof values === 'object' && values !== null && 'log' in values ? (values['log'] as string[]) : [];
}
