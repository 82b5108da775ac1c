import { randomUUID } from 'node:crypto';
import { ToolMessage } from '@langchain/core/messages';
import { DynamicStructuredTool, tool, ToolInputParsingException } from '@langchain/core/tools';
import { Annotation, Command, MemorySaver, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { durableTool } from '../../src/operations/durable-tool.ts';
import { listOperations, resolveOperation } from '../../src/operations/ledger-views.ts';
import type { OperationView } from '../../src/contracts/operations.ts';
import type { Database } from '../../src/postgres/database.ts';
import { dropLedger, gate, openLedger, TestThread } from './fixture.ts';

let database: Database;
let thread: TestThread;
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  thread = await TestThread.open(database);
});

const schema = z.object({ order: z.string(), currency: z.string().default('EUR') });
const planned = (order: string, callId: string) => ({
  type: 'tool_call' as const,
  name: 'refund',
  id: callId,
  args: { order },
});
const operations = (): Promise<OperationView[]> =>
  listOperations(database, 'default', { threadId: thread.threadId });

/** A node that calls the tool; its result is returned and not stored. */
async function inNode<T>(work: () => Promise<T>): Promise<T> {
  let result: T | undefined;
  const graph = new StateGraph(Annotation.Root({ done: Annotation<boolean>() }))
    .addNode('work', async () => {
      result = await work();
      return { done: true };
    })
    .addEdge(START, 'work')
    .compile({ checkpointer: new MemorySaver() });
  await thread.run(() => graph.invoke({}, thread.config));
  return result as T;
}

