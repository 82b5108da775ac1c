import { randomUUID } from 'node:crypto';
import { ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { Annotation, isGraphInterrupt, MemorySaver, START, StateGraph } from '@langchain/langgraph';
import { createAgent } from 'langchain';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { OperationConflictError } from '../../src/contracts/errors.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { EffectKind } from '../../src/contracts/operations.ts';
import { durableTool } from '../../src/operations/durable-tool.ts';
import { durableTools } from '../../src/operations/durable-tools.ts';
import { listOperations } from '../../src/operations/ledger-views.ts';
import { operation, type OperationOptions } from '../../src/operations/operation.ts';
import { NotExecutedError } from '../../src/operations/proof.ts';
import type { Branch } from '../../src/operations/run-context.ts';
import type { Database } from '../../src/postgres/database.ts';
import { dropLedger, openLedger, TestThread } from './fixture.ts';
import { ScriptedModel } from './scripted-model.ts';

let database: Database;
let thread: TestThread;
let effects: number[];
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  thread = await TestThread.open(database);
  effects = [];
});

const branch = (id: string, mode: Branch['effects']): Branch => ({ id, effects: mode });

type Call = {
  kind?: EffectKind;
  amount?: number;
  branch?: Branch;
  more?: Partial<OperationOptions>;
  fails?: Error;
};

/** The one operation of a thread's one node, in a branch or not; each call of it is the same slot. */
async function charge({ kind = 'exclusive', amount = 20, branch: at, more, fails }: Call): Promise<unknown> {
  let ended: { value: unknown } | { error: unknown } | undefined;
  const graph = new StateGraph(Annotation.Root({ done: Annotation<boolean>() }))
    .addNode('work', async () => {
      try {
        const value = await operation('charge', { kind, args: { amount }, ...more }, () => {
          if (fails) throw fails;
          effects.push(amount);
          return `charged ${amount}`;
        });
        ended = { value };
      } catch (error) {
        ended = { error };
      }
      return { done: true };
    })
    .addEdge(START, 'work')
    .compile({ checkpointer: new MemorySaver() });
  await thread.run(() => graph.invoke({}, thread.config), { branch: at });
  if (ended === undefined) throw new Error('it did not run');
  if ('error' in ended) throw ended.error;
  return ended.value;
}

/** The id of the question that the call ends with. */
async function asked(call: Call): Promise<string> {
  try {
    throw new Error(`nothing is asked: ${String(await charge(call))}`);
  } catch (error) {
    if (!isGraphInterrupt(error)) throw error;
    return error.interrupts[0]?.id ?? '';
  }
}

async function answered(interruptId: string, answer: JsonValue): Promise<void> {
  await database.query(
    `INSERT INTO ${database.table('interrupts')} (tenant_id, thread_id, interrupt_id, run_id, kind, node, checkpoint_id,
       origin_ns, origin_checkpoint_id, origin_task_id, value, status, answer, answered_by, answered_at)
     VALUES ('default', $1, $2, $3, 'operation', 'work', 'c', '', 'c', 't', '{}', 'answered', $4, 'user:mira', now())`,
    [thread.threadId, interruptId, randomUUID(), JSON.stringify(answer)],
  );
}
const ledger = async () =>
  (await listOperations(database, 'default', { threadId: thread.threadId })).map(
    (each) => `${each.operation_id.split(':charge:')[1]} ${each.status}`,
  );

