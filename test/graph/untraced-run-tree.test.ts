import { getContextVariable, setContextVariable } from '@langchain/core/context';
import { RunnableLambda } from '@langchain/core/runnables';
import { AsyncLocalStorageProviderSingleton as provider } from '@langchain/core/singletons';
import {
  Annotation,
  END,
  getConfig,
  interrupt,
  MemorySaver,
  START,
  StateGraph,
  Command,
} from '@langchain/langgraph';
import { afterEach, describe, expect, it } from 'vitest';
import { installUntracedRunTree } from '../../src/graph/untraced-run-tree.ts';

type Tree = { id: string; createChild: unknown; tracingEnabled: boolean; extra: object };

const currentTree = () => provider.getInstance().getStore() as Tree;

const undo: (() => void)[] = [];
const install = (traces: () => boolean) => {
  const restore = installUntracedRunTree(traces);
  undo.push(restore);
  return restore;
};

afterEach(() => {
  for (const restore of undo.splice(0)) restore();
});

const inside = () => provider.runWithConfig({}, currentTree);

describe('untraced run trees', () => {
  it('share one id while nothing is traced, and look like those of LangSmith', () => {
    const [before, other] = [inside(), inside()];
    expect(before.id).not.toBe(other.id);
    install(() => false);
    const [first, second] = [inside(), inside()];
    expect(first.id).toBe(second.id);
    expect(first).not.toBe(second);
    expect(first.tracingEnabled).toBe(false);
    expect(typeof first.createChild).toBe('function');
    expect(Object.getPrototypeOf(Object.getPrototypeOf(first))).toBe(Object.getPrototypeOf(before));
  });

  it('hand the config of the runnable at work to what it calls, each its own', () => {
    install(() => false);
    const [a, b] = [{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }];
    const seen = provider.runWithConfig(a, () => [
      provider.getRunnableConfig() as unknown,
      provider.runWithConfig(b, () => provider.getRunnableConfig() as unknown),
      provider.getRunnableConfig() as unknown,
    ]);
    expect(seen).toEqual([a, b, a]);
  });

  it('keep context variables for what is called, and not for the caller', async () => {
    install(() => false);
    const nested = RunnableLambda.from(() => {
      const found = getContextVariable<string>('tenant');
      setContextVariable('tenant', 'inner');
      return found;
    });
    const outer = RunnableLambda.from(async () => {
      setContextVariable('tenant', 'acme');
      const found = await nested.invoke({});
      return [found, getContextVariable<string>('tenant')];
    });
    expect(await outer.invoke({})).toEqual(['acme', 'acme']);
  });

  it('leave interrupts and the config of nodes as they are', async () => {
    install(() => false);
    const State = Annotation.Root({ answer: Annotation<string>() });
    const graph = new StateGraph(State)
      .addNode('ask', () => ({ answer: `${interrupt<string, string>('which?')} ${String(threadOf())}` }))
      .addEdge(START, 'ask')
      .addEdge('ask', END)
      .compile({ checkpointer: new MemorySaver() });
    const threadOf = (): unknown => getConfig().configurable?.['thread_id'];
    const config = { configurable: { thread_id: 't1' } };
    const asked = await graph.invoke({}, config);
    expect(asked).toMatchObject({ __interrupt__: [{ value: 'which?' }] });
    expect(await graph.invoke(new Command({ resume: 'this' }), config)).toMatchObject({ answer: 'this t1' });
  });

  it('give way to a tracer, and to tracing by the environment', () => {
    let asked = 0;
    const tracer = {
      name: 'langchain_tracer',
      getRunTreeWithTracingConfig: () => {
        asked += 1;
        return { extra: {} };
      },
    };
    install(() => false);
    const manager = {
      handlers: [tracer],
      inheritableHandlers: [],
      getParentRunId: () => 'run',
      copy: () => manager,
    };
    provider.runWithConfig({ callbacks: manager }, () => undefined);
    expect(asked).toBe(1);
    undo.pop()?.();
    install(() => true);
    expect(inside().id).not.toBe(inside().id);
  });

  it('end with the last that asked for them', () => {
    const [first, second] = [install(() => false), install(() => false)];
    undo.length = 0;
    first();
    expect(inside().id).toBe(inside().id);
    second();
    expect(inside().id).not.toBe(inside().id);
  });
});
