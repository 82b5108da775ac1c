import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';

const THREAD = defineSearchAttributeKey('PerdureThread', SearchAttributeType.KEYWORD);
const GRAPH = defineSearchAttributeKey('PerdureGraph', SearchAttributeType.KEYWORD);
const TENANT = defineSearchAttributeKey('PerdureTenant', SearchAttributeType.KEYWORD);
const NAMES = [THREAD.name, GRAPH.name, TENANT.name];

/** `INDEXED_VALUE_TYPE_KEYWORD` in Temporal's API. */
const KEYWORD = 2;
/** How long the server may take to say which it knows, in ms. */
const PATIENCE_MS = 2_000;
/** How long it is not asked again once it did not know them, in ms. */
const PAUSE_MS = 60_000;

/** Until when a client has to do without them; 0 where its server knows them. */
const without = new WeakMap<Client, Promise<number>>();

/**
 * What the thread's workflow can be found by in Temporal's UI: `PerdureThread = "…"`. Undefined where the server does
 * not know the attributes, or could not be asked.
 */
export async function searchAttributesOf(
  temporal: Client,
  thread: { thread_id: string; graph: string; tenant_id: string },
): Promise<TypedSearchAttributes | undefined> {
  let until = await (without.get(temporal) ?? 1);
  if (until !== 0 && until < Date.now()) {
    const asked = missing(temporal).then(
      (names) => (names.length === 0 ? 0 : Date.now() + PAUSE_MS),
      () => Date.now() + PAUSE_MS,
    );
    without.set(temporal, asked);
    until = await asked;
  }
  if (until !== 0) return undefined;
  return new TypedSearchAttributes([
    { key: THREAD, value: thread.thread_id },
    { key: GRAPH, value: thread.graph },
    { key: TENANT, value: thread.tenant_id },
  ]);
}

/** For a server that refused them all the same: those that were just registered it may learn of a little later. */
export function doWithoutSearchAttributes(temporal: Client): void {
  without.set(temporal, Promise.resolve(Date.now() + PAUSE_MS));
}

/** @throws what the server says, when this client may not register them. */
export async function registerSearchAttributes(temporal: Client): Promise<void> {
  const names = await missing(temporal);
  if (names.length === 0) return;
  await withPatience(temporal, () =>
    temporal.connection.operatorService.addSearchAttributes({
      namespace: temporal.options.namespace,
      searchAttributes: Object.fromEntries(names.map((name) => [name, KEYWORD])),
    }),
  );
  without.delete(temporal);
}

async function missing(temporal: Client): Promise<string[]> {
  const { customAttributes } = await withPatience(temporal, () =>
    temporal.connection.operatorService.listSearchAttributes({ namespace: temporal.options.namespace }),
  );
  return NAMES.filter((name) => Number(customAttributes[name]) !== KEYWORD);
}

function withPatience<T>(temporal: Client, work: () => Promise<T>): Promise<T> {
  return temporal.connection.withDeadline(Date.now() + PATIENCE_MS, work);
}
