import { appendFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Annotation, END, START, StateGraph, interrupt } from '@langchain/langgraph';

const State = Annotation.Root({
  /** Where each superstep says who took it and when, a line each: `<pid> <ms since the epoch>`. */
  log: Annotation<string>,
  left: Annotation<number>,
  ask: Annotation<boolean>,
});

const said = (log: string) => appendFile(log, `${process.pid} ${Date.now()}\n`);

/** Supersteps of 50 ms that leave a trace outside, after a question if that is asked for. */
export const steps = new StateGraph(State)
  .addNode('question', ({ ask }) => {
    if (ask) interrupt('go on?');
    return {};
  })
  .addNode('step', async ({ log, left }) => {
    await said(log);
    await delay(50);
    return { left: left - 1 };
  })
  .addEdge(START, 'question')
  .addEdge('question', 'step')
  .addConditionalEdges('step', ({ left }) => (left > 0 ? 'step' : END), ['step', END])
  .compile();
