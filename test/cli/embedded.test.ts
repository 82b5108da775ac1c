import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { removeHome } from '../../src/dev/index.ts';
import { isRunning, makeProject } from './perdure.ts';

function workersOf(up: Record<string, unknown>): { pid: number; started: string }[] {
  return up['workers'] as { pid: number; started: string }[];
}

// The folder of a made-up project has spaces in its name.
test(
  'up, run, down, up, resume with servers of its own; nothing is left after down',
  { timeout: 300_000 },
  async () => {
    const project = makeProject('with own servers', 'own');
    try {
      const up = await project.perdure(['up', '--json']);
      expect({ status: up.status, said: up.stdout + up.stderr }).toEqual({
        status: 0,
        said: expect.any(String),
      });
      const { postgres, temporal } = up.json as Record<string, { pid: number; started: string }>;
      const [worker] = workersOf(up.json);
      expect([postgres?.started, temporal?.started, worker?.started]).toEqual(['now', 'now', 'now']);
      const pids = [postgres, temporal, worker].map((server) => server?.pid ?? 0);

      const again = await project.perdure(['up', '--json']);
      expect(again.json).toMatchObject({
        postgres: { started: 'already' },
        temporal: { started: 'already' },
        workers: [{ pid: worker?.pid, started: 'already' }],
      });
      const two = workersOf((await project.perdure(['up', '--workers', '2', '--json'])).json);
      expect(two.map(({ started }) => started)).toEqual(['already', 'now']);
      expect(two[0]?.pid).toBe(worker?.pid);
      // Without a number, as many as there are.
      expect(workersOf((await project.perdure(['up', '--json'])).json)).toHaveLength(2);
      const one = workersOf((await project.perdure(['up', '--workers', '1', '--json'])).json);
      expect(one).toMatchObject([{ pid: worker?.pid, started: 'already' }]);
      expect(await isRunning(two[1]?.pid ?? 0)).toBe(false);

      const asked = await project.perdure([
        'run',
        'ask',
        '--input',
        '{"name":"Mira"}',
        '--thread',
        'mira',
        '--json',
      ]);
      expect({ status: asked.status, json: asked.json }).toMatchObject({
        status: 3,
        json: { status: 'interrupted' },
      });
      const [{ id } = { id: '' }] = asked.json['interrupts'] as { id: string }[];

      const down = await project.perdure(['down', '--json']);
      expect(down.status).toBe(0);
      expect(
        (down.json['stopped'] as { name: string; pid: number }[]).map(({ name, pid }) => [name, pid]),
      ).toEqual([
        ['worker', worker?.pid],
        ['temporal', temporal?.pid],
        ['postgres', postgres?.pid],
      ]);
      expect(await Promise.all(pids.map(isRunning))).toEqual([false, false, false]);
      expect(processesOf(project.folder)).toEqual([]);
      const looked = await project.perdure(['approvals']);
      expect({ status: looked.status, stderr: looked.stderr }).toMatchObject({
        status: 1,
        stderr: expect.stringContaining('perdure up'),
      });
      expect((await project.perdure(['down', '--json'])).json['stopped']).toEqual([]);

      // Started by nothing but the answer.
      const done = await project.perdure(['resume', 'mira', '--interrupt', id, '--value', '"yes"', '--json']);
      expect({ status: done.status, json: done.json }).toMatchObject({
        status: 0,
        json: { status: 'success', values: { name: 'Mira', answer: 'yes' } },
      });
    } finally {
      await project.perdure(['down']);
      await removeHome({ home: join(project.folder, '.perdure') });
      await project.remove();
    }
    expect(processesOf(project.folder)).toEqual([]);
    expect(existsSync(project.folder)).toBe(false);
  },
);

/** Living processes whose command line or working directory names the folder. Linux only; elsewhere the pids tell. */
function processesOf(folder: string): string[] {
  if (!existsSync('/proc/self/cmdline')) return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    })
    .filter((line) => line.includes(folder));
}
