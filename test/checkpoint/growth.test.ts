import { randomUUID } from 'node:crypto';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatKind } from '../../bench/graphs/chat.ts';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase } from './fixture.ts';

let database: Database;
beforeAll(async () => {
  database = await freshDatabase();
});

/** All that the tables hold of a thread, whole rows. */
async function bytesOf(thread: string): Promise<number> {
  const tables = ['checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'checkpoint_elements'];
  const sums = tables.map(
    (table) =>
      `(SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM ${database.table(table)} r WHERE r.thread_id = $1)`,
  );
  const { rows } = await database.query<{ bytes: string }>(`SELECT ${sums.join(' + ')} AS bytes`, [thread]);
  return Number(rows[0]?.bytes);
}

type Chat = { invoke(input: unknown, config: unknown): Promise<{ messages: unknown[] }> };

async function say(graph: unknown, thread: string, text: string) {
  const config = { configurable: { thread_id: thread }, durability: 'sync' };
  return (graph as Chat).invoke({ messages: [new HumanMessage(text)] }, config);
}

describe('E22: 200 turns of 2 kB each', () => {
  test.each<ChatKind>(['plain', 'delta', 'agent'])(
    '%s: bytes per turn stay flat, and near the content',
    async (kind) => {
      const size = 2_000;
      const thread = randomUUID();
      const graph = chat(kind, new PerdureSaver(database), size);
      const grown: number[] = [];
      let before = 0;
      for (let turn = 1; turn <= 200; turn += 1) {
        await say(graph, thread, `question ${turn}`);
        // A delta channel makes a snapshot every 100 updates: as many turns as hold some.
        if (turn % 50 !== 0) continue;
        const bytes = await bytesOf(thread);
        grown.push((bytes - before) / 50);
        before = bytes;
      }
      expect(grown[3]).toBeLessThan(1.1 * (grown[0] ?? 0));
    },
    60_000,
  );
});

describe('E23: a tool result of 3 MiB', () => {
  test.each<ChatKind>(['plain', 'delta', 'agent'])('%s: is stored once, and comes back', async (kind) => {
    const size = 3 * 1_024 * 1_024;
    const thread = randomUUID();
    const graph = chat(kind, new PerdureSaver(database), size);
    await say(graph, thread, 'the large one');
    expect(await bytesOf(thread)).toBeLessThan(1.1 * size);
    const { messages } = await say(chat(kind, new PerdureSaver(database), 10), thread, 'a small one');
    const results = messages.filter((message) => ToolMessage.isInstance(message));
    expect(results.map((message) => message.text.length)).toEqual([size, 10]);
    expect(await bytesOf(thread)).toBeLessThan(1.1 * size);
  });
});
