import { tool } from '@langchain/core/tools';
import { Annotation, DeltaChannel, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { createAgent, type AgentMiddleware } from 'langchain';
import { z } from 'zod';
import type { EffectKind } from '../../src/contracts/operations.ts';
import { currentOperation } from '../../src/operations/current-operation.ts';
import { durableTools } from '../../src/operations/durable-tools.ts';
import { operation } from '../../src/operations/operation.ts';
import { ScriptedModel } from '../operations/scripted-model.ts';
import type { Effects } from './effects.ts';

/** Short, so that the next attempt need not wait long for a dead one. */
const LEASE = 300;
/** The same for tools of agents that know nothing of perdure. */
export const TOOLS = { send_mail: { lease: LEASE }, ask_manager: { lease: LEASE } };

export const STEPS = Array.from({ length: 10 }, (_, index) => `step_${index + 1}`);
/** Tasks that act in one superstep. */
export const ABREAST = [1, 2, 3];
const ROUNDS = 2;

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  kind: Annotation<EffectKind>(),
});
/** The same with a DeltaChannel, whose writes are stored before the checkpoint that they lead to. */
const DeltaState = Annotation.Root({
  log: new DeltaChannel<string[], string[]>((all, updates) => [...all, ...updates.flat()], {
    snapshotFrequency: 4,
  }) as never,
  kind: Annotation<EffectKind>(),
}) as unknown as typeof State;
type Input = typeof State.State;

/** Graphs of whose every step one effect comes, under the names by which a child process asks for them. */
export function attemptGraphs(effects: Effects) {
  const act = (label: string, kind: EffectKind): Promise<string> =>
    operation(
      'count',
      {
        kind,
        lease: LEASE,
        args: { label },
        lookup: async (id) =>
          (await effects.happened(id)) ? { happened: true, result: label } : { happened: false },
      },
      async (call) => {
        await effects.book(call.operationId, label);
        return label;
      },
    );
  return {
    ten: chain(State, act),
    delta: chain(DeltaState, act),
    inside: inside(act),
    abreast: abreast(act),
    agent: agent(effects, [durableTools({ lease: LEASE })]),
    plainAgent: agent(effects, []),
  };
}

type Act = (label: string, kind: EffectKind) => Promise<string>;

/** Ten nodes, one after the other. */
function chain(state: typeof State, act: Act) {
  const graph = new StateGraph(state);
  for (const step of STEPS)
    graph.addNode(step, async ({ kind }: Input) => ({ log: [await act(step, kind)] }));
  // The builder's type knows only nodes that were added by name.
  const edges = graph as unknown as { addEdge(from: string, to: string): void };
  [START, ...STEPS].forEach((step, index) => edges.addEdge(step, STEPS[index] ?? END));
  return graph.compile();
}

/** Two nodes of a subgraph between two of the graph. */
function inside(act: Act) {
  const does = (label: string) => async (state: Input) => ({ log: [await act(label, state.kind)] });
  const sub = new StateGraph({ state: State, output: Annotation.Root({ log: State.spec.log }) })
    .addNode('in_1', does('in_1'))
    .addNode('in_2', does('in_2'))
    .addEdge(START, 'in_1')
    .addEdge('in_1', 'in_2')
    .compile();
  return new StateGraph(State)
    .addNode('first', does('first'))
    .addNode('node', sub)
    .addNode('last', does('last'))
    .addEdge(START, 'first')
    .addEdge('first', 'node')
    .addEdge('node', 'last')
    .compile();
}

/** Rounds of tasks that act side by side, as `Send`s. */
function abreast(act: Act) {
  const fan = ({ kind, log }: Input): Send[] | typeof END => {
    const round = log.length / ABREAST.length + 1;
    if (round > ROUNDS) return END;
    return ABREAST.map((place) => new Send('work', { kind, log: [`round_${round} place_${place}`] }));
  };
  return new StateGraph(State)
    .addNode('work', async ({ kind, log: [label = ''] }: Input) => ({ log: [await act(label, kind)] }))
    .addNode('gather', () => ({}))
    .addConditionalEdges(START, fan, ['work', END])
    .addEdge('work', 'gather')
    .addConditionalEdges('gather', fan, ['work', END])
    .compile();
}

/** An agent whose model plans a tool that acts beside one that asks, in one message. */
function agent(effects: Effects, middleware: AgentMiddleware[]) {
  const schema = z.object({ to: z.string() });
  const sendMail = tool(
    async ({ to }) => {
      await effects.book(currentOperation()?.operationId ?? 'none', `mail to ${to}`);
      return `mailed ${to}`;
    },
    { name: 'send_mail', description: 'sends a mail', schema },
  );
  const askManager = tool(({ to }) => interrupt<string, string>(`may I, ${to}?`), {
    name: 'ask_manager',
    description: 'asks the manager',
    schema,
  });
  const calls = [
    { name: 'send_mail', args: { to: 'mira' }, id: 'call_1' },
    { name: 'ask_manager', args: { to: 'tom' }, id: 'call_2' },
  ];
  return createAgent({
    model: new ScriptedModel([calls]),
    tools: [sendMail, askManager],
    middleware,
  });
}
