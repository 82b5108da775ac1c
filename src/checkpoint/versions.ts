import { randomInt } from 'node:crypto';

/** Digits after the point. Two branches from one version get the same with a chance of one in ten billion. */
const DIGITS = 10;
const RANGE = 10 ** DIGITS;

/**
 * The version that comes after `current`: the next whole number, and a random fraction.
 *
 * LangGraph compares versions as numbers, so these increase, also after the whole numbers of the shipped saver. The
 * fraction tells branches apart: blobs are stored by channel and version and never overwritten, so two branches that
 * count the same whole numbers would read each other's values. The fraction is never 0, which keeps a branch apart
 * from one that the shipped saver wrote. Decimal, so that the number's text is the same in JavaScript, in `jsonb` and
 * in the column `version`; whole numbers up to 100,000 keep all ten digits.
 */
export function nextVersion(current: number | undefined, fraction: number = randomInt(1, RANGE)): number {
  const next = current === undefined ? 1 : Math.floor(current) + 1;
  return Number(`${next}.${String(fraction).padStart(DIGITS, '0')}`);
}
