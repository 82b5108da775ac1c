import { z } from 'zod';

export const ARTIFACT_STATUSES = ['pending', 'ready', 'quarantined', 'erased'] as const;
/**
 * `pending`: its upload is under way, or was cut off. `ready`: it can be read. `quarantined`: it is kept, and refused to
 * readers. `erased`: its bytes are gone for good.
 */
export type ArtifactStatus = (typeof ARTIFACT_STATUSES)[number];

const MAX_TEXT = 255;

/** `type/subtype`, with parameters where there are any. Source: RFC 6838, section 4.2; RFC 9110, section 8.3.1. */
const MEDIA_TYPE =
  /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(?:\s*;\s*[\w!#$%&'*+.^`|~-]+=(?:[\w!#$%&'*+.^`|~-]+|"[^"\\\p{Cc}]*"))*$/iu;

export const mediaType = z
  .string()
  .max(MAX_TEXT, `a media type has at most ${MAX_TEXT} characters`)
  .regex(MEDIA_TYPE, 'a media type is such as text/plain; charset=utf-8');

const wellFormed = (text: string) => !/\p{Cc}|\p{Cs}/u.test(text);

/** What a person calls it. No path: whoever saves it under this name writes where they meant to. */
export const artifactName = z
  .string()
  .min(1, "an artifact's name can't be empty")
  .max(MAX_TEXT, `an artifact's name has at most ${MAX_TEXT} characters`)
  .refine(wellFormed, "an artifact's name can't hold control characters or half a surrogate pair")
  .refine(
    (text) => !/[/\\]/.test(text) && text !== '.' && text !== '..',
    "an artifact's name is no path: it can't hold / or \\, or be . or ..",
  );

/** Who needs an artifact: a kind of thing, such as `thread`, and which one. */
export const artifactHolder = z.strictObject({
  kind: z.string().regex(/^[a-z][a-z0-9_-]{0,63}$/, "a holder's kind has a-z, 0-9, _ and -, at most 64"),
  id: z.string().min(1).max(512).refine(wellFormed, "a holder's id can't hold control characters"),
});
export type ArtifactHolder = z.infer<typeof artifactHolder>;

/** All that a graph's state holds of an artifact. `size` is in bytes, `sha256` in lower-case hex; of bytes that are there. */
export const artifactReference = z.strictObject({
  artifact_id: z.uuid(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits'),
  size: z.int().min(0),
  media_type: mediaType,
  status: z.enum(ARTIFACT_STATUSES),
});
export type ArtifactReference = z.infer<typeof artifactReference>;

/** An artifact as it is on record. Times are ISO 8601; `sha256` and `size` are null until the upload is complete. */
export type ArtifactView = {
  artifact_id: string;
  status: ArtifactStatus;
  sha256: string | null;
  size: number | null;
  media_type: string;
  name: string | null;
  thread_id: string | null;
  run_id: string | null;
  created_at: string;
  ready_at: string | null;
  erased_at: string | null;
  /** How many need it. */
  references: number;
};

/** What goes into state. @throws Error for one whose upload was never completed, which nothing can refer to. */
export function toArtifactReference(view: ArtifactView): ArtifactReference {
  const { artifact_id, sha256, size, media_type, status } = view;
  if (sha256 === null || size === null)
    throw new Error(`Artifact '${artifact_id}' was never uploaded whole.`);
  return { artifact_id, sha256, size, media_type, status };
}

/** What came out of state. @throws z.ZodError where it is no reference. */
export function fromArtifactReference(value: unknown): ArtifactReference {
  return artifactReference.parse(value);
}
