import {
  AIMessage,
  HumanMessage,
  type AIMessageFields,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from '@langchain/core/messages';
import { Document } from '@langchain/core/documents';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { Command, Overwrite, Send } from '@langchain/langgraph';
import { DeltaSnapshot, JsonPlusSerializer } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isPerdureError } from '../../src/contracts/errors.ts';
import { richValue } from './rich-values.ts';
import { PerdureSerializer } from '../../src/checkpoint/serializer.ts';

const serializer = new PerdureSerializer();
const shipped = new JsonPlusSerializer();

async function roundTrip(value: unknown): Promise<unknown> {
  const [type, data] = serializer.dump(value, 'c');
  return serializer.load(type, data);
}

function typeError(): TypeError {
  const error = new TypeError('outer', { cause: new RangeError('inner') });
  return Object.assign(error, { code: 'E_X', when: new Date(5) });
}

const changedMessage = new AIMessage({ content: 'a', id: '1' });
changedMessage.name = 'set later';

const kept: [string, unknown][] = [
  ['undefined', undefined],
  ['undefined inside', { a: undefined, b: [undefined, 1] }],
  ['Date(0)', new Date(0)],
  ['an invalid Date', new Date(Number.NaN)],
  ['-0', -0],
  ['NaN', Number.NaN],
  ['Infinity', { a: Number.POSITIVE_INFINITY, b: Number.NEGATIVE_INFINITY }],
  ['a bigint', 10n],
  ['a Buffer', Buffer.from([0, 255, 7])],
  ['a Buffer inside', { b: Buffer.from('x') }],
  ['a Uint8Array', new Uint8Array([1, 2])],
  ['a Float32Array', new Float32Array([1.5, Number.NaN])],
  ['a BigInt64Array', [new BigInt64Array([-1n])]],
  ['an ArrayBuffer', new ArrayBuffer(3)],
  ['a DataView', new DataView(new ArrayBuffer(2))],
  ['a TypeError with a cause', typeError()],
  ['an AggregateError', new AggregateError([new Error('one')], 'all')],
  [
    'a Map',
    new Map<unknown, unknown>([
      ['a', new Map([[{ k: 1 }, new Date(1)]])],
      [2, 3],
    ]),
  ],
  ['a Set', new Set([1, new Set([2n])])],
  ['a RegExp', /a+/giu],
  ['a URL', new URL('https://example.com/?a=1')],
  ['an array with a hole', [1, , 3]], // oxlint-disable-line no-sparse-arrays
  ['a result of match', 'ab'.match(/(?<x>b)/)],
  ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
  ['a key __proto__', JSON.parse('{"__proto__": {"polluted": true}, "b": 1}')],
  ['text with NUL and half surrogates', { 'k\u0000\ud800': 'v\udfff', plain: String.raw`\u0000` }],
  [
    "data like LangChain's",
    { lc: 1, type: 'constructor', id: ['langchain_core', 'messages', 'AIMessage'], kwargs: { content: 'x' } },
  ],
  [
    "data like LangGraph's",
    [
      { lc: 2, type: 'undefined' },
      { lc: 2, type: 'constructor', id: ['Map'], args: [[]] },
    ],
  ],
  ['data like ours', { $perdure: 'date', v: 0 }],
  ['data like an escape', { __lc_escaped__: { a: 1 } }],
  ['a human message', new HumanMessage({ content: 'hi', id: '1', name: 'n' })],
  [
    'an AI message',
    new AIMessage({
      content: [{ type: 'text', text: 'x' }],
      tool_calls: [{ name: 't', args: { a: 1 }, id: 'c', type: 'tool_call' }],
      usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
    } as unknown as AIMessageFields),
  ],
  [
    'a message with a Date in it',
    new AIMessage({ content: '', additional_kwargs: { at: new Date(3), lc: 1 } }),
  ],
  [
    'a tool message',
    new ToolMessage({ content: 'r', tool_call_id: 'c', status: 'error', artifact: new Map([[1, 2]]) }),
  ],
  ['a system message', new SystemMessage('s')],
  ['a RemoveMessage', new RemoveMessage({ id: '3' })],
  ['a Document', new Document({ pageContent: 'p', metadata: { at: new Date(1) }, id: 'd' })],
  ['a prompt', ChatPromptTemplate.fromMessages([['system', 'hi {x}']])],
  ['a Send', new Send('n', { at: new Date(1), like: { node: 'x', args: {} } })],
  ['a Command', new Command({ goto: new Send('n', 1), update: { a: 10n } })],
  ['an Overwrite', new Overwrite(new Set([1]))],
  ['a DeltaSnapshot', new DeltaSnapshot([new HumanMessage('x')])],
  ['an interrupt', [{ id: 'i', value: { at: new Date(1) } }]],
];

