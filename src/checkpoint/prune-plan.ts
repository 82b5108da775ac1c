import { namespaceParts } from '../contracts/namespaces.ts';
import type { KeptReason } from '../contracts/pruning.ts';

/** A checkpoint, as far as it decides about pruning. */
export type PlannedCheckpoint = {
  ns: string;
  id: string;
  parent: string | null;
  /** When it was made, in ms; NaN where it doesn't say. */
  madeAt: number;
  /** Of a subgraph: the root checkpoint whose task ran it. */
  root: string | null;
  /** Reading it needs its parent too: a DeltaChannel has no value of its own here, or its form is an old one. */
  needsParent: boolean;
};

export type PlaceOfCheckpoint = { ns: string; id: string };

export type Keep = {
  last?: number | undefined;
  /** Those made before it may go; ms. */
  before?: number | undefined;
  /** Checkpoints that something outside refers to, of any namespace. */
  needed: readonly (PlaceOfCheckpoint & { reason: KeptReason })[];
};

export type PrunePlan = {
  gone: PlaceOfCheckpoint[];
  /** Kept checkpoints whose parent goes, and the nearest ancestor that stays. */
  adopted: (PlaceOfCheckpoint & { parent: string })[];
  /** Root checkpoints that stay, with the first reason that keeps each. */
  kept: Map<string, KeptReason>;
};

/** Decides which of a thread's checkpoints go. */
export function planPruning(checkpoints: readonly PlannedCheckpoint[], keep: Keep): PrunePlan {
  const namespaces = new Map<string, Namespace>();
  for (const checkpoint of checkpoints) {
    const namespace = namespaces.get(checkpoint.ns) ?? new Namespace();
    namespace.byId.set(checkpoint.id, checkpoint);
    namespaces.set(checkpoint.ns, namespace);
  }
  const roots = namespaces.get('') ?? new Namespace();
  keepRoots(roots, keep);
  const newestRoot = roots.newestFirst()[0]?.id;
  for (const [ns, namespace] of namespaces) {
    if (ns === '') continue;
    for (const { ns: at, id, reason } of keep.needed) if (at === ns) namespace.keep(id, reason);
    keepNested(ns, namespace, roots, newestRoot);
  }
  const gone: PlaceOfCheckpoint[] = [];
  const adopted: PrunePlan['adopted'] = [];
  for (const [ns, namespace] of namespaces) {
    for (const { id, parent } of namespace.byId.values()) {
      if (!namespace.kept.has(id)) gone.push({ ns, id });
      else if (parent !== null && namespace.byId.has(parent) && !namespace.kept.has(parent)) {
        const nearest = namespace.keptAncestor(parent);
        if (nearest !== null) adopted.push({ ns, id, parent: nearest });
      }
    }
  }
  return { gone, adopted, kept: roots.kept };
}

class Namespace {
  readonly byId = new Map<string, PlannedCheckpoint>();
  readonly kept = new Map<string, KeptReason>();

  newestFirst(): PlannedCheckpoint[] {
    return [...this.byId.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  /** Keeps a checkpoint, and the ancestors that reading it needs. */
  keep(id: string, reason: KeptReason): void {
    // A reason of its own is the better one to tell.
    if (this.kept.get(id) === 'delta') this.kept.set(id, reason);
    let why = reason;
    for (let at = this.byId.get(id); at && !this.kept.has(at.id); why = 'delta') {
      this.kept.set(at.id, why);
      at = at.needsParent && at.parent !== null ? this.byId.get(at.parent) : undefined;
    }
  }

  keptAncestor(from: string): string | null {
    for (let at = this.byId.get(from); at; at = at.parent === null ? undefined : this.byId.get(at.parent))
      if (this.kept.has(at.id)) return at.id;
    return null;
  }
}

function keepRoots(roots: Namespace, { last, before, needed }: Keep): void {
  const newest = roots.newestFirst();
  const children = new Map<string, number>();
  for (const { parent } of newest) if (parent !== null) children.set(parent, (children.get(parent) ?? 0) + 1);
  newest.forEach(({ id, madeAt }, place) => {
    // An age that can't be told keeps it.
    const young = before !== undefined && !(madeAt < before);
    if ((last !== undefined && place < last) || young) roots.keep(id, 'policy');
  });
  if (newest[0]) roots.keep(newest[0].id, 'head');
  for (const { ns, id, reason } of needed) if (ns === '') roots.keep(id, reason);
  for (const { id } of newest) {
    const count = children.get(id) ?? 0;
    if (count !== 1) roots.keep(id, count === 0 ? 'branch' : 'fork');
  }
}

/** A subgraph's checkpoints stay with the root checkpoint whose task ran it. */
function keepNested(
  ns: string,
  namespace: Namespace,
  roots: Namespace,
  newestRoot: string | undefined,
): void {
  const newest = namespace.newestFirst();
  for (const { id, root } of newest)
    if (root === null || roots.kept.has(root) || newestRoot === undefined || root > newestRoot)
      namespace.keep(id, 'policy');
  if (!keepsState(ns)) return;
  if (newest[0]) namespace.keep(newest[0].id, 'head');
  // Going on from a root checkpoint, such a subgraph has the state from before it.
  let next = 0;
  for (const root of [...roots.kept.keys()].sort().toReversed()) {
    while (next < newest.length && (newest[next]?.id ?? '') >= root) next += 1;
    const before = newest[next];
    if (before) namespace.keep(before.id, 'policy');
  }
}

/** Whether a subgraph was compiled with `checkpointer: true`: its namespace names no task, and lasts from run to run. */
function keepsState(ns: string): boolean {
  return namespaceParts(ns).every(({ taskId }) => taskId === undefined);
}
