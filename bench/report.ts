/** One line of a benchmark: us, a peer in the same run, and the ratio `ours / peer`. */
export type BenchRow = { case: string; ours: number; peer: number; ratio: number };

/** What `npm run bench -- NAME --json` prints. */
export type BenchReport = {
  name: string;
  /** The unit of `ours` and `peer`, or "see case" where rows differ. */
  unit: string;
  /** How often each case was measured; figures are medians over these. */
  runs: number;
  rows: BenchRow[];
  /** What a reader has to know, a sentence each. */
  notes?: string[];
};

export function row(name: string, ours: number, peer: number): BenchRow {
  return { case: name, ours: round(ours), peer: round(peer), ratio: round(ours / peer) };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted[sorted.length >> 1];
  if (middle === undefined) throw new Error('the median of nothing');
  return sorted.length % 2 === 1 ? middle : (middle + (sorted[(sorted.length >> 1) - 1] ?? middle)) / 2;
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

export function printReport(report: BenchReport, write: (line: string) => void): void {
  const width = Math.max(...report.rows.map((entry) => entry.case.length), 4);
  write(`${report.name}: medians of ${report.runs} runs, ${report.unit}`);
  write(
    `${'case'.padEnd(width)}  ${'ours'.padStart(10)}  ${'peer'.padStart(10)}  ${'ours/peer'.padStart(10)}`,
  );
  for (const entry of report.rows)
    write(
      `${entry.case.padEnd(width)}  ${String(entry.ours).padStart(10)}  ${String(entry.peer).padStart(10)}  ${String(entry.ratio).padStart(10)}`,
    );
  for (const note of report.notes ?? []) write(`- ${note}`);
}
