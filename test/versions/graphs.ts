import { Annotation, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { z } from 'zod';
import { defineGraph } from '../../src/graph/define-graph.ts';
import type { Migration, Migrations } from '../../src/graph/migration-path.ts';

/** What the nodes of these graphs did, such as `mira 17 pay`. */
export const entered: string[] = [];
/** Nodes named `hold` wait here, by the thread's key, until they are let go. */
export const held = new Map<string, () => void>();

export const Order17 = Annotation.Root({
  key: Annotation<string>(),
  amount: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** `write -> ask -> pay`; asks for a yes. */
export const order17 = defineGraph({
  name: 'order',
  version: '17',
  graph: new StateGraph(Order17)
    .addNode('write', ({ key }) => note(key, '17 write'))
    .addNode('ask', ({ key, amount }) => note(key, `17 ask ${String(interrupt(`pay ${amount}?`))}`))
    .addNode('pay', ({ key, amount }) => note(key, `17 pay ${amount}`))
    .addEdge(START, 'write')
    .addEdge('write', 'ask')
    .addEdge('ask', 'pay')
    .addEdge('pay', END)
    .compile(),
});

const Order18 = z.object({
  key: z.string(),
  amount: z.object({ value: z.number(), currency: z.string() }).optional(),
  log: z.array(z.string()),
});

/** The amount has a currency, and there is a node more. */
export function order18(migrations: Migrations, ask = 'ask', version = '18') {
  return defineGraph({
    name: 'order',
    version,
    graph: new StateGraph(Order18)
      .addNode('write', ({ key }) => ({ log: [noted(key, `${version} write`)] }))
      .addNode(ask, ({ key, amount, log }) => ({
        log: [
          ...log,
          noted(key, `${version} ask ${String(interrupt(`pay ${amount?.value} ${amount?.currency}?`))}`),
        ],
      }))
      .addNode('pay', ({ key, amount, log }) => ({
        log: [...log, noted(key, `${version} pay ${amount?.value} ${amount?.currency}`)],
      }))
      .addNode('thank', ({ key, log }) => ({ log: [...log, noted(key, `${version} thank`)] }))
      .addEdge(START, 'write')
      .addEdge('write', ask)
      .addEdge(ask, 'pay')
      .addEdge('pay', 'thank')
      .addEdge('thank', END)
      .compile(),
    migrations,
  });
}

export const addCurrency: Migration = (values) => ({
  ...values,
  amount: { value: values['amount'], currency: 'EUR' },
});
export const toCurrency: Migrations = {
  '17->18': addCurrency,
};

/** A node that waits for the test before it ends. */
export function holding(version: string, migrations: Migrations = {}) {
  return defineGraph({
    name: 'holding',
    version,
    graph: new StateGraph(Order17)
      .addNode('first', ({ key }) => note(key, `${version} first`))
      .addNode('hold', async ({ key }) => {
        entered.push(`${key} ${version} hold`);
        await new Promise<void>((resolve) => held.set(key, resolve));
        return { log: [`${version} hold`] };
      })
      .addNode('last', ({ key }) => note(key, `${version} last`))
      .addEdge(START, 'first')
      .addEdge('first', 'hold')
      .addEdge('hold', 'last')
      .addEdge('last', END)
      .compile(),
    migrations,
  });
}

/** Three parallel tasks that ask; one of a subgraph, two of `Send`s. */
export function parallel(version: string, migrations: Migrations = {}) {
  const inner = new StateGraph(Order17)
    .addNode('deep', ({ key }) => note(key, `${version} deep ${String(interrupt('deep?'))}`))
    .addEdge(START, 'deep')
    .compile();
  return defineGraph({
    name: 'parallel',
    version,
    graph: new StateGraph(Order17)
      .addNode('each', ({ key, amount }) =>
        note(key, `${version} each ${amount} ${String(interrupt(`each ${amount}?`))}`),
      )
      .addNode('inner', inner)
      .addNode('sum', ({ key, log }) => note(key, `${version} sum ${log.length}`))
      .addConditionalEdges(START, ({ key }) => [
        new Send('each', { key, amount: 1 }),
        new Send('each', { key, amount: 2 }),
        new Send('inner', { key, log: [] }),
      ])
      .addEdge('each', 'sum')
      .addEdge('inner', 'sum')
      .addEdge('sum', END)
      .compile(),
    migrations,
  });
}

function noted(key: string, what: string): string {
  entered.push(`${key} ${what}`);
  return what;
}

function note(key: string, what: string): { log: string[] } {
  return { log: [noted(key, what)] };
}

/** What was done for a thread, in order. */
export function doneFor(key: string): string[] {
  return entered.filter((one) => one.startsWith(`${key} `)).map((one) => one.slice(key.length + 1));
}
