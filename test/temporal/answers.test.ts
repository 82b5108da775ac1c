import { Annotation, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { tableContents } from '../support/table-contents.ts';

const State = Annotation.Root({
  log: Annotation<unknown[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  name: Annotation<string>(),
});

const effects: string[] = [];
const three = new StateGraph(State)
  .addNode('gate', ({ name }) => {
    const answer: unknown = interrupt({ approve: name });
    effects.push(`${name} ${JSON.stringify(answer)}`);
    return { log: [{ [name]: answer }] };
  })
  .addConditionalEdges(
    START,
    ({ name }) => ['x', 'y', 'z'].map((one) => new Send('gate', { name: `${name} ${one}` })),
    ['gate'],
  )
  .addEdge('gate', END)
  .compile();

const gate = new StateGraph(State)
  .addNode('ask', ({ name }) => {
    const answer: unknown = interrupt('go on?');
    effects.push(`${name} ${JSON.stringify(answer)}`);
    return { log: [{ answer, type: answer === null ? 'null' : typeof answer }] };
  })
  .addEdge(START, 'ask')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ three, gate });
});
afterAll(() => at.close());

async function asked(graph: string): Promise<RunResult & { name: string }> {
  const name = crypto.randomUUID();
  return { ...(await at.client.run({ graph, input: { log: [], name } })), name };
}

const effectsOf = (name: string) => effects.filter((effect) => effect.startsWith(name));

test('E2: of three that wait, an answer that names none is refused with the three ids, and changes nothing', async () => {
  const { thread_id, interrupts = [], name } = await asked('three');
  const ids = interrupts.map(({ id }) => id);
  expect(new Set(ids).size).toBe(3);
  const before = await tableContents(at.database);
  await expect(at.client.answer(thread_id, 'yes')).rejects.toMatchObject({
    code: 'INTERRUPT_AMBIGUOUS',
    details: { pending: ids },
  });
  await expect(at.client.answer(thread_id, 'yes')).rejects.toThrow(ids.join(', '));
  await expect(at.client.answer(thread_id, 'yes', { interruptId: 'f'.repeat(32) })).rejects.toMatchObject({
    code: 'INTERRUPT_UNKNOWN',
    details: { pending: ids },
  });
  await expect(at.client.answer('nobody', 'yes')).rejects.toMatchObject({ code: 'THREAD_UNKNOWN' });
  expect(await tableContents(at.database)).toEqual(before);
  expect(effectsOf(name)).toEqual([]);
});

test('E2: each of the three may be answered by its id, and the last without', async () => {
  const { thread_id, interrupts = [], name } = await asked('three');
  const [x, y, z] = interrupts;
  const second = await at.client.waitForRun(
    (await at.client.answer(thread_id, 2, { interruptId: y?.id ?? '' })).run_id,
  );
  expect(second.interrupts).toEqual([x, z]);
  const third = await at.client.waitForRun(
    (await at.client.answer(thread_id, 3, { interruptId: z?.id ?? '' })).run_id,
  );
  expect(third.interrupts).toEqual([x]);
  const last = await at.client.waitForRun((await at.client.answer(thread_id, 1)).run_id);
  expect(last).toMatchObject({
    status: 'success',
    values: { log: [{ [`${name} x`]: 1 }, { [`${name} y`]: 2 }, { [`${name} z`]: 3 }] },
  });
  expect(effectsOf(name).toSorted()).toEqual([`${name} x 1`, `${name} y 2`, `${name} z 3`]);
});

test('E3: of two different answers at the same moment one wins, and the other is told who and what', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { thread_id, name } = await asked('gate');
    const given = await Promise.allSettled([
      at.client.answer(thread_id, 'yes', { actor: 'user:mira' }),
      at.client.answer(thread_id, 'no', { actor: 'user:bo' }),
    ]);
    const won = given.findIndex(({ status }) => status === 'fulfilled');
    const lost = given[1 - won];
    expect(given.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const [answer, actor] = won === 0 ? ['yes', 'user:mira'] : ['no', 'user:bo'];
    const reason: unknown = lost?.status === 'rejected' ? lost.reason : undefined;
    expect(reason).toMatchObject({
      code: 'INTERRUPT_ALREADY_ANSWERED',
      details: { answer, answered_by: actor },
    });
    expect(await at.client.interrupts({ thread_id })).toMatchObject([
      { status: 'answered', answer, answered_by: actor },
    ]);
    const [run] = await at.client.runs(thread_id);
    await at.client.waitForRun(run?.run_id ?? '');
    expect(effectsOf(name)).toEqual([`${name} "${answer}"`]);
  }
});

