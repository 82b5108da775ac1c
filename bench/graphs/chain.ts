import { Annotation, END, START, StateGraph } from '@langchain/langgraph';

const State = Annotation.Root({
  n: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** A chain of nodes that do nothing, as a builder, so that a peer can compile it with its own saver. */
export function chain(steps: number) {
  const builder = new StateGraph(State);
  const loose = builder as unknown as StateGraph<
    typeof State.spec,
    typeof State.State,
    typeof State.Update,
    string
  >;
  for (let i = 0; i < steps; i += 1) loose.addNode(`n${i}`, () => ({ n: i, log: [`x${i}`] }));
  loose.addEdge(START, 'n0');
  for (let i = 1; i < steps; i += 1) loose.addEdge(`n${i - 1}`, `n${i}`);
  loose.addEdge(`n${steps - 1}`, END);
  return loose;
}

export const chain20 = chain(20).compile();
export const chain200 = chain(200).compile();
