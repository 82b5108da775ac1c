import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { stampRetryable } from '@langchain/core/errors';
import { GraphRecursionError, GraphValueError, InvalidUpdateError } from '@langchain/langgraph';
import { ApplicationFailure } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  NonRetryableError,
  OperationConflictError,
  OperationUnknownError,
  RetryableError,
} from '../../src/contracts/errors.ts';
import { classifyError, type ErrorReason } from '../../src/graph/error-mapper.ts';
import { NotExecutedError } from '../../src/operations/proof.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const thrownBy = (work: () => unknown): unknown => {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
};
const http = (status: number, more: object = {}) =>
  Object.assign(new Error(`status ${status}`), { status, ...more });
const coded = (code: string | number, more: object = {}) =>
  Object.assign(new Error(String(code)), { code, ...more });

test.each<[string, unknown, boolean, ErrorReason]>([
  ['a plain error', new Error('boom'), true, 'unclassified'],
  ['a thrown string', 'boom', true, 'unclassified'],
  ['a TypeError', new TypeError("reading 'x'"), false, 'bug'],
  ['a ReferenceError', new ReferenceError('x'), false, 'bug'],
  ['a SyntaxError', thrownBy(() => JSON.parse('{')), false, 'bug'],
  ['a RangeError', new RangeError('x'), false, 'bug'],
  ['a ZodError', z.object({ a: z.string() }).safeParse({}).error, false, 'bug'],
  ['InvalidUpdateError', new InvalidUpdateError('x'), false, 'bug'],
  ['GraphValueError', new GraphValueError('x'), false, 'bug'],
  ['GraphRecursionError', new GraphRecursionError('x'), false, 'limit'],
  ['400', http(400), false, 'refused'],
  ['401', http(401), false, 'unauthorized'],
  ['403', http(403), false, 'unauthorized'],
  ['404', http(404), false, 'refused'],
  ['408', http(408), true, 'timeout'],
  ['409', http(409), true, 'conflict'],
  ['422', http(422), false, 'refused'],
  ['425', http(425), true, 'unavailable'],
  ['429', http(429), true, 'rate_limited'],
  ['429 for a quota', http(429, { error: { code: 'insufficient_quota' } }), false, 'quota'],
  ['500', http(500), true, 'unavailable'],
  ['501', http(501), false, 'refused'],
  ['529', http(529), true, 'unavailable'],
  [
    'a status in the response',
    Object.assign(new Error('x'), { response: { status: 503 } }),
    true,
    'unavailable',
  ],
  ['a status as text', Object.assign(new Error('x'), { statusCode: '400' }), false, 'refused'],
  ['a status that is a word', Object.assign(new Error('x'), { status: 'failed' }), true, 'unclassified'],
  ['a reset', coded('ECONNRESET'), true, 'connection'],
  [
    'a timeout of axios',
    Object.assign(coded('ECONNABORTED'), { message: 'timeout of 9ms exceeded' }),
    true,
    'timeout',
  ],
  [
    'an abort of axios',
    Object.assign(coded('ECONNABORTED'), { message: 'Request aborted' }),
    false,
    'cancelled',
  ],
  ['a missing file', coded('ENOENT'), false, 'bug'],
  ['a deadlock in Postgres', coded('40P01', { severity: 'ERROR' }), true, 'conflict'],
  ['a violated constraint', coded('23505', { severity: 'ERROR' }), false, 'refused'],
  ['gRPC, unavailable', coded(14, { metadata: {} }), true, 'unavailable'],
  ['gRPC, invalid', coded(3, { metadata: {} }), false, 'refused'],
  ['an abort', new DOMException('This operation was aborted', 'AbortError'), false, 'cancelled'],
  ['a signal that timed out', new DOMException('timed out', 'TimeoutError'), true, 'timeout'],
  ['our refusal', new OperationConflictError('op'), false, 'refused'],
  ['a far side that can not be asked', new OperationUnknownError('op'), true, 'unavailable'],
  ['nothing executed', new NotExecutedError('no'), false, 'refused'],
  [
    'nothing executed, since no connection',
    new NotExecutedError('no', {}, { cause: coded('ECONNREFUSED') }),
    true,
    'connection',
  ],
  ['RetryableError', new RetryableError('later', { cause: new TypeError('x') }), true, 'marked'],
  ['NonRetryableError', new NonRetryableError('never', { cause: http(503) }), false, 'marked'],
  ['a field', http(503, { retryable: false }), false, 'marked'],
  ["LangChain's stamp", stampRetryable(http(503), false), false, 'marked'],
  ["Temporal's mark", ApplicationFailure.nonRetryable('x'), false, 'marked'],
  ["AWS' mark", coded('Throttled', { $retryable: { throttling: true } }), true, 'marked'],
  ['a wrapped 401', new Error('the model failed', { cause: http(401) }), false, 'unauthorized'],
  ['a wrapped bug', new Error('the tool failed', { cause: new TypeError('x') }), false, 'bug'],
  [
    'a wrapper that took the name',
    Object.assign(
      new Error('fetch failed', { cause: new TypeError('fetch failed', { cause: coded('ECONNRESET') }) }),
      { name: 'TypeError' },
    ),
    true,
    'connection',
  ],
  [
    'several of the connection',
    new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')]),
    true,
    'connection',
  ],
  ['several with a bug', new AggregateError([http(503), new TypeError('x')]), false, 'bug'],
])('%s', (_, error, retryable, reason) => {
  expect(classifyError(error, NOW)).toEqual({ retryable, reason });
});

