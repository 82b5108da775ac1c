import { Annotation, MemorySaver, START, StateGraph, type CompiledStateGraph } from '@langchain/langgraph';
import type { EffectKind } from '../../src/contracts/operations.ts';
import { operation } from '../../src/operations/operation.ts';

export const State = Annotation.Root({ result: Annotation<unknown>() });

export type Charge = { kind: EffectKind; key?: string | undefined; lease: number; farSide: string };

/** A graph of one node whose one operation charges the far side, as its kind asks for. */
export function chargeGraph(charge: Charge): CompiledStateGraph<unknown, unknown, string> {
  return new StateGraph(State)
    .addNode('charge', async () => ({ result: await chargeOnce(charge) }))
    .addEdge(START, 'charge')
    .compile({ checkpointer: new MemorySaver() }) as unknown as CompiledStateGraph<unknown, unknown, string>;
}

function chargeOnce({ kind, key, lease, farSide }: Charge): Promise<unknown> {
  const options = {
    kind,
    key,
    lease,
    args: { amount: 20 },
    ...(kind === 'reconcilable' ? { lookup: askFor(farSide) } : {}),
  };
  return operation('charge', options, async (call) => {
    const path = kind === 'idempotent' || kind === 'reconcilable' ? '/charges' : '/plain';
    const response = await call.fetch(farSide + path, { method: 'POST', body: '20' });
    return response.json();
  });
}

const askFor = (farSide: string) => async (operationId: string) => {
  const response = await fetch(`${farSide}/charges?key=${encodeURIComponent(operationId)}`);
  const found = (await response.json()) as { happened: boolean };
  return found.happened ? { happened: true as const, result: 'found' } : { happened: false as const };
};
