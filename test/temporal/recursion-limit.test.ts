import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const State = Annotation.Root({
  n: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
  stop: Annotation<number>(),
});

/** `stop` rounds of one superstep each. */
const rounds = new StateGraph(State)
  .addNode('round', () => ({ n: 1 }))
  .addEdge(START, 'round')
  .addConditionalEdges('round', ({ n, stop }) => (n % 100 < stop ? 'round' : END), ['round', END]);
const loop = rounds.compile();

/** Ten supersteps inside of one. */
const around = new StateGraph(State)
  .addNode('before', () => ({}))
  .addNode('inner', async (state) => ({ n: (await loop.invoke({ n: 0, stop: state.stop })).n }))
  .addEdge(START, 'before')
  .addEdge('before', 'inner')
  .compile();

const asksInBetween = new StateGraph(State)
  .addNode('one', () => ({ n: 1 }))
  .addNode('ask', () => ({ n: Number(interrupt('how many?')) }))
  .addNode('more', () => ({ n: 1 }))
  .addEdge(START, 'one')
  .addEdge('one', 'ask')
  .addEdge('ask', 'more')
  .addConditionalEdges('more', ({ n }) => (n < 100 ? 'more' : END), ['more', END])
  .compile();

const graphs = { loop, around, asksInBetween };

/** One worker with all the time there is, one that hands over after every superstep. */
const installations: Record<'at once' | 'handing over', Installation | undefined> = {
  'at once': undefined,
  'handing over': undefined,
};
beforeAll(async () => {
  installations['at once'] = await openInstallation();
  installations['handing over'] = await openInstallation();
  await installations['at once'].startWorker(graphs);
  await installations['handing over'].startWorker(graphs, { segmentBudgetMs: 0 });
});
afterAll(async () => {
  for (const at of Object.values(installations)) await at?.close();
});

function installation(name: keyof typeof installations): Installation {
  const at = installations[name];
  if (!at) throw new Error('not open');
  return at;
}

for (const name of ['at once', 'handing over'] as const) {
  test.each([1, 3, 4, 5, 6])(
    `${name}: four rounds under a limit of %i end as in plain LangGraph`,
    async (recursion_limit) => {
      const config = { recursion_limit };
      const at = installation(name);
      const ours = await at.client.run({ graph: 'loop', input: { stop: 4 }, config });
      const plain = new PlainThread(loop, config);
      expect(ending(ours)).toEqual(await plain.run({ stop: 4 }));
      // The next run counts from where it begins.
      const again = await at.client.run({
        graph: 'loop',
        thread_id: ours.thread_id,
        input: { n: 100, stop: 4 },
        config,
      });
      expect(ending(again)).toEqual(await plain.run({ n: 100, stop: 4 }));
    },
  );

  test(`${name}: the limit is 25 by default, and the error names it`, async () => {
    const ours = await installation(name).client.run({ graph: 'loop', input: { stop: 99 } });
    expect(ours).toMatchObject({
      status: 'error',
      error: { name: 'GraphRecursionError', message: expect.stringContaining('limit of 25 reached') },
    });
    expect(ending(ours)).toEqual(await new PlainThread(loop).run({ stop: 99 }));
  });

  test(`${name}: a subgraph counts its own supersteps`, async () => {
    const config = { recursion_limit: 11 };
    expect(
      ending(await installation(name).client.run({ graph: 'around', input: { stop: 10 }, config })),
    ).toEqual(await new PlainThread(around, config).run({ stop: 10 }));
  });

  test(`${name}: an answer's run counts anew, under the limit of the run that asked`, async () => {
    const config = { recursion_limit: 5 };
    const { client } = installation(name);
    const ends = new Set<string>();
    for (const answer of [97, 94, 93, 92]) {
      const plain = new PlainThread(asksInBetween, config);
      await plain.run({ n: 0 });
      const first = await client.run({ graph: 'asksInBetween', input: { n: 0 }, config });
      const last = await client.waitForRun((await client.answer(first.thread_id, answer)).run_id);
      expect(ending(last)).toEqual(await plain.answer(answer));
      ends.add(last.status);
    }
    expect([...ends]).toEqual(['success', 'error']);
  });
}

test('a thread that ran into its limit goes on from there with the next run', async () => {
  const { client } = installation('handing over');
  const plain = new PlainThread(loop, { recursion_limit: 3 });
  const first = await client.run({ graph: 'loop', input: { stop: 6 }, config: { recursion_limit: 3 } });
  expect(ending(first)).toEqual(await plain.run({ stop: 6 }));
  const next = await client.run({
    graph: 'loop',
    thread_id: first.thread_id,
    input: { n: 0 },
    config: { recursion_limit: 8 },
  });
  expect(next).toMatchObject({ status: 'success' });
});

test('a run that hands over at every superstep takes each once', async () => {
  const at = installation('handing over');
  const { thread_id, values } = await at.client.run({ graph: 'loop', input: { stop: 20 } });
  expect(values).toMatchObject({ n: 20 });
  const [run] = await at.client.runs(thread_id);
  expect(run?.attempts).toBeGreaterThan(10);
});
