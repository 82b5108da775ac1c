import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { expect, test } from 'vitest';
import { quietTemporal } from '../support/installation.ts';
import { workflowBundle } from '../support/workflow-bundle.ts';
import { asHistory, historyFiles, readHistory, thisRelease, type RecordedHistory } from './history-files.ts';
import { LIVES } from './lives.ts';

quietTemporal();
const files = historyFiles();

/** As thread-worker.ts sets it: a machine that has too much to do is no fault of the workflow. */
const PATIENCE: object = { isolateExecutionTimeout: '10 minutes' };

async function replay(history: RecordedHistory): Promise<void> {
  await Worker.runReplayHistory({ workflowBundle: await workflowBundle(), ...PATIENCE }, asHistory(history));
}

test('this release has a history of every life', () => {
  const recorded = files.filter(({ release }) => release === thisRelease()).map(({ life }) => life);
  expect(recorded.sort()).toEqual(Object.keys(LIVES).sort());
});

test.each(files)('$release: $life goes on with the present code', async ({ file }) => {
  await expect(replay(readHistory(file))).resolves.toBeUndefined();
});

test('a history that the code could not have made is refused', async () => {
  const file = files.find(({ life }) => life === 'answered')?.file ?? '';
  const { events } = readHistory(file);
  const other = JSON.parse(
    JSON.stringify(events).replaceAll('"advanceThread"', '"advanceAnother"'),
  ) as RecordedHistory['events'];
  await expect(replay({ events: other })).rejects.toBeInstanceOf(DeterminismViolationError);
});
