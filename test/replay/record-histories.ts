// Lives every life of lives.ts against real servers and keeps its history under this release:
// npm run record-histories. Not part of the test run.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openInstallation, type Installation } from '../support/installation.ts';
import { thisRelease, writeHistory } from './history-files.ts';
import { LIVES, served } from './lives.ts';

let at: Installation;
beforeAll(async () => {
  at = await openInstallation('replay');
  await at.startWorker(served);
});
afterAll(() => at.close());

test.each(Object.entries(LIVES))('%s', { timeout: 180_000 }, async (name, live) => {
  const { workflowId, runId } = await live(at);
  const handle = at.temporal.workflow.getHandle(workflowId, runId);
  const history = await handle.fetchHistory();
  expect(history.events?.length).toBeGreaterThan(3);
  writeHistory(thisRelease(), name, history);
});
