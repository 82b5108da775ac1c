import { randomUUID } from 'node:crypto';
import { AIMessage, ToolMessage } from '@langchain/core/messages';
import { Command, GraphInterrupt, Send } from '@langchain/langgraph';
import type { QueryResultRow } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { PerdureSerializer } from '../../src/checkpoint/serializer.ts';
import {
  OperationConflictError,
  StaleFenceError,
  StorageUnavailableError,
} from '../../src/contracts/errors.ts';
import type { EffectKind } from '../../src/contracts/operations.ts';
import type { OperationCall } from '../../src/operations/current-operation.ts';
import { getOperation, listOperations, resolveOperation } from '../../src/operations/ledger-views.ts';
import { operation, type OperationOptions } from '../../src/operations/operation.ts';
import { NotExecutedError } from '../../src/operations/proof.ts';
import type { RunContext } from '../../src/operations/run-context.ts';
import { openDatabase, type Database } from '../../src/postgres/database.ts';
import { dropLedger, gate, openLedger, TestThread } from './fixture.ts';

let database: Database;
let thread: TestThread;
let key: string;
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  thread = await TestThread.open(database);
  key = `order-${randomUUID()}`;
});

const id = (): string => `key:${key}`;
const status = async (): Promise<string> => {
  const found = await getOperation(database, 'default', id());
  return found === undefined ? 'none' : `${found.status} ${found.attempts}`;
};
/** One call of the operation `key`, as an attempt makes it. */
function call<T>(
  kind: EffectKind,
  fn: (call: OperationCall) => Promise<T> | T,
  options: Partial<OperationOptions> = {},
  context: Partial<RunContext> = {},
): Promise<T> {
  return thread.run(() => operation('charge', { kind, key, args: { amount: 20 }, ...options }, fn), context);
}
const fail = (error: unknown) => () => {
  throw error;
};
const never = fail(new Error('it ran again'));

describe('a recorded operation', () => {
  const when = new Date(0);
  test.each<[string, unknown]>([
    [
      'a ToolMessage',
      new ToolMessage({
        content: 'paid',
        tool_call_id: 'call_1',
        name: 'charge',
        artifact: { n: 1 },
        status: 'success',
      }),
    ],
    [
      'a Command',
      new Command({ update: { messages: [new AIMessage('hello')] }, goto: [new Send('next', { a: 1 })] }),
    ],
    [
      'a Map',
      new Map<unknown, unknown>([
        ['a', when],
        [1, new Set([1, 'b'])],
      ]),
    ],
    ['a Date', when],
    ['bytes', Buffer.from([0, 1, 255])],
    ['undefined', undefined],
    ['null', null],
    ['NUL and half a surrogate pair', { 'a\u0000b': '\ud800' }],
  ])('gives %s back equal and of the same type', async (_what, value) => {
    const serde = new PerdureSerializer();
    await call('exclusive', () => value, {}, { serde });
    const again = await call<unknown>('exclusive', never, {}, { serde });
    expect(again).toEqual(value);
    expect(Object.getPrototypeOf(Object(again))).toBe(Object.getPrototypeOf(Object(value)));
  });

  test('is refused with other arguments, from any thread, whatever the order of the keys', async () => {
    const args = { order: 1042, amount: 20, at: new Date(0), ids: new Set([1n]) };
    await call('idempotent', () => 'paid', { args });
    thread = await TestThread.open(database);
    const same = { ids: new Set([1n]), at: new Date(0), amount: 20, order: 1042 };
    expect(await call('idempotent', never, { args: same })).toBe('paid');
    for (const other of [
      { ...args, amount: 200 },
      { ...args, ids: new Set([1]) },
      { ...args, at: new Date(1) },
      {},
    ])
      await expect(call('idempotent', never, { args: other })).rejects.toThrow(OperationConflictError);
    expect(await status()).toBe('succeeded 1');
  });

  test('whose result cannot be stored never runs again, and says so', async () => {
    const serde = new PerdureSerializer();
    await expect(call('idempotent', () => () => 1, {}, { serde })).rejects.toMatchObject({
      code: 'OPERATION_RESULT_LOST',
    });
    await expect(call('idempotent', never, {}, { serde })).rejects.toMatchObject({
      code: 'OPERATION_RESULT_LOST',
    });
    expect(await status()).toBe('succeeded 1');
    await resolveOperation(database, 'default', id(), { happened: 'paid' }, 'user:mira');
    expect(await call('idempotent', never, {}, { serde })).toBe('paid');
  });

  test('is another one for another tenant', async () => {
    await call('exclusive', () => 'ours');
    await database.query(
      `INSERT INTO ${database.table('threads')} (tenant_id, thread_id, checkpoint_thread_id, graph, version, lineage_root, fence)
      VALUES ('acme', $1, $1 || '-acme', 'test', '1', $1, 1)`,
      [thread.threadId],
    );
    expect(await call('exclusive', () => 'theirs', {}, { tenantId: 'acme' })).toBe('theirs');
  });
});

