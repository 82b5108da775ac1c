/** SHA-256 of what an interrupt asks, over its stored text, in hex. For a SELECT from `interrupts`. */
export const QUESTION_DIGEST = `encode(sha256(convert_to(value::text, 'UTF8')), 'hex')`;

/** The shortest part of a digest that counts as naming it. */
export const MIN_DIGEST = 8;
