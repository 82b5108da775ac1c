import { Annotation, END, START, StateGraph } from '@langchain/langgraph';

const State = Annotation.Root({
  /** How many rounds of the chain are left. */
  rounds: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const NODES = 20;

/**
 * A chain of twenty nodes that do nothing, run through once or several times. One graph for short and long runs:
 * LangGraph's own cost of a superstep grows with the number of nodes. Not compiled, so that a peer can do that with
 * a saver of its own.
 */
export function chain() {
  const builder = new StateGraph(State);
  const loose = builder as unknown as StateGraph<
    typeof State.spec,
    typeof State.State,
    typeof State.Update,
    string
  >;
  for (let i = 0; i < NODES - 1; i += 1) loose.addNode(`n${i}`, () => ({ log: [`x${i}`] }));
  loose.addNode(`n${NODES - 1}`, (state: typeof State.State) => ({
    rounds: state.rounds - 1,
    log: ['end'],
  }));
  loose.addEdge(START, 'n0');
  for (let i = 1; i < NODES; i += 1) loose.addEdge(`n${i - 1}`, `n${i}`);
  const again = (state: typeof State.State) => (state.rounds > 0 ? 'n0' : END);
  loose.addConditionalEdges(`n${NODES - 1}`, again, ['n0', END]);
  return loose;
}

export const compiledChain = chain().compile();
