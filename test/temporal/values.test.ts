import { Annotation, Command, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { checkpointThreadId } from '../../src/contracts/ids.ts';
import { eventually } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

class Account {
  owner = 'mira';
}

/** What a node may put into the state, by name. */
const MAKERS: Record<string, () => unknown> = {
  'a class instance': () => new Account(),
  'a function': () => () => 1,
  'a symbol': () => Symbol('s'),
  'a promise': () => Promise.resolve(1),
  'a cycle': () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    return cycle;
  },
  'a Date': () => new Date(0),
  'an invalid Date': () => new Date(Number.NaN),
  'minus zero': () => -0,
  NaN: () => Number.NaN,
  Infinity: () => Number.POSITIVE_INFINITY,
  'a bigint': () => 10n,
  'a Buffer': () => Buffer.from([0, 1, 255]),
  'a Float32Array': () => new Float32Array([1.5, -2]),
  'an error with a cause': () => new TypeError('outer', { cause: new RangeError('inner') }),
  'a Map': () => new Map<unknown, unknown>([[1, new Map([['a', new Set([1])]])]]),
  'a Set': () => new Set([1, 'a', null]),
  undefined: () => undefined,
};

const State = Annotation.Root({
  name: Annotation<string>(),
  value: Annotation<unknown>(),
  seen: Annotation<unknown>(),
  text: Annotation<Record<string, string>>({ reducer: (a, b) => ({ ...a, ...b }), default: () => ({}) }),
});
const entered = new Map<string, number>();
const seen = new Map<string, unknown>();
const held = new Map<string, () => void>();

const putting = new StateGraph(State)
  .addNode('put', ({ name }) => {
    entered.set(name, (entered.get(name) ?? 0) + 1);
    return { value: { deep: [MAKERS[name]?.()] } };
  })
  .addNode('see', ({ name, value }) => {
    seen.set(name, value);
    return {};
  })
  .addEdge(START, 'put')
  .addEdge('put', 'see')
  .compile();

const texts = new StateGraph(State)
  .addNode('add', ({ text }) => ({
    text: { ...text, 'added\u0000\ud800': 'by a node \udfff\u0000 \\u0000' },
  }))
  .addNode('last', () => new Command({ update: { text: { last: '\ue000\u0000' } } }))
  .addEdge(START, 'add')
  .addEdge('add', 'last')
  .compile();

const waiting = new StateGraph(State)
  .addNode('wait', async ({ name }) => {
    await new Promise<void>((resolve) => held.set(name, resolve));
    return { value: 'late' };
  })
  .addNode('after', () => ({ value: 'later' }))
  .addEdge(START, 'wait')
  .addEdge('wait', 'after')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ putting, texts, waiting });
});
afterAll(async () => {
  for (const letGo of held.values()) letGo();
  await at.close();
});

const REFUSED = ['a class instance', 'a function', 'a symbol', 'a promise', 'a cycle'];

test.each(REFUSED)(
  'E17: %s ends the run in an error that names channel and path, at the first attempt',
  async (name) => {
    const result = await at.client.run({ graph: 'putting', input: { name } });
    expect(result).toMatchObject({
      status: 'error',
      error: { code: 'VALUE_UNSERIALIZABLE', message: expect.stringMatching(/Channel 'value' at .*deep.*0/) },
    });
    expect(entered.get(name)).toBe(1);
    const [run] = await at.client.runs(result.thread_id);
    expect(run?.attempts).toBe(1);
  },
);

test.each(Object.keys(MAKERS).filter((name) => !REFUSED.includes(name)))(
  'E17: %s comes to the next node as it was',
  async (name) => {
    const result = await at.client.run({ graph: 'putting', input: { name } });
    expect(result).toMatchObject({ status: 'success' });
    // The next node of one segment has it from memory: the stored one is what counts.
    const saver = new PerdureSaver(at.database);
    const tuple = await saver.getTuple({
      configurable: { thread_id: checkpointThreadId('default', result.thread_id) },
    });
    const stored = (tuple?.checkpoint.channel_values['value'] as { deep: unknown[] } | undefined)?.deep[0];
    const made = MAKERS[name]?.();
    expect(stored).toStrictEqual(made);
    expect(Object.is(stored, -0)).toBe(name === 'minus zero');
    expect(stored?.constructor).toBe(made?.constructor);
  },
);

test('a thread whose run failed on a value goes on with the next input', async () => {
  const first = await at.client.run({ graph: 'putting', input: { name: 'a function' } });
  expect((await at.client.thread(first.thread_id)).status).toBe('error');
  const next = await at.client.run({
    graph: 'putting',
    thread_id: first.thread_id,
    input: { name: 'a Date' },
  });
  expect(next).toMatchObject({
    status: 'success',
    values: { value: { deep: ['1970-01-01T00:00:00.000Z'] } },
  });
});

test('E16: NUL, half surrogates and their spelling pass through input, state and output', async () => {
  const text = {
    'a\u0000b': 'x\u0000y',
    '\ud83e': '\udd8a',
    plain: '\\u0000 \\ud800',
    fox: '🦊',
    private: '\ue000',
  };
  const { values, status } = await at.client.run({ graph: 'texts', input: { text } });
  expect(status).toBe('success');
  expect(values).toMatchObject({
    text: { ...text, 'added\u0000\ud800': 'by a node \udfff\u0000 \\u0000', last: '\ue000\u0000' },
  });
});

test('E16: metadata, tags and configurable with such text are kept, or refused before anything is written', async () => {
  const config = {
    metadata: { note: 'a\u0000\ud800' },
    tags: ['t\u0000'],
    configurable: { key: '\ud800\u0000' },
  };
  const result = await at.client.run({ graph: 'texts', input: { text: {} }, config });
  expect(result.status).toBe('success');
  expect((await at.client.runs(result.thread_id))[0]?.attempts).toBe(1);
});

test('E16: an error whose message holds such text ends the run', async () => {
  const failing = new StateGraph(State)
    .addNode('fail', () => {
      throw new Error('no \u0000 and \ud800');
    })
    .addEdge(START, 'fail')
    .compile();
  await at.startWorker({ failing });
  const result = await at.client.run({ graph: 'failing', input: {} });
  expect(result).toMatchObject({ status: 'error', error: { message: 'no \u0000 and \ud800' } });
  expect((await at.client.runs(result.thread_id))[0]?.attempts).toBe(1);
});

test('E18: a thread that is deleted under a running node stays deleted, and its workflow ends', async () => {
  const name = crypto.randomUUID();
  const { thread_id, run_id } = await at.client.startRun({
    graph: 'waiting',
    thread_id: name,
    input: { name },
  });
  const letGo = await eventually(() => held.get(name));
  await new PerdureSaver(at.database).deleteThread(checkpointThreadId('default', thread_id));
  letGo();
  const workflow = at.temporal.workflow.getHandle(
    `${encodeURIComponent(at.schema)}/thread/default/${thread_id}`,
  );
  await eventually(async () =>
    (await workflow.describe()).raw.pendingActivities?.length === 0 ? true : undefined,
  );
  for (const table of ['checkpoints', 'checkpoint_blobs', 'checkpoint_writes']) {
    const { rows } = await at.database.query<JsonValue & object>(
      `SELECT 1 FROM ${at.database.table(table)} WHERE thread_id = $1`,
      [thread_id],
    );
    expect(rows).toEqual([]);
  }
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'cancelled' });
  await expect(at.client.run({ graph: 'waiting', thread_id, input: { name } })).rejects.toMatchObject({
    code: 'THREAD_DELETED',
  });
});
