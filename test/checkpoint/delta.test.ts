import { AIMessage, type BaseMessage, HumanMessage, RemoveMessage } from '@langchain/core/messages';
import {
  DeltaChannel,
  END,
  MemorySaver,
  messagesDeltaReducer,
  Overwrite,
  Send,
  START,
  StateGraph,
  StateSchema,
  MessagesDeltaValue,
  Annotation,
} from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { nextNodesOf } from '../../src/graph/next-nodes.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, takeAttempt } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const Numbers = Annotation.Root({
  list: new DeltaChannel<number[], number[]>((current, updates) => [...current, ...updates.flat()], {
    snapshotFrequency: 4,
  }) as never,
  n: Annotation<number>(),
}) as ReturnType<
  typeof Annotation.Root<{
    list: ReturnType<typeof Annotation<number[]>>;
    n: ReturnType<typeof Annotation<number>>;
  }>
>;

/** Fans out, so that several tasks write the channel in one superstep, then adds one more. */
function numbers() {
  return new StateGraph(Numbers)
    .addNode('worker', (state: { n: number }) => ({ list: [state.n] }))
    .addNode('end', (state) => ({ list: [state.list.length * 100] }))
    .addConditionalEdges(
      START,
      (state) => [3, 1, 2].map((i) => new Send('worker', { n: state.n * 10 + i })),
      ['worker'],
    )
    .addEdge('worker', 'end')
    .addEdge('end', END);
}

async function turns(checkpointer: BaseCheckpointSaver, thread: string) {
  const graph = numbers().compile({ checkpointer });
  const config = { configurable: { thread_id: thread }, durability: 'sync' as const };
  for (let turn = 1; turn <= 5; turn += 1) await graph.invoke({ n: turn, list: [turn * 1000] }, config);
  await graph.updateState(
    { configurable: { thread_id: thread } },
    { list: new Overwrite([7]) as never },
    'end',
  );
  await graph.invoke({ n: 6 }, config);
  const states = [];
  for await (const state of graph.getStateHistory({ configurable: { thread_id: thread } }))
    states.push([state.values, state.next, state.metadata?.step]);
  return states;
}

describe('a DeltaChannel', () => {
  test('has the same history as in memory', async () => {
    const thread = await makeThread(database);
    expect(await turns(saver, thread)).toEqual(await turns(new MemorySaver(), thread));
  });

  test('through an attempt too, without waiting for one another', async () => {
    const thread = await makeThread(database);
    const attempt = await takeAttempt(saver, database, thread, {
      nextNodes: nextNodesOf(numbers().compile() as Parameters<typeof nextNodesOf>[0]),
    });
    expect(await turns(attempt, thread)).toEqual(await turns(new MemorySaver(), thread));
  });

  test('is read back in one query, however long its history', async () => {
    const thread = await makeThread(database);
    await turns(saver, thread);
    const query = vi.spyOn(database.pool, 'query');
    const { list } = await saver
      .getDeltaChannelHistory({
        config: { configurable: { thread_id: thread } },
        channels: ['list', 'never'],
      })
      .then((history) => ({ list: history['list'] }));
    expect(query.mock.calls.length).toBe(1);
    query.mockRestore();
    expect(list?.writes.length).toBeGreaterThan(0);
  });

  test('gives what the walk of LangGraph gives', async () => {
    const thread = await makeThread(database);
    await turns(saver, thread);
    const walk = Object.getPrototypeOf(Object.getPrototypeOf(PerdureSaver.prototype)) as BaseCheckpointSaver;
    for await (const tuple of saver.list({ configurable: { thread_id: thread, checkpoint_ns: '' } })) {
      const options = { config: tuple.config, channels: ['list', 'n', 'never'] };
      expect(await saver.getDeltaChannelHistory(options)).toEqual(
        await walk.getDeltaChannelHistory.call(saver, options),
      );
    }
  });

  test('of messages keeps additions, changes and removals', async () => {
    const Messages = new StateSchema({ messages: MessagesDeltaValue });
    const build = (checkpointer: BaseCheckpointSaver) =>
      new StateGraph(Messages)
        .addNode('model', (state) => ({
          messages: [
            new AIMessage({ id: `a${state.messages.length}`, content: `${state.messages.length}` }),
            ...(state.messages.length > 4 ? [new RemoveMessage({ id: 'h1' })] : []),
          ],
        }))
        .addEdge(START, 'model')
        .addEdge('model', END)
        .compile({ checkpointer });
    const run = async (checkpointer: BaseCheckpointSaver, thread: string) => {
      const graph = build(checkpointer);
      for (let i = 0; i < 4; i += 1)
        await graph.invoke(
          { messages: [new HumanMessage({ id: `h${i}`, content: `q${i}` })] },
          { configurable: { thread_id: thread } },
        );
      const states = [];
      for await (const state of graph.getStateHistory({ configurable: { thread_id: thread } }))
        states.push(
          state.values.messages?.map((message: BaseMessage) => [message.id, message.content, message.type]),
        );
      return states;
    };
    const thread = await makeThread(database);
    expect(messagesDeltaReducer).toBeTypeOf('function');
    expect(await run(saver, thread)).toEqual(await run(new MemorySaver(), thread));
  });
});
