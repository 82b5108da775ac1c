import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorOf, makeProject, type TestProject } from './perdure.ts';

const LIMIT = 120_000;

let project: TestProject;
beforeAll(() => {
  project = makeProject('schedule');
});
afterAll(() => project.remove(), LIMIT);

const create = (...more: string[]) =>
  project.perdure(['schedule', 'create', 'nightly', '--graph', 'ask', '--cron', ...more]);

test(
  'a schedule is made, shown, paused and deleted; a slip is told and makes none',
  async () => {
    const made = await create(
      '30 2 * * *',
      '--timezone',
      'America/New_York',
      '--input',
      '{"name":"Mira"}',
      '--json',
    );
    expect(made).toMatchObject({ status: 0, json: { name: 'nightly', overlap: 'skip', paused: false } });
    const again = await create('@daily', '--json');
    expect({ status: again.status, code: errorOf(again).code }).toEqual({ status: 2, code: 'INPUT_INVALID' });
    const wrong = await create('often', '--json');
    expect({ status: wrong.status, code: errorOf(wrong).code }).toEqual({ status: 2, code: 'INPUT_INVALID' });
    const paused = await project.perdure(['schedule', 'pause', 'nightly']);
    expect(paused).toMatchObject({ status: 0, stdout: expect.stringContaining('paused: nightly') as string });
    const { stdout } = await project.perdure(['schedules']);
    expect(stdout).toMatch(/nightly +ask +30 2 \* \* \* +America\/New_York .*paused/);
    expect((await project.perdure(['schedule', 'delete', 'nightly'])).status).toBe(0);
    expect((await project.perdure(['schedules'])).stdout).toContain('no schedules');
    const gone = await project.perdure(['schedule', 'trigger', 'nightly', '--json']);
    expect({ status: gone.status, code: errorOf(gone).code }).toEqual({
      status: 1,
      code: 'SCHEDULE_UNKNOWN',
    });
  },
  LIMIT,
);
