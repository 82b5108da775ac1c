import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  keyOperationId,
  MAX_OPERATION_ID,
  nestedOperationId,
  slotOperationId,
  type Slot,
} from '../../src/operations/operation-id.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }),
  fc.constantFrom(
    'a',
    'b',
    'a:b',
    'a@1',
    'a~b',
    '0',
    'c-0',
    '%3A',
    ':',
    '\ud800',
    '\ufffd',
    'key',
    'op',
    'long',
  ),
  fc.string({ minLength: 150, maxLength: 300 }),
);
const slots: fc.Arbitrary<Slot> = fc.record({
  tenantId: fc.oneof(fc.constant('default'), text),
  lineageRoot: text,
  levels: fc.array(fc.record({ node: text, execution: text }), { minLength: 1, maxLength: 3 }),
  tool: text,
  call: fc.oneof(fc.record({ toolCallId: text }), fc.record({ ordinal: fc.nat(20) })),
});

describe('the id of a slot', () => {
  test('is the same for the same slot', () => {
    fc.assert(fc.property(slots, (slot) => slotOperationId(slot) === slotOperationId(structuredClone(slot))));
  });

  test('is another for another slot, key or nested call', () => {
    const named = fc.oneof(
      slots.map((slot) => ({
        about: JSON.stringify([
          'slot',
          slot.tenantId,
          slot.lineageRoot,
          slot.levels.map((l) => [l.node, l.execution]),
          slot.tool,
          slot.call,
        ]),
        id: slotOperationId(slot),
      })),
      fc.tuple(fc.oneof(fc.constant('default'), text), text).map(([tenant, key]) => ({
        about: JSON.stringify(['key', tenant, key]),
        id: keyOperationId(tenant, key),
      })),
      fc.tuple(slots, text, fc.nat(3)).map(([slot, tool, ordinal]) => {
        const outer = slotOperationId(slot);
        return {
          about: JSON.stringify(['in', outer, tool, ordinal]),
          id: nestedOperationId(outer, tool, { ordinal }),
        };
      }),
    );
    fc.assert(
      fc.property(named, named, (a, b) => (a.about === b.about) === (a.id === b.id)),
      { numRuns: 3_000 },
    );
  });

  test('fits a header and a URL, and is bounded', () => {
    fc.assert(
      fc.property(slots, (slot) => {
        const id = slotOperationId(slot);
        expect(new Headers({ 'Idempotency-Key': id }).get('idempotency-key')).toBe(id);
        expect(id).toMatch(/^[A-Za-z0-9_.:@~%-]+$/);
        expect(new URL(`https://example.com/${id}`).pathname).toBe(`/${id}`);
        expect(id.length).toBeLessThanOrEqual(MAX_OPERATION_ID);
      }),
    );
  });

  test('can be read', () => {
    const levels = [
      { node: 'agent', execution: '3' },
      { node: 'tools', execution: '1.0' },
    ];
    const slot = { tenantId: 'default', lineageRoot: 't1', levels, tool: 'refund' };
    expect(slotOperationId({ ...slot, call: { toolCallId: 'call_7' } })).toBe(
      'op:t1:agent@3~tools@1.0:refund:c-call_7',
    );
    expect(slotOperationId({ ...slot, tenantId: 'acme', call: { ordinal: 0 } })).toBe(
      'tenant:acme:op:t1:agent@3~tools@1.0:refund:0',
    );
    expect(keyOperationId('default', 'refund:order-1042')).toBe('key:refund:order-1042');
    expect(keyOperationId('acme', 'refund:order-1042')).toBe('tenant:acme:key:refund:order-1042');
  });
});
