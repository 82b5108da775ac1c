import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';

const State = Annotation.Root({ answer: Annotation<string>() });

/** Waits for a person at once. */
export const parked = new StateGraph(State)
  .addNode('ask', () => ({ answer: String(interrupt({ question: 'may I go on?' })) }))
  .addEdge(START, 'ask')
  .addEdge('ask', END)
  .compile();
