import { createHash } from 'node:crypto';
import { DEFAULT_TENANT } from '../contracts/ids.ts';

/** One level of the way to a task: a node of a graph, and which of its executions. */
export type SlotLevel = {
  node: string;
  /** Which execution of the node: its superstep, and its place in it when it has one. See {@link taskLevel}. */
  execution: string;
};

/** Where an operation stands, from the graph's root inwards. Holds nothing that a retry or a resume changes. */
export type Slot = {
  tenantId: string;
  lineageRoot: string;
  levels: readonly SlotLevel[];
  tool: string;
  call: SlotCall;
};

/** The model's id of the call, or the count of the tool's calls in the task. */
export type SlotCall = { toolCallId: string } | { ordinal: number };

/** The longest id, in characters: far sides cut or refuse longer idempotency keys (255 at most of them). */
export const MAX_OPERATION_ID = 180;

/** How much of an id that is too long is kept readable, before its hash. */
const READABLE = 110;

/**
 * The id of a call by its place: `op:<lineage root>:<node>@<superstep>~<node>@<superstep>:<tool>:<call>`.
 * Distinct slots have distinct ids; the characters fit a URL's path and a header.
 */
export function slotOperationId(slot: Slot): string {
  const path = slot.levels.map((level) => `${encode(level.node)}@${encode(level.execution)}`).join('~');
  return bounded(
    `${tenantPrefix(slot.tenantId)}op:${encode(slot.lineageRoot)}:${path}:${encode(slot.tool)}:${callPart(slot.call)}`,
  );
}

/** The id of a call made inside another operation: `op-in:<tool>:<call>:<id of the outer one>`. */
export function nestedOperationId(outer: string, tool: string, call: SlotCall): string {
  return bounded(`op-in:${encode(tool)}:${callPart(call)}:${outer}`);
}

/** The id of an operation with a business key, the same from every thread of the tenant: `key:<business key>`. */
export function keyOperationId(tenantId: string, businessKey: string): string {
  return bounded(`${tenantPrefix(tenantId)}key:${encode(businessKey, KEEP_COLON)}`);
}

/** The id of a slot's operation in a branch that asks for it with other arguments than are on record. */
export function branchOperationId(slotId: string, branchId: string): string {
  return bounded(`${slotId}~${branchId}`);
}

/** The default tenant needs no prefix, and ids that begin with `tenant:` are nobody else's. */
function tenantPrefix(tenantId: string): string {
  return tenantId === DEFAULT_TENANT ? '' : `tenant:${encode(tenantId)}:`;
}

/** A call id always has a letter in front, so that the id `0` is not the ordinal 0. */
function callPart(call: SlotCall): string {
  return 'toolCallId' in call ? `c-${encode(call.toolCallId)}` : String(call.ordinal);
}

function bounded(id: string): string {
  if (id.length <= MAX_OPERATION_ID) return id;
  const hash = createHash('sha256').update(id).digest('base64url');
  // No other id begins with `long:`, so that a short one never equals a cut one.
  return `long:${id.slice(0, READABLE).replace(/%[0-9A-Fa-fu]{0,4}$/, '')}:${hash}`;
}

const KEEP = /^[A-Za-z0-9_.-]$/;
const KEEP_COLON = /^[A-Za-z0-9_.:-]$/;

/** Percent-encodes all but a few plain characters; half a surrogate pair becomes `%uD800`. Reversible, so distinct. */
function encode(text: string, keep: RegExp = KEEP): string {
  let encoded = '';
  for (const character of text) {
    if (keep.test(character)) encoded += character;
    else if (/^[\ud800-\udfff]$/.test(character))
      encoded += `%u${character.charCodeAt(0).toString(16).toUpperCase()}`;
    else
      for (const byte of Buffer.from(character))
        encoded += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}
