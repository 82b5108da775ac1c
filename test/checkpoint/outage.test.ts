import { connect, createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { openDatabase, type Database } from '../../src/postgres/database.ts';
import { nextNodesOf } from '../../src/graph/next-nodes.ts';
import { freshDatabase, makeThread, takeAttempt } from './fixture.ts';

/** Postgres behind a line that can be cut, as when the server restarts. */
class Line {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  port = 0;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  async open(): Promise<void> {
    this.#server = createServer((client) => {
      const server = connect(Number(this.#target.port), this.#target.hostname);
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on('error', () => socket.destroy()).on('close', () => this.#sockets.delete(socket));
      }
      client.pipe(server).pipe(client);
    });
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address === 'object' && address) this.port = address.port;
  }

  cut(): void {
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  url(): string {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String(this.port);
    return url.href;
  }
}

let database: Database;
let line: Line;
let through: Database;
beforeAll(async () => {
  database = await freshDatabase();
  line = new Line(inject('databaseUrl'));
  await line.open();
  through = openDatabase({ connectionString: line.url(), schema: database.schema });
});
afterAll(async () => {
  await through.close();
  line.cut();
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

function fourNodes(atNode: (name: string) => void | Promise<void>) {
  const node = (name: string) => async () => {
    await atNode(name);
    return { log: [name] };
  };
  return new StateGraph(State)
    .addNode('a', node('a'))
    .addNode('b', node('b'))
    .addNode('c', node('c'))
    .addNode('d', node('d'))
    .addEdge(START, 'a')
    .addEdge('a', 'b')
    .addEdge('b', 'c')
    .addEdge('c', 'd')
    .addEdge('d', END);
}

async function run(atNode: (name: string) => void | Promise<void>, retryForMs?: number) {
  const thread = await makeThread(database);
  const saver = new PerdureSaver(through, retryForMs === undefined ? {} : { retryForMs });
  const builder = fourNodes(atNode);
  const attempt = await takeAttempt(saver, through, thread, {
    nextNodes: nextNodesOf(builder.compile() as Parameters<typeof nextNodesOf>[0]),
  });
  const result = builder
    .compile({ checkpointer: attempt })
    .invoke({}, { configurable: { thread_id: thread }, durability: 'sync' });
  return { thread, attempt, result };
}

test('E21: idle connections killed by the server at every step', async () => {
  const { result } = await run(async () => {
    await database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND query LIKE '%' || $1 || '%'`,
      [database.schema],
    );
  });
  expect((await result).log).toEqual(['a', 'b', 'c', 'd']);
});

test('E21: the server is away for a second in the middle of a run', async () => {
  const { result, thread, attempt } = await run(async (name) => {
    if (name !== 'b') return;
    line.cut();
    void delay(1_000).then(() => line.open());
  });
  expect((await result).log).toEqual(['a', 'b', 'c', 'd']);
  expect(attempt.failure).toBeUndefined();
  const steps = [];
  for await (const tuple of new PerdureSaver(database).list({ configurable: { thread_id: thread } }))
    steps.push(tuple.metadata?.step);
  expect(steps).toEqual([4, 3, 2, 1, 0, -1]);
});

test('a server that stays away ends the run with a storage error', async () => {
  const { result, attempt } = await run((name) => {
    if (name === 'c') line.cut();
  }, 300);
  await expect(result).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  expect(attempt.failure).toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  await line.open();
});
