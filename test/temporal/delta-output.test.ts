import { HumanMessage } from '@langchain/core/messages';
import { END, MessagesDeltaValue, START, StateGraph, StateSchema } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
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

test('it is kept with the checkpoint, once for what is in it, and LangGraph never sees it', async () => {
  const thread_id = crypto.randomUUID();
  const content = 'c'.repeat(50_000);
  for (let turn = 1; turn <= 3; turn += 1) {
    const input = { messages: [{ role: 'user', content: `${turn} ${content}` }] };
    const { run_id, values } = await at.client.run({ graph: 'chat', thread_id, input });
    expect((values as { messages: unknown[] }).messages.length).toBe(2 * turn);
    const { rows } = await at.client.database.query<{ output: unknown; bytes: number }>(
      `SELECT r.output, (SELECT sum(length(e.blob))::int FROM ${at.client.database.table('checkpoint_elements')} e
         WHERE e.thread_id = t.checkpoint_thread_id) AS bytes
       FROM ${at.client.database.table('runs')} r JOIN ${at.client.database.table('threads')} t USING (tenant_id, thread_id)
       WHERE r.run_id = $1`,
      [run_id],
    );
    expect(rows[0]?.output).toBeNull();
    expect(rows[0]?.bytes).toBeLessThan(turn * 55_000);
  }
  const { rows } = await at.client.database.query<{ id: string }>(
    `SELECT checkpoint_thread_id AS id FROM ${at.client.database.table('threads')} WHERE thread_id = $1`,
    [thread_id],
  );
  const saver = new PerdureSaver(at.client.database);
  const config = { configurable: { thread_id: rows[0]?.id, checkpoint_ns: '' } };
  expect((await saver.getTuple(config))?.pendingWrites).toEqual([]);
  expect(Object.keys((await saver.getOutput(config)) ?? {})).toEqual(['messages']);
});