describe('an error', () => {
  const refused = (fields: object): Error => Object.assign(new Error('no'), fields);
  test.each<[string, unknown]>([
    ['NotExecutedError', new NotExecutedError('the account is closed')],
    ['a refused connection', refused({ code: 'ECONNREFUSED' })],
    [
      'an unknown host in the cause of a TypeError',
      new TypeError('fetch failed', { cause: refused({ code: 'ENOTFOUND' }) }),
    ],
    [
      'two refused addresses',
      new TypeError('fetch failed', {
        cause: new AggregateError([
          refused({ code: 'ECONNREFUSED' }),
          refused({ syscall: 'connect', code: 'ENETUNREACH' }),
        ]),
      }),
    ],
    ['401', refused({ status: 401 })],
    ['422 in a response', refused({ response: { status: 422 } })],
    ['429', refused({ statusCode: 429 })],
  ])(
    'that proves that nothing happened (%s) leaves it failed, to run again, with other arguments too',
    async (_what, error) => {
      await expect(call('exclusive', fail(error))).rejects.toBe(error);
      expect(await status()).toBe('failed 1');
      expect(await call('exclusive', () => 'paid', { args: { amount: 10 } })).toBe('paid');
      expect(await status()).toBe('succeeded 2');
    },
  );

  test.each<[string, unknown]>([
    ['a plain error', new Error('lost')],
    ['a reset connection', refused({ code: 'ECONNRESET' })],
    ['408', refused({ status: 408 })],
    ['409', refused({ status: 409 })],
    ['503', refused({ status: 503 })],
    ['a string', 'lost'],
  ])(
    'that proves nothing (%s) leaves it unknown: idempotent runs again, exclusive asks',
    async (_what, error) => {
      await expect(call('idempotent', fail(error))).rejects.toBe(error);
      expect(await status()).toBe('unknown 1');
      await expect(call('exclusive', never)).rejects.toThrow(GraphInterrupt);
      expect(await call('idempotent', () => 'paid')).toBe('paid');
      expect(await status()).toBe('succeeded 2');
    },
  );

  test('of an exclusive operation asks a person at once, and stays unknown until they have answered', async () => {
    await expect(call('exclusive', fail(new Error('lost')))).rejects.toThrow(GraphInterrupt);
    await expect(call('exclusive', never)).rejects.toThrow(GraphInterrupt);
    await expect(call('exclusive', never, { args: { amount: 200 } })).rejects.toThrow(OperationConflictError);
    expect(await getOperation(database, 'default', id())).toMatchObject({
      status: 'unknown',
      error: { name: 'Error', message: 'lost' },
    });
    await resolveOperation(database, 'default', id(), { happened: { charged: 20 } }, 'user:mira');
    expect(await call<unknown>('exclusive', never)).toEqual({ charged: 20 });
    await expect(
      resolveOperation(database, 'default', id(), { retry: true }, 'user:tom'),
    ).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      details: { status: 'succeeded' },
    });
  });

  test('of a pure operation is an error and no more', async () => {
    await expect(call('pure', fail(new Error('lost')))).rejects.toThrow('lost');
    expect(await call('pure', () => 1, { args: { other: true } })).toBe(1);
    expect(await call('pure', () => 2, { args: 'others again' })).toBe(2);
  });

  test('is recorded without its stack', async () => {
    await expect(call('idempotent', fail(refused({ code: 'E_BOOM' })))).rejects.toThrow('no');
    expect((await getOperation(database, 'default', id()))?.error).toEqual({
      name: 'Error',
      message: 'no',
      code: 'E_BOOM',
    });
  });

  test('of a lookup leaves the operation unknown, and one that cannot tell asks a person', async () => {
    const lookup = vi.fn<() => undefined | { happened: true; result: unknown }>();
    await expect(call('reconcilable', fail(new Error('lost')), { lookup })).rejects.toThrow('lost');
    lookup.mockImplementationOnce(fail(new Error('away')));
    await expect(call('reconcilable', never, { lookup })).rejects.toMatchObject({
      code: 'OPERATION_UNKNOWN',
    });
    await expect(call('reconcilable', never, { lookup })).rejects.toThrow(GraphInterrupt);
    lookup.mockReturnValueOnce({ happened: true, result: new Map([[1, 2]]) });
    const serde = new PerdureSerializer();
    expect(await call<unknown>('reconcilable', never, { lookup }, { serde })).toEqual(new Map([[1, 2]]));
    expect(await getOperation(database, 'default', id())).toMatchObject({
      status: 'succeeded',
      resolved_by: 'lookup',
    });
  });
});

