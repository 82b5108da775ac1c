import type { SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { jsonValue, type JsonValue } from '../contracts/json.ts';

/** A result as the ledger keeps it. */
export type StoredResult = { type: string; bytes: Uint8Array };

/** Tag of what a person said; all other tags are the serializer's own. */
const REPORTED = 'reported';
/** JSON has no undefined and not every serializer keeps it. */
const NOTHING = 'undefined';

/** Tags of the shipped serializer and of perdure's whose bytes are JSON text. */
const JSON_TYPES = new Set([REPORTED, 'json', 'perdure-json']);

/** @throws whatever the serializer refuses the value with. */
export async function storeResult(serde: SerializerProtocol, value: unknown): Promise<StoredResult> {
  if (value === undefined) return { type: NOTHING, bytes: new Uint8Array() };
  const [type, bytes] = await serde.dumpsTyped(value);
  return { type, bytes };
}

export function storeReported(value: JsonValue): StoredResult {
  return { type: REPORTED, bytes: Buffer.from(JSON.stringify(value)) };
}

export async function loadResult(serde: SerializerProtocol, stored: StoredResult): Promise<unknown> {
  if (stored.type === NOTHING) return undefined;
  if (stored.type === REPORTED) return JSON.parse(Buffer.from(stored.bytes).toString()) as unknown;
  return (await serde.loadsTyped(stored.type, stored.bytes)) as unknown;
}

/** A result to be shown: its JSON as it is stored, or how many bytes of what there are. */
export function viewResult(stored: StoredResult | undefined): JsonValue {
  if (stored === undefined || stored.type === NOTHING) return null;
  if (JSON_TYPES.has(stored.type)) return jsonValue.parse(JSON.parse(Buffer.from(stored.bytes).toString()));
  return { type: stored.type, bytes: stored.bytes.byteLength };
}
