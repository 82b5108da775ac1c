import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { defineGraph } from '../../src/graph/define-graph.ts';

const State = Annotation.Root({
  left: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** A model that calls one tool a turn, `left` times; neither takes any time. */
const loop = new StateGraph(State)
  .addNode('model', ({ left }) => ({ left: left - 1 }))
  .addNode('tool', () => ({ log: ['x'.repeat(100)] }))
  .addEdge(START, 'model')
  .addConditionalEdges('model', ({ left }) => (left >= 0 ? 'tool' : END), ['tool', END])
  .addEdge('tool', 'model')
  .compile();

const version = '1';

export const toolsInline = defineGraph({ name: 'tools-inline', version, graph: loop });
export const toolsActivity = defineGraph({
  name: 'tools-activity',
  version,
  graph: loop,
  nodes: { tool: { run: 'activity' } },
});
/** Every superstep is an activity, as where each node is one. */
export const toolsSuperstep = defineGraph({
  name: 'tools-superstep',
  version,
  graph: loop,
  nodes: { model: { run: 'activity' }, tool: { run: 'activity' } },
});