describe('a signal of LangGraph', () => {
  test('passes untouched, and no attempt is counted', async () => {
    const asked = new GraphInterrupt([{ id: 'q', value: 'may I?' }]);
    await expect(call('exclusive', fail(asked))).rejects.toBe(asked);
    expect(await status()).toBe('pending 0');
    expect(await call('exclusive', () => 'paid')).toBe('paid');
    expect(await status()).toBe('succeeded 1');
  });

  test('of a run that is cancelled already keeps the operation from beginning', async () => {
    const reason = new Error('cancelled');
    await expect(call('exclusive', never, {}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(await status()).toBe('none');
  });
});

describe('two attempts', () => {
  test('never run one operation at the same time, however long it takes', async () => {
    const lease = 300;
    const finish = gate();
    const begun = gate();
    let runs = 0;
    const first = call('idempotent', async () => ((runs += 1), begun.open(), await finish.opened, 'paid'), {
      lease,
    });
    await begun.opened;
    const second = call('idempotent', never, { lease });
    // The lease has been renewed until well after it would have been past.
    await vi.waitFor(async () => {
      const { rows } = await database.query<{ outlived: boolean }>(
        `SELECT lease_until > started_at + interval '1500 milliseconds' AS outlived FROM ${database.table('operations')} WHERE operation_id = $1`,
        [id()],
      );
      expect(rows[0]?.outlived).toBe(true);
    }, 10_000);
    finish.open();
    expect(await Promise.all([first, second])).toEqual(['paid', 'paid']);
    expect(runs).toBe(1);
  });

  test('on one thread: the older one may claim nothing, and ends', async () => {
    const fence = thread.fence;
    await thread.takeFence();
    await expect(call('pure', never, {}, { fence })).rejects.toThrow(StaleFenceError);
    expect(await status()).toBe('none');
    expect(thread.failures).toMatchObject([{ code: 'FENCE_STALE' }]);
  });

  test('on one thread: the older one is told to stop, its result still counts, and the newer one waits for it', async () => {
    const begun = gate();
    const finish = gate();
    let stopped: unknown;
    const older = call(
      'exclusive',
      async ({ signal }) => {
        signal.addEventListener('abort', () => ((stopped = signal.reason), finish.open()));
        begun.open();
        await finish.opened;
        return 'paid';
      },
      { lease: 300 },
    );
    await begun.opened;
    await thread.takeFence();
    const newer = call('exclusive', never);
    expect(await Promise.all([older, newer])).toEqual(['paid', 'paid']);
    expect(stopped).toBeInstanceOf(StaleFenceError);
    expect(thread.failures[0]).toBe(stopped);
  });

  test('of a deleted thread may claim nothing', async () => {
    await database.query(`UPDATE ${database.table('threads')} SET deleted_at = now() WHERE thread_id = $1`, [
      thread.threadId,
    ]);
    await expect(call('pure', never)).rejects.toThrow(StaleFenceError);
  });

  test('a waiting one obeys its signal', async () => {
    const begun = gate();
    const finish = gate();
    const holder = call('exclusive', async () => (begun.open(), await finish.opened, 'paid'));
    await begun.opened;
    const cancel = new AbortController();
    const waiting = call('exclusive', never, {}, { signal: cancel.signal });
    cancel.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
    finish.open();
    expect(await holder).toBe('paid');
  });

  test('a late one whose operation was taken over is told so', async () => {
    const begun = gate();
    const finish = gate();
    const late = call('idempotent', async () => (begun.open(), await finish.opened, 'late'), {
      lease: 60_000,
    });
    await begun.opened;
    await database.query(
      `UPDATE ${database.table('operations')} SET lease_until = now() - interval '1 second' WHERE operation_id = $1`,
      [id()],
    );
    expect(await call('idempotent', () => 'again')).toBe('again');
    finish.open();
    await expect(late).rejects.toMatchObject({ code: 'OPERATION_LEASE_LOST' });
    expect(await call('idempotent', never)).toBe('again');
  });
});

describe('while Postgres is away', () => {
  test('an outcome is recorded as soon as it is back', async () => {
    const kill = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE $1`;
    const other = openDatabase({ connectionString: inject('databaseUrl') });
    expect(
      await call('exclusive', async () => (await other.query(kill, [`%"${database.schema}"%`]), 'paid')),
    ).toBe('paid');
    await other.close();
    expect(await status()).toBe('succeeded 1');
  });

  test.each([
    ['a claim', 'INSERT INTO'],
    ['an outcome', 'SET status = $4'],
  ])("%s whose reply was lost is not taken for somebody else's", async (_what, statement) => {
    let lost = 0;
    const lossy: Database = {
      ...database,
      prepared: async <R extends QueryResultRow>(text: string, values: unknown[]) => {
        const result = await database.prepared<R>(text, values);
        if (!text.includes(statement) || (lost += 1) > 1) return result;
        throw new StorageUnavailableError('the reply was lost');
      },
    };
    expect(await call('exclusive', () => 'paid', {}, { database: lossy })).toBe('paid');
    expect(lost).toBe(2);
    expect(await status()).toBe('succeeded 1');
  });

  test('an attempt that cannot claim ends, and nothing runs', async () => {
    const gone = () => Promise.reject(new StorageUnavailableError('away'));
    const away: Database = { ...database, query: gone, prepared: gone };
    await expect(call('exclusive', never, {}, { database: away })).rejects.toThrow('away');
    expect(thread.failures).toMatchObject([{ code: 'STORAGE_UNAVAILABLE' }]);
  });
});

test('operations are listed by thread and by what became of them, oldest first', async () => {
  for (const n of [1, 2, 3]) await call('exclusive', () => n, { key: `${key}-${n}` });
  await expect(call('idempotent', fail(new Error('lost')), { key: `${key}-4` })).rejects.toThrow('lost');
  const all = await listOperations(database, 'default', { threadId: thread.threadId });
  expect(all.map((each) => each.result)).toEqual([1, 2, 3, null]);
  expect(
    await listOperations(database, 'default', { threadId: thread.threadId, status: 'unknown' }),
  ).toHaveLength(1);
  expect(await listOperations(database, 'default', { threadId: thread.threadId, limit: 2 })).toHaveLength(2);
  expect(await getOperation(database, 'default', 'none')).toBeUndefined();
  await expect(resolveOperation(database, 'default', 'none', { retry: true }, 'x')).rejects.toMatchObject({
    code: 'OPERATION_UNKNOWN_ID',
  });
});

test('what cannot be an argument is refused before anything is written', async () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  await expect(call('pure', never, { args: cycle })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(call('pure', never, { args: { f: () => 1 } })).rejects.toMatchObject({
    details: { path: 'args.f' },
  });
  await expect(call('reconcilable', never)).rejects.toMatchObject({ code: 'OPERATION_INVALID' });
  expect(await status()).toBe('none');
});

test('outside of a run an operation is refused, unless it is said to run plainly', async () => {
  await expect(operation('charge', { kind: 'pure' }, never)).rejects.toMatchObject({
    code: 'OPERATION_OUTSIDE_RUN',
  });
  expect(await operation('charge', { kind: 'pure', outside: 'run' }, (made) => made.operationId)).toMatch(
    /^outside:/,
  );
});
