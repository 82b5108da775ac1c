import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { ArtifactCorruptError, InvalidInputError } from '../contracts/errors.ts';

/** Bytes at once or in pieces: a Buffer, text, a stream of Node or of the web, anything that can be iterated. */
export type ArtifactContent = string | Uint8Array | AsyncIterable<unknown> | Iterable<Uint8Array>;

/** What went by. Complete once the stream has ended. */
export type Measured = {
  stream: Readable;
  size(): number;
  sha256(): Buffer;
  /** The error of the content itself, not of where it goes. */
  failure(): unknown;
};

/** Passes content on, and measures it. A content of more than `maxSize` bytes ends with an InvalidInputError. */
export function measure(content: ArtifactContent, maxSize: number): Measured {
  const hash = createHash('sha256');
  let size = 0;
  let failure: unknown;
  async function* pieces() {
    try {
      const whole = typeof content === 'string' || content instanceof Uint8Array;
      for await (const piece of whole ? [content] : content) {
        const bytes = toBytes(piece);
        if (bytes.length === 0) continue;
        size += bytes.length;
        if (size > maxSize)
          throw new InvalidInputError(`An artifact can have ${maxSize} bytes at most where these are kept.`);
        hash.update(bytes);
        yield bytes;
      }
    } catch (error) {
      failure = error;
      throw error;
    }
  }
  return {
    stream: Readable.from(pieces(), { objectMode: false }),
    size: () => size,
    sha256: () => hash.digest(),
    failure: () => failure,
  };
}

function toBytes(piece: unknown): Uint8Array {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (piece instanceof Uint8Array) return piece;
  throw new InvalidInputError('The content of an artifact is bytes or text, whole or in pieces.');
}

/** What an artifact's bytes have to be. */
export type Expected = { artifact_id: string; sha256: string; size: number };

/**
 * Passes bytes on as they come, the last piece only when all of them turned out right. So no reader gets a whole
 * artifact that is wrong.
 * The stream ends with an ArtifactCorruptError as soon as something is wrong.
 */
export function checked(source: Readable, expected: Expected): Readable {
  async function* pieces() {
    const hash = createHash('sha256');
    let size = 0;
    let held: Uint8Array | undefined;
    for await (const piece of source as AsyncIterable<Uint8Array>) {
      size += piece.length;
      if (size > expected.size) throw wrongSize(expected, `more than ${expected.size}`);
      hash.update(piece);
      if (held !== undefined) yield held;
      held = piece;
    }
    if (size < expected.size) throw wrongSize(expected, size);
    const sha256 = hash.digest('hex');
    if (sha256 !== expected.sha256)
      throw new ArtifactCorruptError(expected.artifact_id, 'sha256', {
        expected: expected.sha256,
        found: sha256,
      });
    if (held !== undefined) yield held;
  }
  return Readable.from(pieces(), { objectMode: false });
}

function wrongSize({ artifact_id, size }: Expected, found: number | string): ArtifactCorruptError {
  return new ArtifactCorruptError(artifact_id, 'size', { expected: size, found });
}
