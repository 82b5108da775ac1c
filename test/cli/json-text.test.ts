import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/cli/exit-status.ts';
import { invalidAt, parseJsonOption, readJsonOption } from '../../src/cli/json-text.ts';

describe('where invalid JSON stops being JSON', () => {
  test.each([
    ['', 0],
    ['{"n": 1,}', 8],
    ['{"n": 01}', 7],
    ['{"n" 1}', 5],
    ['{"n":\n tru}', 7],
    ['{"n": "a', 8],
    ['{"n": "\\x"}', 7],
    ['{"a":1 "b":2}', 7],
    ['{1:2}', 1],
    ['[1, 2', 5],
    ['[1,]', 3],
    ['[1]]', 3],
    ['[1}', 2],
    ['"a" "b"', 4],
    ['"tab\there"', 4],
    ["{'a':1}", 1],
    ['nul', 0],
    ['-', 0],
  ])('%j: at %i', (text, position) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(invalidAt(text)).toBe(position);
  });

  test('is at or after whatever of a valid document was left whole', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), fc.constantFrom('}', ']', ',', ':', '#'), (value, at, mark) => {
        const text = JSON.stringify(value);
        const cut = at % (text.length + 1);
        const broken = `${text.slice(0, cut)}${mark}${text.slice(cut)}`;
        if (isJson(broken)) return;
        expect(invalidAt(broken)).toBeGreaterThanOrEqual(0);
        expect(invalidAt(broken)).toBeLessThanOrEqual(broken.length);
      }),
    );
  });
});

test('a byte order mark and spaces around do no harm', async () => {
  expect(parseJsonOption('--value', '\uFEFF {"a": [1]} ')).toEqual({ a: [1] });
  expect(await readJsonOption('--input', ' [1]', '/')).toEqual([1]);
});

test('line and column are told', () => {
  expect(() => parseJsonOption('--value', '{\n  "a": x\n}')).toThrow(/line 2, column 8/);
});

test('a bare word gets a hint at its quotes', () => {
  expect(() => parseJsonOption('--value', 'yes')).toThrow(`'"yes"'`);
  expect(() => parseJsonOption('--value', 'yes')).toThrow(UsageError);
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
