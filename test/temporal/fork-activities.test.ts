import { tool } from '@langchain/core/tools';
import { createAgent } from 'langchain';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { ForkOptions } from '../../src/client/branch-options.ts';
import { EFFECTS_MODES, type RunResult } from '../../src/contracts/runs.ts';
import { ScriptedModel, type PlannedCall } from '../operations/scripted-model.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { taskActivities } from '../support/task-activities.ts';

/** What the model plans to pay: another sum is what a model that plans anew may come to. */
let amount = 20;
const paid: string[] = [];
const pay = tool(
  (args) => {
    paid.push(`${args.to} ${args.amount}`);
    return `paid ${args.to} ${args.amount}`;
  },
  { name: 'pay', description: 'pays', schema: z.object({ to: z.string(), amount: z.number() }) },
);
const call = (to: string): PlannedCall => ({
  name: 'pay',
  id: `call-${to}`,
  get args() {
    return { to, amount };
  },
});
const agent = createAgent({ model: new ScriptedModel([[call('a'), call('b')], [call('c')]]), tools: [pay] });

let at: Installation;
let first: RunResult;
const ALL = ['a 20', 'b 20', 'c 20'];
const DONE = `done: ${ALL.map((each) => `paid ${each}`).join(', ')}`;
beforeAll(async () => {
  at = await openInstallation('fork-activities');
  await at.startWorker({ agent });
});
afterAll(() => at.close());
beforeEach(async () => {
  amount = 20;
  paid.length = 0;
  first = await at.client.run({ graph: 'agent', input: { messages: [{ role: 'user', content: 'go' }] } });
  expect(lastOf(first)).toBe(DONE);
  expect(paid.toSorted()).toEqual(ALL);
});

function lastOf(run: RunResult): unknown {
  const { messages } = run.values as { messages: { kwargs?: { content?: unknown }; content?: unknown }[] };
  const last = messages.at(-1);
  return last?.content ?? last?.kwargs?.content;
}
/** Checkpoints that are followed by these nodes, the oldest first. */
const points = async (): Promise<[string, string][]> =>
  (await at.client.history(first.thread_id))
    .toReversed()
    .map((entry) => [entry.pending_tasks.join(), entry.checkpoint_id]);
async function fork(options: ForkOptions): Promise<RunResult> {
  return at.client.waitForRun((await at.client.fork(first.thread_id, options)).run_id);
}

test.each(EFFECTS_MODES)(
  '%s: a replay from before, at and after tool calls pays nothing again',
  async (effects) => {
    const all = await points();
    expect(all.map(([next]) => next)).toEqual([
      '__start__',
      'model_request',
      'tools,tools',
      'model_request',
      'tools',
      'model_request',
      '',
    ]);
    for (const [, checkpointId] of [...all.slice(3, -1), ...all.slice(0, 3)])
      expect(lastOf(await fork({ checkpointId, effects }))).toBe(DONE);
    expect(paid.toSorted()).toEqual(ALL);
    // They ran as activities all the same.
    const ran = await taskActivities(at, first.thread_id);
    expect(ran.slice(-3).map(({ name }) => name)).toEqual(['runTask', 'runTask', 'runTask']);
  },
);

describe('where the model plans other arguments', () => {
  const planned = async () => (await points()).find(([next]) => next === 'model_request')?.[1] ?? '';

  test('recorded: each call asks first, and what nobody allowed is not paid', async () => {
    const checkpointId = await planned();
    amount = 30;
    const held = await fork({ checkpointId });
    expect(held).toMatchObject({
      status: 'interrupted',
      interrupts: [
        { kind: 'operation', value: { type: 'operation_new', args: { to: 'a', amount: 30 } } },
        { kind: 'operation', value: { type: 'operation_new', args: { to: 'b', amount: 30 } } },
      ],
    });
    expect(paid).toHaveLength(3);
    // A copy asks the same, and its answers are its own.
    const copy = await at.client.copyThread(first.thread_id);
    const [one, two] = await at.client.interrupts({ thread_id: copy.thread_id, status: 'pending' });
    await at.client.answer(copy.thread_id, { happened: 'paid by hand' }, { interruptId: one?.id });
    const { run_id } = await at.client.answer(copy.thread_id, { retry: true }, { interruptId: two?.id });
    expect(await at.client.waitForRun(run_id)).toMatchObject({
      status: 'interrupted',
      interrupts: [{ value: { args: { to: 'c', amount: 30 } } }],
    });
    expect(paid.slice(3)).toEqual(['b 30']);
    expect(await at.client.interrupts({ thread_id: first.thread_id, status: 'pending' })).toHaveLength(2);
  });

  test('live: they are paid once', async () => {
    const checkpointId = await planned();
    amount = 30;
    for (const _ of [1, 2])
      expect(lastOf(await fork({ checkpointId, effects: 'live' }))).toBe(DONE.replaceAll('20', '30'));
    expect(paid.slice(3).toSorted()).toEqual(['a 30', 'b 30', 'c 30']);
  });

  test('dry: nothing is paid', async () => {
    const checkpointId = await planned();
    amount = 30;
    const dry = await fork({ checkpointId, effects: 'dry' });
    expect(JSON.stringify(dry)).toContain('simulat');
    expect(paid).toHaveLength(3);
  });
});

test('a copy of an agent takes over what its calls have done, wherever it begins', async () => {
  for (const [next, checkpointId] of (await points()).filter(([name]) => name.startsWith('tools'))) {
    const { thread_id } = await at.client.copyThread(first.thread_id, { checkpointId });
    expect(await at.client.thread(thread_id)).toMatchObject({ status: 'interrupted' });
    const run = await at.client.continueThread(thread_id);
    expect(lastOf(await at.client.waitForRun(run.run_id))).toBe(DONE);
    expect(await taskActivities(at, thread_id)).toHaveLength(next === 'tools' ? 1 : 3);
  }
  expect(paid).toHaveLength(3);
});
