import * as messages from '@langchain/core/messages';
import * as outputParsers from '@langchain/core/output_parsers';
import * as promptValues from '@langchain/core/prompt_values';
import * as prompts from '@langchain/core/prompts';
import { Serializable } from '@langchain/core/load/serializable';

export type Kwargs = Record<string, unknown>;
type SerializableClass = new (kwargs: Kwargs) => Serializable;

/** LangChain's classes that can be built again from what `lc_kwargs` holds, by `lc_id` joined with `/`. */
const classes = new Map<string, SerializableClass>();

function register(namespace: string, module: Record<string, unknown>): void {
  for (const [name, candidate] of Object.entries(module)) {
    if (typeof candidate === 'function' && candidate.prototype instanceof Serializable)
      classes.set(`${namespace}/${name}`, candidate as SerializableClass);
  }
}
register('langchain_core/messages', messages);
register('langchain_core/prompt_values', promptValues);
register('langchain_core/output_parsers', outputParsers);
register('langchain_core/prompts', prompts);

/** Fields of messages under the same name in the constructor's arguments and in LangChain's own JSON. */
const MESSAGE_FIELDS = new Set([
  'content',
  'additional_kwargs',
  'response_metadata',
  'id',
  'name',
  'tool_calls',
  'invalid_tool_calls',
  'usage_metadata',
  'tool_call_id',
  'tool_call_chunks',
  'status',
  'artifact',
  'metadata',
  'role',
]);

/** Set by the classes themselves, the same in every instance. */
const CLASS_FIELDS = new Set([
  'lc_serializable',
  'lc_kwargs',
  'lc_namespace',
  'lc_direct_tool_output',
  'lc_runnable',
  'type',
]);

/** A LangChain object taken apart. */
export type LangChainParts = {
  /** As in LangChain's JSON: `['langchain_core', 'messages', 'AIMessage']`. */
  id: string[];
  /** What its constructor takes. */
  kwargs: Kwargs;
  /** Properties that somebody set on the instance and that its class doesn't know. */
  extra: Kwargs | undefined;
  /** Whether LangChain's own JSON form has everything, as far as the keys go. */
  portable: boolean;
};

/** As `load` looks: by the namespace, then by what is left of it when its last parts are dropped. */
function findClass(id: readonly unknown[]): SerializableClass | undefined {
  for (let end = id.length - 1; end > 1; end -= 1) {
    const Class = classes.get(`${id.slice(0, end).join('/')}/${String(id.at(-1))}`);
    if (Class) return Class;
  }
  return undefined;
}

/** Whether this is a LangChain object, from whichever copy of the package. */
export function isLangChainObject(value: object): value is Serializable {
  return 'lc_serializable' in value && 'lc_id' in value && 'lc_kwargs' in value;
}

/** Undefined when the class is not one that can be built again: a subclass of the user's, or a secret-bearing one. */
export function takeApart(value: Serializable): LangChainParts | undefined {
  const id = value.lc_id;
  if (!findClass(id) || Object.keys(value.lc_secrets ?? {}).length > 0) return undefined;
  const message = id[1] === 'messages';
  const fields = value as unknown as Kwargs;
  const given: unknown = value.lc_kwargs;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined;
  const kwargs: Kwargs = {};
  let portable = message;
  for (const [name, before] of Object.entries(given)) {
    const now: unknown = name in value ? fields[name] : before;
    // In LangChain's JSON of a message there is no undefined, and none is needed.
    if (message && now === undefined) continue;
    kwargs[name] = now;
    portable &&= MESSAGE_FIELDS.has(name);
  }
  if (!message) return { id, kwargs, extra: undefined, portable: false };
  let extra: Kwargs | undefined;
  for (const name of Object.keys(value)) {
    if (name in kwargs || CLASS_FIELDS.has(name)) continue;
    const now = fields[name];
    if (now === undefined) continue;
    if (MESSAGE_FIELDS.has(name)) kwargs[name] = now;
    else (extra ??= {})[name] = now;
  }
  return { id, kwargs, extra, portable: portable && extra === undefined };
}

/** Undefined when no such class is known. */
export function putTogether(
  id: readonly unknown[],
  kwargs: Kwargs,
  extra?: Kwargs,
): Serializable | undefined {
  const Class = findClass(id);
  if (!Class) return undefined;
  const instance = new Class(kwargs);
  return extra ? Object.assign(instance, extra) : instance;
}

/**
 * A message from LangChain's own JSON form, without `load`, which is asynchronous. Undefined where `load` could
 * give something else: another class, a key that it would rename, or escaped content.
 */
export function messageFromJson(id: unknown, kwargs: unknown): Serializable | undefined {
  if (!Array.isArray(id) || id[0] !== 'langchain_core' || id[1] !== 'messages') return undefined;
  if (typeof kwargs !== 'object' || kwargs === null) return undefined;
  for (const name of Object.keys(kwargs)) if (!MESSAGE_FIELDS.has(name)) return undefined;
  return putTogether(id, kwargs as Kwargs);
}
