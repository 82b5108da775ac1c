// npm run bench -- NAME [--json] [--turns N]: runs one benchmark on embedded servers of its own.
import { parseArgs } from 'node:util';
import { startBenchServers, type BenchServers } from './bench-servers.ts';
import { printReport, type BenchReport } from './report.ts';

type Benchmark = (
  servers: BenchServers,
  progress: (line: string) => void,
  options: { turns?: number },
) => Promise<BenchReport>;

const BENCHMARKS: Record<string, { about: string; load: () => Promise<{ run: Benchmark }> }> = {
  chain: {
    about: 'cost of a superstep and of a run, against bare LangGraph',
    load: () => import('./chain.ts'),
  },
  chat: {
    about: 'a conversation of 1,000 turns (or --turns N): bytes and time per turn as it grows',
    load: () => import('./chat.ts'),
  },
  parked: {
    about: 'memory of a worker while 10,000 threads wait for a person',
    load: () => import('./parked.ts'),
  },
  tasks: {
    about: 'what a tool call as an activity of its own costs',
    load: () => import('./tasks.ts'),
  },
  resume: {
    about: 'how soon a thread goes on after the end of its worker',
    load: () => import('./resume.ts'),
  },
};

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean' }, turns: { type: 'string' }, help: { type: 'boolean' } },
  allowPositionals: true,
});
const chosen = BENCHMARKS[positionals[0] ?? ''];
if (!chosen || values.help) {
  process.stderr.write('usage: npm run bench -- NAME [--json] [--turns N]\n');
  for (const [name, { about }] of Object.entries(BENCHMARKS))
    process.stderr.write(`  ${name.padEnd(8)} ${about}\n`);
  process.exit(chosen ? 0 : 2);
}
const progress = (line: string) => process.stderr.write(`${line}\n`);
const servers = await startBenchServers(progress);
try {
  const { run } = await chosen.load();
  const report = await run(
    servers,
    progress,
    values.turns === undefined ? {} : { turns: Number(values.turns) },
  );
  if (values.json) process.stdout.write(`${JSON.stringify(report)}\n`);
  else printReport(report, (line) => process.stdout.write(`${line}\n`));
} finally {
  await servers.close();
}