test('a chain of causes that bites its tail ends', () => {
  const error = new Error('one');
  error.cause = new Error('two', { cause: error });
  expect(classifyError(error)).toEqual({ retryable: true, reason: 'unclassified' });
});

describe('the far side says when', () => {
  test.each<[string, object, number | undefined]>([
    ['seconds', { headers: { 'retry-after': '7' } }, 7_000],
    ['a fraction', { headers: { 'Retry-After': '0.5' } }, 500],
    ['a date', { headers: { 'retry-after': 'Sun, 01 Mar 2026 12:00:30 GMT' } }, 30_000],
    ['a date that is past', { headers: { 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' } }, 0],
    ['milliseconds', { headers: new Headers({ 'retry-after-ms': '250', 'retry-after': '1' }) }, 250],
    ["in axios' response", { response: { status: 429, headers: { 'retry-after': 3 } } }, 3_000],
    ['in a list', { headers: { 'retry-after': ['4'] } }, 4_000],
    ["LangChain's field", { retryAfterMs: 1_234 }, 1_234],
    ["Slack's field", { retryAfter: 9 }, 9_000],
    ['nonsense', { headers: { 'retry-after': 'soon' } }, undefined],
    ['a negative one', { headers: { 'retry-after': '-5' } }, undefined],
  ])('%s', (_, more, ms) => {
    expect(classifyError(http(429, more), NOW).retryAfterMs).toBe(ms);
    expect(classifyError(new Error('wrapped', { cause: http(429, more) }), NOW).retryAfterMs).toBe(ms);
  });

  test('but not for what is not tried again', () => {
    expect(classifyError(http(400, { headers: { 'retry-after': '7' } }))).toEqual({
      retryable: false,
      reason: 'refused',
    });
  });

  test('also in an error of the own mark, and in the longest of several', () => {
    expect(classifyError(new RetryableError('x', { retryAfterMs: 5 })).retryAfterMs).toBe(5);
    const two = [
      http(429, { headers: { 'retry-after': '2' } }),
      http(429, { headers: { 'retry-after': '8' } }),
    ];
    expect(classifyError(new AggregateError(two)).retryAfterMs).toBe(8_000);
  });
});

test('a real fetch that can not connect is the connection, one that is cut off too', async () => {
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-length': '100' });
    reply.write('half');
    setTimeout(() => reply.destroy(), 5);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cut = await fetch(url)
    .then((reply) => reply.text())
    .catch((error: unknown) => error);
  expect(classifyError(cut)).toEqual({ retryable: true, reason: 'connection' });
  await new Promise((closed) => server.close(closed));
  const refused = await fetch(url).catch((error: unknown) => error);
  expect(classifyError(refused)).toEqual({ retryable: true, reason: 'connection' });
});
