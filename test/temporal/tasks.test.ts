import { Annotation, Command, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { eventually } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { taskActivities } from '../support/task-activities.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const entered: string[] = [];
const note = (name: string) => () => {
  entered.push(name);
  return { log: [name] };
};

const line = defineGraph({
  name: 'line',
  version: '1',
  graph: new StateGraph(State)
    .addNode('before', note('before'))
    .addNode('tool', note('tool'))
    .addNode('between', note('between'))
    .addNode('other', note('other'))
    .addEdge(START, 'before')
    .addEdge('before', 'tool')
    .addEdge('tool', 'between')
    .addEdge('between', 'other')
    .addEdge('other', END)
    .compile(),
  nodes: { tool: { run: 'activity' }, other: { taskQueue: 'elsewhere' } },
});

/** Four tasks at once, of which two ask. */
const fan = defineGraph({
  name: 'fan',
  version: '1',
  graph: new StateGraph(State)
    .addNode('plan', () => ({ log: ['plan'] }))
    .addNode('work', ({ i }: { i: number }) => {
      entered.push(`work ${i}`);
      if (i % 2 === 0) return { log: [`work ${i}`] };
      const answer: unknown = interrupt({ ask: i });
      return { log: [`work ${i} = ${String(answer)}`] };
    })
    .addNode('join', () => new Command({ goto: END, update: { log: ['join'] } }), { ends: [END] })
    .addEdge(START, 'plan')
    .addConditionalEdges('plan', () => [0, 1, 2, 3].map((i) => new Send('work', { i })), ['work'])
    .addEdge('work', 'join')
    .compile(),
  nodes: { work: { run: 'activity' } },
});

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ line, fan });
});
afterAll(() => at.close());

test('a node runs as an activity of its own, and the run goes on in it', async () => {
  entered.length = 0;
  const result = await at.client.run({ graph: 'line', input: { log: ['in'] } });
  expect(result).toMatchObject({
    status: 'success',
    values: { log: ['in', 'before', 'tool', 'between', 'other'] },
  });
  expect(entered).toEqual(['before', 'tool', 'between', 'other']);
  expect(await taskActivities(at, result.thread_id)).toEqual([
    { name: 'runTask', queue: `${at.schema}/line@1`, summary: `tool · ${result.thread_id}` },
    { name: 'runTask', queue: `${at.schema}/line@1/elsewhere`, summary: `other · ${result.thread_id}` },
  ]);
});

test('parallel tasks run each by itself, ask each by itself, and get each its answer', async () => {
  entered.length = 0;
  const first = await at.client.run({ graph: 'fan', input: { log: [] } });
  expect(first).toMatchObject({
    status: 'interrupted',
    interrupts: [{ value: { ask: 1 } }, { value: { ask: 3 } }],
    next: ['work', 'work'],
  });
  expect(entered.toSorted()).toEqual(['work 0', 'work 1', 'work 2', 'work 3']);
  const [one, three] = first.interrupts ?? [];
  const second = await at.client.waitForRun(
    (await at.client.answer(first.thread_id, 'c', { interruptId: three?.id ?? '' })).run_id,
  );
  expect(second).toMatchObject({ status: 'interrupted', interrupts: [{ id: one?.id, value: { ask: 1 } }] });
  expect(entered.slice(4)).toEqual(['work 3']);
  const last = await at.client.waitForRun((await at.client.answer(first.thread_id, 'a')).run_id);
  expect(last).toMatchObject({
    status: 'success',
    values: { log: ['plan', 'work 0', 'work 1 = a', 'work 2', 'work 3 = c', 'join'] },
  });
  expect(entered.slice(5)).toEqual(['work 1']);
});

test('a thread is found in Temporal by its id, its graph and its tenant', async () => {
  const shown = await eventually(async () => {
    const { thread_id } = await at.client.run({ graph: 'line', input: { log: [] } });
    const handle = at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread_id));
    const { typedSearchAttributes: found, staticSummary } = await handle.describe();
    const value = (name: string) => found.get(defineSearchAttributeKey(name, SearchAttributeType.KEYWORD));
    if (value('PerdureThread') === undefined) return undefined;
    return {
      thread_id,
      of: ['PerdureThread', 'PerdureGraph', 'PerdureTenant'].map(value),
      summary: await staticSummary(),
    };
  }, 60_000);
  expect(shown.of).toEqual([shown.thread_id, 'line', 'default']);
  expect(shown.summary).toBe(`line@1, thread ${shown.thread_id}`);
}, 70_000);