test('E3: named by its id, the interrupt says by whom, when and with what it was answered', async () => {
  const { thread_id, interrupts, name } = await asked('gate');
  const interruptId = interrupts?.[0]?.id ?? '';
  const given = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) =>
      at.client.answer(thread_id, { reviewer: i }, { interruptId, actor: `user:${i}` }),
    ),
  );
  const winners = given.flatMap((one, i) => (one.status === 'fulfilled' ? [i] : []));
  expect(winners).toHaveLength(1);
  for (const one of given)
    if (one.status === 'rejected')
      expect(one.reason).toMatchObject({
        code: 'INTERRUPT_ALREADY_ANSWERED',
        message: expect.stringContaining(`already answered by user:${winners[0]}`),
        details: {
          answer: { reviewer: winners[0] },
          answered_by: `user:${winners[0]}`,
          answered_at: expect.stringMatching(/^\d{4}-/),
          interrupt_id: interruptId,
        },
      });
  const [run] = await at.client.runs(thread_id);
  await at.client.waitForRun(run?.run_id ?? '');
  expect(effectsOf(name)).toHaveLength(1);
  expect((await at.client.runs(thread_id)).length).toBe(2);
});

test('E3: the same answer twice is taken once, and repeated harmlessly, later too', async () => {
  const { thread_id, interrupts, name } = await asked('gate');
  const interruptId = interrupts?.[0]?.id ?? '';
  const value = { ok: true, list: [1, null] };
  const twice = await Promise.all([
    at.client.answer(thread_id, value, { interruptId }),
    at.client.answer(thread_id, value, { interruptId }),
  ]);
  expect(new Set(twice.map(({ repeated }) => repeated))).toEqual(new Set([false, true]));
  expect(twice[0].run_id).toBe(twice[1].run_id);
  await at.client.waitForRun(twice[0].run_id);
  const later = await at.client.answer(thread_id, { list: [1, null], ok: true }, { interruptId });
  expect(later).toMatchObject({ repeated: true, run_id: twice[0].run_id });
  expect(await at.client.answer(thread_id, value)).toMatchObject({ repeated: true, run_id: twice[0].run_id });
  expect(effectsOf(name)).toEqual([`${name} ${JSON.stringify(value)}`]);
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test.each<[JsonValue, string]>([
  [false, 'boolean'],
  [0, 'number'],
  ['', 'string'],
  [null, 'null'],
  [[], 'object'],
  [{}, 'object'],
  [-0.5, 'number'],
  ['false', 'string'],
])('E5: the answer %j reaches the node as it is', async (value, type) => {
  const { thread_id, name } = await asked('gate');
  const { run_id } = await at.client.answer(thread_id, value);
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: [{ answer: value, type }] },
  });
  expect(effectsOf(name)).toEqual([`${name} ${JSON.stringify(value)}`]);
});

test('E5: what is no JSON is refused, and the question stays', async () => {
  const { thread_id, interrupts } = await asked('gate');
  await expect(at.client.startRun({ graph: 'gate', input: { log: Number.NaN } })).rejects.toMatchObject({
    code: 'INPUT_INVALID',
  });
  const cycle: unknown[] = [];
  cycle.push(cycle);
  let deep: unknown = 1;
  for (let level = 0; level < 5_000; level += 1) deep = [deep];
  const hole: unknown[] = [];
  hole.length = 2;
  const refused: unknown[] = [
    cycle,
    deep,
    hole,
    new Date(0),
    Number.NaN,
    Number.POSITIVE_INFINITY,
    undefined,
    () => 1,
    { deep: [Number.NaN] },
    { nothing: undefined },
    10n,
    new Map(),
    Symbol('x'),
  ];
  for (const value of refused)
    await expect(at.client.answer(thread_id, value as JsonValue)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
  expect(await at.client.interrupts({ thread_id, status: 'pending' })).toMatchObject([
    { id: interrupts?.[0]?.id },
  ]);
  expect((await at.client.runs(thread_id)).length).toBe(1);
});

test.each([
  ['NUL', 'a\u0000b'],
  ['half a surrogate pair', 'a\ud800b'],
  ['six plain characters', '\\u0000'],
  ['__proto__', '__proto__'],
])('an answer with %s reaches the node as it is', async (_, text) => {
  const { thread_id } = await asked('gate');
  const value = JSON.parse(`{${JSON.stringify(text)}: ${JSON.stringify(text)}}`) as JsonValue;
  const { run_id } = await at.client.answer(thread_id, value);
  const { values, status } = await at.client.waitForRun(run_id);
  expect(status).toBe('success');
  expect(JSON.stringify(values)).toContain(JSON.stringify(value));
});
