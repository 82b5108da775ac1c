import { HumanMessage } from '@langchain/core/messages';
import { END, MessagesDeltaValue, START, StateGraph, StateSchema } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openInstallation, type Installation } from '../support/installation.ts';

const chat = new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
  .addNode('reply', (state) => ({ messages: [new HumanMessage(`reply to ${state.messages.length}`)] }))
  .addEdge(START, 'reply')
  .addEdge('reply', END)
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ chat });
});
afterAll(() => at.close());

test("a run's values hold what lies in a DeltaChannel", async () => {
  const turn = (thread_id: string, content: string) =>
    at.client.run({ graph: 'chat', thread_id, input: { messages: [{ role: 'user', content }] } });
  const thread = crypto.randomUUID();
  await turn(thread, 'one');
  const last = await turn(thread, 'two');
  expect(last.status).toBe('success');
  const { messages } = last.values as { messages: { content: string }[] };
  expect(messages.map(({ content }) => content)).toEqual(['one', 'reply to 1', 'two', 'reply to 3']);
});