describe('a branch of recorded effects', () => {
  const one = branch('one', 'recorded');

  test('gets what is on record, and asks again and again for what is not, until it is answered', async () => {
    await charge({});
    expect(await charge({ branch: one })).toBe('charged 20');
    const id = await asked({ branch: one, amount: 30 });
    expect(await asked({ branch: one, amount: 30 })).toBe(id);
    expect(await asked({ branch: branch('two', 'recorded'), amount: 30 })).not.toBe(id);
    expect(await asked({ branch: one, amount: 40 })).not.toBe(id);
    expect(effects).toEqual([20]);
    await answered(id, { retry: true });
    expect(await charge({ branch: one, amount: 30 })).toBe('charged 30');
    expect(effects).toEqual([20, 30]);
    expect(await ledger()).toContain('0~one succeeded');
  });

  test.each<EffectKind>(['idempotent', 'reconcilable', 'exclusive'])(
    'asks before it runs what failed (%s), and may run it again once it is allowed',
    async (kind) => {
      const lookup = () => ({ happened: false as const });
      const fails = new NotExecutedError('no funds');
      await expect(charge({ kind, fails, more: { lookup } })).rejects.toThrow('no funds');
      const id = await asked({ kind, branch: one, more: { lookup } });
      await answered(id, { retry: true });
      await expect(charge({ kind, fails, branch: one, more: { lookup } })).rejects.toThrow('no funds');
      expect(await charge({ kind, branch: one, more: { lookup } })).toBe('charged 20');
      expect(effects).toEqual([20]);
    },
  );

  test.each<EffectKind>(['idempotent', 'reconcilable', 'exclusive'])(
    'runs nothing unasked whose fate is unknown (%s)',
    async (kind) => {
      const lookup = () => ({ happened: false as const });
      const lost = new Error('the reply was lost');
      await charge({ kind, fails: lost, more: { lookup } }).catch(() => undefined);
      await asked({ kind, branch: one, more: { lookup } });
      expect(effects).toEqual([]);
    },
  );

  test('runs what is pure', async () => {
    await charge({ kind: 'pure' });
    expect(await charge({ kind: 'pure', amount: 30, branch: one })).toBe('charged 30');
    expect(await charge({ kind: 'pure', branch: branch('dry', 'dry') })).toBe('charged 20');
    expect(effects).toEqual([20, 30]);
  });

  test('takes what a person says for the result', async () => {
    await answered(await asked({ branch: one }), { happened: { by: 'hand' } });
    expect(await charge({ branch: one })).toEqual({ by: 'hand' });
    expect(effects).toEqual([]);
    expect(await ledger()).toEqual(['0 succeeded']);
  });
});

describe('a live branch', () => {
  const one = branch('one', 'live');

  test('runs other arguments once, whichever branch comes to them again', async () => {
    await charge({});
    for (const id of ['one', 'two', 'one'])
      expect(await charge({ amount: 30, branch: branch(id, 'live') })).toBe('charged 30');
    expect(await charge({ branch: one })).toBe('charged 20');
    expect(effects).toEqual([20, 30]);
  });

  test('conflicts with itself, as a thread without forks does', async () => {
    await charge({ branch: one });
    await expect(charge({ amount: 30, branch: one })).rejects.toBeInstanceOf(OperationConflictError);
    await charge({ amount: 40, branch: branch('two', 'live') });
    await expect(charge({ amount: 50, branch: branch('two', 'live') })).rejects.toBeInstanceOf(
      OperationConflictError,
    );
    expect(effects).toEqual([20, 40]);
  });
});

describe('a dry branch', () => {
  const dry = branch('dry', 'dry');

  test('simulates, and leaves no trace in the ledger', async () => {
    const simulate = ({ amount }: { amount: number }) => `would charge ${amount}`;
    expect(await charge({ branch: dry, more: { simulate } })).toBe('would charge 20');
    await expect(charge({ branch: dry })).rejects.toMatchObject({
      code: 'OPERATION_NOT_EXECUTED',
      message: expect.stringContaining("'simulate'"),
    });
    expect({ effects, ledger: await ledger() }).toEqual({ effects: [], ledger: [] });
  });

  test('makes tool messages of what tools simulate, also in an agent', async () => {
    const schema = z.object({ order: z.string().default('order-1') });
    const fields = { description: 'Pays money back.', schema };
    const refund = durableTool(
      {
        ...fields,
        name: 'refund',
        kind: 'idempotent',
        simulate: ({ order }) => `would refund ${order}`,
      },
      () => effects.push(1),
    );
    const book = tool(() => effects.push(2), { ...fields, name: 'book' });
    const agent = createAgent({
      model: new ScriptedModel([
        [
          { name: 'refund', args: {}, id: 'call_1' },
          { name: 'book', args: { order: 'order-2' }, id: 'call_2' },
        ],
      ]),
      tools: [refund, book],
      middleware: [durableTools({ simulations: { book: ({ order }) => `would book ${String(order)}` } })],
    });
    const { messages } = await thread.run(() => agent.invoke({ messages: 'go' }, thread.config), {
      branch: dry,
    });
    expect(messages.filter((each) => ToolMessage.isInstance(each)).map((each) => each.content)).toEqual([
      'would refund order-1',
      'would book order-2',
    ]);
    expect(effects).toEqual([]);
  });
});
