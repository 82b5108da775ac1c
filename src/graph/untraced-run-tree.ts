import { AsyncLocalStorageProviderSingleton, _CONTEXT_VARIABLES_KEY } from '@langchain/core/singletons';

/** Where LangChain keeps the config of the runnable at work. */
const CHILD_CONFIG = Symbol.for('lc:child_config');
/** How long an answer of `traces` is believed, in ms. */
const BELIEVED_MS = 1_000;

type RunTree = { extra?: Record<PropertyKey, unknown>; [_CONTEXT_VARIABLES_KEY]?: unknown };
type Original = typeof AsyncLocalStorageProviderSingleton.runWithConfig;

let installed = 0;
let restore: (() => void) | undefined;

/**
 * LangChain makes a new LangSmith run tree around each node and each edge, also where nothing is traced: an id, the
 * time to the microsecond, and a dozen reads of the environment, an eighth of what a superstep costs the process.
 * This gives it one that inherits from a single tree instead, for as long as `traces` says that nothing is traced.
 * @param traces whether runs are sent to LangSmith; asked again after a second.
 * @returns puts LangChain's own way back, once each caller has asked for it.
 */
export function installUntracedRunTree(traces: () => boolean): () => void {
  installed += 1;
  if (installed === 1) restore = install(traces);
  return () => {
    installed -= 1;
    if (installed === 0) restore?.();
  };
}

/** @returns undefined where LangChain does it in another way, and is left alone. */
function install(traces: () => boolean): (() => void) | undefined {
  const provider = AsyncLocalStorageProviderSingleton;
  const original: Original = provider.runWithConfig.bind(provider);
  const untraced = untracedTree(original);
  if (untraced === undefined) return undefined;
  let traced = true;
  let askedAt = -Infinity;
  const isTraced = () => {
    const now = performance.now();
    if (now - askedAt > BELIEVED_MS) {
      traced = traces();
      askedAt = now;
    }
    return traced;
  };
  provider.runWithConfig = (config: { callbacks?: unknown } | undefined, callback, avoidRoot) => {
    if (avoidRoot || hasTracer(config?.callbacks) || isTraced()) return original(config, callback, avoidRoot);
    const storage = provider.getInstance();
    const outer = storage.getStore() as RunTree | undefined;
    const tree = Object.create(untraced) as RunTree;
    tree.extra = { ...untraced.extra, [CHILD_CONFIG]: config };
    const variables = outer?.[_CONTEXT_VARIABLES_KEY];
    if (variables !== undefined) tree[_CONTEXT_VARIABLES_KEY] = variables;
    return storage.run(tree, callback);
  };
  return () => {
    // The method of the class shows again.
    Reflect.deleteProperty(provider, 'runWithConfig');
  };
}

/** The tree that LangChain makes where nothing is traced, without a config. */
function untracedTree(original: Original): RunTree | undefined {
  const marker = {};
  const tree = original(marker, () => AsyncLocalStorageProviderSingleton.getInstance().getStore() as unknown);
  if (!isUntraced(tree) || tree.extra?.[CHILD_CONFIG] !== marker) return undefined;
  const { [CHILD_CONFIG]: _, ...extra } = tree.extra;
  return Object.assign(tree, { extra });
}

function isUntraced(tree: unknown): tree is RunTree {
  return (
    typeof tree === 'object' && tree !== null && 'tracingEnabled' in tree && tree.tracingEnabled === false
  );
}

function hasTracer(callbacks: unknown): boolean {
  if (callbacks === undefined || callbacks === null) return false;
  const handlers: unknown = Array.isArray(callbacks)
    ? callbacks
    : typeof callbacks === 'object' && 'handlers' in callbacks
      ? callbacks.handlers
      : undefined;
  if (!Array.isArray(handlers)) return true;
  return handlers.some((handler: { name?: unknown } | undefined) => handler?.name === 'langchain_tracer');
}