describe('a durable tool', () => {
  test('is the tool it was made of, in all but its calls', () => {
    const plain = tool(async () => ['text', { n: 1 }], {
      name: 'refund',
      description: 'Pays money back.',
      schema,
      responseFormat: 'content_and_artifact',
      metadata: { team: 'billing' },
    });
    plain.returnDirect = true;
    const made = durableTool(plain, { kind: 'exclusive' });
    expect(made).toBeInstanceOf(DynamicStructuredTool);
    expect(made.schema).toBe(plain.schema);
    expect(made).toMatchObject({
      name: 'refund',
      description: 'Pays money back.',
      responseFormat: 'content_and_artifact',
      metadata: { team: 'billing' },
      returnDirect: true,
    });
  });

  test('runs once for one call, directly or as a tool call, with content and artifact', async () => {
    let runs = 0;
    const refund = durableTool(
      { name: 'refund', description: 'd', schema, kind: 'exclusive', responseFormat: 'content_and_artifact' },
      async (input, call) => [`${(runs += 1)} ${input.order} ${input.currency}`, { id: call.operationId }],
    );
    const once = (): Promise<unknown[]> =>
      inNode(async () => [await refund.invoke({ order: '1' }), await refund.invoke(planned('2', 'call_2'))]);
    const first = await once();
    const second = await once();
    expect(runs).toBe(2);
    expect(first[0]).toBe('1 1 EUR');
    expect(second[0]).toBe('1 1 EUR');
    for (const message of [first[1], second[1]]) {
      expect(message).toBeInstanceOf(ToolMessage);
      expect(message).toMatchObject({
        content: '2 2 EUR',
        tool_call_id: 'call_2',
        name: 'refund',
        status: 'success',
        artifact: { id: expect.stringMatching(/:refund:c-call_2$/) as string },
      });
    }
  });

  test('with a business key answers a call that was planned again, by its own id, on any thread', async () => {
    const key = randomUUID();
    let runs = 0;
    const refund = durableTool(
      tool(async ({ order }) => `${(runs += 1)} ${order}`, { name: 'refund', description: 'd', schema }),
      { kind: 'idempotent', businessKey: (input) => `refund:${input.order}:${key}` },
    );
    const first = await inNode(() => refund.invoke(planned('1', 'call_1')));
    thread = await TestThread.open(database);
    const explicit = { ...planned('1', 'call_9'), args: { order: '1', currency: 'EUR' } };
    const again = await inNode(() => refund.invoke(explicit));
    expect(runs).toBe(1);
    expect(first).toMatchObject({ content: '1 1', tool_call_id: 'call_1' });
    expect(again).toMatchObject({ content: '1 1', tool_call_id: 'call_9' });
    expect(await inNode(() => refund.invoke({ order: '1' }))).toBe('1 1');
    await expect(
      inNode(() => refund.invoke({ ...explicit, args: { order: '1', currency: 'USD' } })),
    ).rejects.toMatchObject({ code: 'OPERATION_CONFLICT' });
  });

  test('gives back a Command that answers the call that is being made', async () => {
    const name = `command-${randomUUID()}`;
    const refund = durableTool(
      tool(
        (_input, config: { toolCall?: { id?: string } }) =>
          new Command({
            update: {
              done: true,
              messages: [new ToolMessage({ content: 'paid', tool_call_id: config.toolCall?.id ?? '' })],
            },
          }),
        { name: 'refund', description: 'd', schema },
      ),
      { kind: 'exclusive', businessKey: () => name },
    );
    await inNode(() => refund.invoke(planned('1', 'call_1')));
    const again: unknown = await inNode(() => refund.invoke(planned('1', 'call_2')));
    expect(again).toMatchObject({
      update: { done: true, messages: [{ content: 'paid', tool_call_id: 'call_2' }] },
    });
    expect(again).toBeInstanceOf(Command);
  });

  test('gives what a person said as a tool message', async () => {
    const refund = durableTool({ name: 'refund', description: 'd', schema, kind: 'exclusive' }, () => {
      throw new Error('lost');
    });
    await inNode(() => refund.invoke(planned('1', 'call_1')));
    const [asked] = await operations();
    await resolveOperation(
      database,
      'default',
      asked?.operation_id ?? '',
      { happened: { charged: 20 } },
      'user:mira',
    );
    expect(await inNode(() => refund.invoke(planned('1', 'call_1')))).toMatchObject({
      content: '{"charged":20}',
      tool_call_id: 'call_1',
      name: 'refund',
      status: 'success',
    });
  });

  test('refuses bad input as LangChain does, and makes no operation of it', async () => {
    const plain = tool(() => 'ran', { name: 'refund', description: 'd', schema });
    const bad = { order: 7 } as unknown as { order: string };
    const expected = await plain.invoke(bad).catch((error: unknown) => error);
    const refused = await inNode(() => durableTool(plain, { kind: 'exclusive' }).invoke(bad)).catch(
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(ToolInputParsingException);
    expect(refused).toMatchObject({ message: (expected as Error).message, output: '{"order":7}' });
    expect(await operations()).toEqual([]);
    const json = tool(() => 'ran', {
      name: 'json',
      description: 'd',
      schema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
    });
    await expect(inNode(() => durableTool(json, { kind: 'exclusive' }).invoke({}))).rejects.toThrow(
      'did not match expected schema',
    );
    expect((await operations()).map((each) => each.status)).toEqual(['failed']);
  });

  test('takes plain text where the tool does', async () => {
    const echo = durableTool(
      tool((input) => `echo ${input}`, { name: 'echo', description: 'd' }),
      { kind: 'pure' },
    );
    expect(await inNode(() => echo.invoke('hello'))).toBe('echo hello');
    expect(await operations()).toMatchObject([
      { tool: 'echo', args: 'hello', kind: 'pure', status: 'succeeded' },
    ]);
  });

  test('that comes back on an abort while its function still works is left to the lease', async () => {
    const begun = gate();
    const refund = durableTool(
      tool(async () => (begun.open(), await new Promise<string>(() => undefined)), {
        name: 'refund',
        description: 'd',
        schema,
      }),
      { kind: 'idempotent', lease: 400 },
    );
    const cancel = new AbortController();
    const graph = new StateGraph(Annotation.Root({ done: Annotation<boolean>() }))
      .addNode('work', async () => ({ done: Boolean(await refund.invoke({ order: '1' })) }))
      .addEdge(START, 'work')
      .compile({ checkpointer: new MemorySaver() });
    const running = thread.run(() => graph.invoke({}, { ...thread.config, signal: cancel.signal }), {
      signal: cancel.signal,
    });
    await begun.opened;
    const [before] = await operations();
    cancel.abort(new Error('cancelled'));
    await expect(running).rejects.toThrow();
    expect(before).toMatchObject({ status: 'running', attempts: 1 });
    const again = durableTool(
      tool(() => 'again', { name: 'refund', description: 'd', schema }),
      { kind: 'idempotent' },
    );
    expect(await inNode(() => again.invoke({ order: '1' }))).toBe('again');
    expect(await operations()).toMatchObject([{ status: 'succeeded', attempts: 2 }]);
  });

  test('outside of a run is refused unless it may run plainly', async () => {
    const fields = { name: 'refund', description: 'd', schema, kind: 'exclusive' as const };
    await expect(durableTool(fields, () => 'ran').invoke({ order: '1' })).rejects.toMatchObject({
      code: 'OPERATION_OUTSIDE_RUN',
    });
    expect(
      await durableTool({ ...fields, outside: 'run' }, (_input, call) => call.operationId).invoke({
        order: '1',
      }),
    ).toMatch(/^outside:/);
    expect(() => durableTool({ ...fields, kind: 'reconcilable' }, () => 'ran')).toThrow('gives no lookup');
  });
});