describe('E17: what the state can hold comes back equal and of the same type', () => {
  test.each(kept)('%s', async (_, value) => {
    const back = await roundTrip(value);
    expect(back).toStrictEqual(value);
    expect(Object.is(back, -0)).toBe(Object.is(value, -0));
    if (typeof value === 'object' && value !== null)
      expect(Object.getPrototypeOf(back)).toBe(Object.getPrototypeOf(value));
  });

  test('an error keeps its class, name, stack, cause and own properties', async () => {
    const value = typeError();
    const back = (await roundTrip(value)) as typeof value & { code: string; when: Date };
    expect(back).toBeInstanceOf(TypeError);
    expect(back.stack).toBe(value.stack);
    expect(back.cause).toBeInstanceOf(RangeError);
    expect((back.cause as Error).message).toBe('inner');
    expect([back.code, back.when]).toEqual(['E_X', new Date(5)]);
    expect(Object.keys(back)).toEqual(Object.keys(value));
  });

  test('a field that was set on a message after it was made is kept', async () => {
    expect(((await roundTrip(changedMessage)) as AIMessage).name).toBe('set later');
  });

  test('a key __proto__ pollutes nothing', async () => {
    await roundTrip(JSON.parse('{"__proto__": {"polluted": true}}'));
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('what is referred to twice comes back as two', async () => {
    const shared = { a: 1 };
    expect(await roundTrip([shared, shared])).toEqual([shared, shared]);
  });
});

describe('what cannot come back equal is refused with channel and path', () => {
  class Money {
    amount = 1;
  }
  const loop: Record<string, unknown> = { a: {} };
  loop['a'] = { loop };
  let deep: unknown = [];
  for (let i = 0; i < 100_000; i += 1) deep = [deep];
  test.each<[string, unknown, string]>([
    ['a class instance', { a: [new Money()] }, '.a[0]'],
    ['an Error class of the user', { e: new (class MyError extends Error {})('x') }, '.e'],
    ['a message class of the user', [new (class Mine extends AIMessage {})('x')], '[0]'],
    ['a subclass of Map', new (class Mine extends Map {})(), ''],
    ['a function', { 'odd key': () => 1 }, '["odd key"]'],
    ['a symbol', new Map([['k', Symbol('s')]]), '.get("k")'],
    ['a symbol as key', { a: { [Symbol('s')]: 1 } }, '.a'],
    ['a WeakMap', { w: new WeakMap() }, '.w'],
    ['a Promise', [Promise.resolve(1)], '[0]'],
    ['a boxed string', [new String('x')], '[0]'],
    ['a cycle', loop, '.a.loop'],
    ['something far too deep', deep, ''],
    [
      'a function inside a message',
      new AIMessage({ content: 'x', additional_kwargs: { f: () => 1 } }),
      '.additional_kwargs.f',
    ],
  ])('%s', (_, value, path) => {
    try {
      serializer.dump(value, 'state');
      expect.unreachable();
    } catch (error) {
      if (!isPerdureError(error, 'VALUE_UNSERIALIZABLE')) throw error;
      expect(error.details).toEqual({ channel: 'state', path });
    }
  });
});

describe("LangGraph's own serializer", () => {
  test.each<[string, unknown]>([
    ['plain data', { a: [1, 'x', null, true] }],
    ['undefined', [undefined, { a: undefined }]],
    ['maps and sets', new Map([[1, new Set(['a'])]])],
    ['messages', [new HumanMessage({ content: 'x', id: '1' }), new AIMessage('y')]],
    ['a snapshot', new DeltaSnapshot([1])],
  ])('reads %s that we wrote', async (_, value) => {
    const [type, data] = serializer.dump(value);
    expect(type).toBe('json');
    expect(await shipped.loadsTyped(type, data)).toEqual(value);
  });

  test.each<[string, unknown]>([
    // It can't write bigints, loses __proto__, and its bytes are a Buffer once they went through Postgres.
    ...kept.filter(
      ([name]) =>
        !/^(a Command|a prompt|a bigint|a BigInt64Array|a Set|a Map|a Uint8Array|a key __proto__)$/.test(
          name,
        ),
    ),
    ['an Error', [new Error('x')]],
    [
      'bytes in a message',
      new ToolMessage({ content: 'r', tool_call_id: 'c', artifact: { b: new Uint8Array([1]) } }),
    ],
  ])('is read as it reads itself: %s', async (_, value) => {
    const [type, data] = await shipped.dumpsTyped(value);
    expect(await serializer.load(type, data)).toEqual(await shipped.loadsTyped(type, data));
  });
});

test('any mixture of these comes back equal', async () => {
  await fc.assert(
    fc.asyncProperty(richValue, async (value) => {
      expect(await roundTrip(value)).toStrictEqual(value);
    }),
    { numRuns: 500 },
  );
});

test('any JSON is written as LangGraph writes it', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const value: unknown = JSON.parse(text);
      const [type, data] = serializer.dump(value);
      if (type === 'json') expect(JSON.parse(Buffer.from(data).toString())).toEqual(value);
    }),
  );
});
