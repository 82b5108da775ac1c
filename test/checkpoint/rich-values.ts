import { HumanMessage } from '@langchain/core/messages';
import fc from 'fast-check';

/** Mixtures of what JSON can hold and what it can't, with keys and text that look like our own encoding. */
export const richValue = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.string({ unit: 'binary' }),
    fc.double(),
    fc.boolean(),
    fc.constantFrom(null, undefined, -0, 'lc', '\ud800', '\u0000', '\ue000'),
    fc.bigInt(),
    fc.date({ noInvalidDate: false }),
    fc.uint8Array(),
    fc.float32Array(),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(
      fc.oneof(
        fc.string(),
        fc.constantFrom('lc', 'type', '$perdure', '__proto__', 'k\u0000', '__lc_escaped__'),
      ),
      tie('value'),
      { maxKeys: 4 },
    ),
    fc.array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => new Set(items)),
    fc.string().map((text) => new HumanMessage({ content: text })),
  ),
})).value;
