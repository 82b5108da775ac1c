import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operation } from '../../src/operations/operation.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  text: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Texts whose charge has been begun, and those whose charge may go on. */
const begun: string[] = [];
const charged: string[] = [];
let release: (text: string) => void = () => undefined;

/** `charge` loses its reply where the text says so; `ship` comes behind it. */
const shop = new StateGraph(State)
  .addNode('charge', async ({ text }) => ({
    log: [
      await operation('charge', { kind: 'exclusive', args: { text } }, async () => {
        begun.push(text);
        if (!text.includes('lost') || charged.includes(text)) return `charged ${text}`;
        await new Promise<void>((resolve) => {
          release = (one) => {
            if (one === text) resolve();
          };
        });
        charged.push(text);
        throw new Error('the reply is lost');
      }),
    ],
  }))
  .addNode('ship', ({ text }) => ({ log: [`shipped ${text}`] }))
  .addEdge(START, 'charge')
  .addEdge('charge', 'ship')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ shop });
});
afterAll(() => at.close());

const order = (thread_id: string, text: string) =>
  at.client.startRun({ graph: 'shop', thread_id, input: { text } });
const all = (text: string) => [`charged ${text}`, `shipped ${text}`];

/** A thread whose run asks about its charge, with two orders queued behind it. */
async function asking(): Promise<{ thread: string; lost: string; runs: string[] }> {
  const thread = crypto.randomUUID();
  const lost = `lost ${thread}`;
  const first = await order(thread, lost);
  await until(() => begun.includes(lost));
  const queued = [await order(thread, 'second'), await order(thread, 'third')];
  release(lost);
  expect(await at.client.waitForRun(first.run_id)).toMatchObject({
    status: 'interrupted',
    interrupts: [{ kind: 'operation' }],
  });
  return { thread, lost, runs: queued.map(({ run_id }) => run_id) };
}

test.each([
  ['it happened', (lost: string) => ({ happened: `charged ${lost}` })],
  ['it is to run again', () => ({ retry: true })],
])('queued input waits for the answer that %s, and runs behind what is left', async (_, resolution) => {
  const { thread, lost, runs } = await asking();
  expect(await at.client.thread(thread)).toMatchObject({ status: 'interrupted', pending_interrupts: 1 });
  expect((await at.client.runs(thread)).map(({ status, held }) => `${status} ${held}`)).toEqual([
    'pending true',
    'pending true',
    'interrupted false',
  ]);
  await at.client.answer(thread, resolution(lost));
  expect(await at.client.waitForRun(runs[1] ?? '')).toMatchObject({
    status: 'success',
    values: { log: [...all(lost), ...all('second'), ...all('third')] },
  });
  expect(await at.client.thread(thread)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test('new input does without the answer, and queued input runs before it', async () => {
  const { thread } = await asking();
  const next = await order(thread, 'next');
  expect(await at.client.waitForRun(next.run_id)).toMatchObject({
    status: 'success',
    values: { log: [...all('second'), ...all('third'), ...all('next')] },
  });
  expect(await at.client.thread(thread)).toMatchObject({ status: 'idle', pending_interrupts: 0 });
});

test('a cancelled thread takes new input, and what was held never runs', async () => {
  const { thread, runs } = await asking();
  await at.client.cancel(thread);
  for (const run of runs) expect(await at.client.waitForRun(run)).toMatchObject({ status: 'cancelled' });
  const next = await order(thread, 'next');
  expect(await at.client.waitForRun(next.run_id)).toMatchObject({ values: { log: all('next') } });
});
