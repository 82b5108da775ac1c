import { graphRef } from '../contracts/ids.ts';
import type { LoadedGraph } from '../graph/load-graphs.ts';
import type { ServedGraph } from '../threads/graph-versions.ts';
import type { Problem } from './doctor-checks.ts';

/** Versions that threads wait for and no worker serves. */
export function missingVersions(served: ServedGraph[], loaded: LoadedGraph[]): Problem[] {
  return served
    .filter(({ threads, workers }) => threads > 0 && workers === 0)
    .map((one) => {
      const { graph, version, threads, busy, waiting } = one;
      const own = loaded.some((here) => here.name === graph && here.version === version);
      const newer = newest(served, one);
      const move =
        newer === undefined
          ? ''
          : ` Or move them: 'perdure threads migrate --graph ${graph} --from ${version} --to ${newer.version} --dry-run' shows which can go.`;
      return {
        code: 'VERSION_NOT_SERVED',
        message:
          `${threads} thread${threads === 1 ? ' is' : 's are'} under way or waiting under ${graphRef(graph, version)} ` +
          `(${busy} with a run to do, ${waiting} waiting), which no worker serves. ` +
          (own ? "'perdure up' starts a worker for it." : 'Start a worker from the code of that version.') +
          move,
      };
    });
}

/** Older versions whose workers have nothing left to do. */
export function drainedVersions(served: ServedGraph[]): Problem[] {
  return served
    .filter((one) => one.workers > 0 && one.threads === 0 && newest(served, one) !== undefined)
    .map(({ graph, version, workers, idle, failed }) => {
      const left = idle + failed;
      return {
        code: 'VERSION_DRAINED',
        message:
          `No thread is under way or waiting under ${graphRef(graph, version)} any more: its ${workers === 1 ? 'worker' : `${workers} workers`} may be switched off.` +
          (left === 0
            ? ''
            : ` ${left} ended thread${left === 1 ? ' stays' : 's stay'} under it, and would need it for new input unless migrated.`),
      };
    });
}

/** The graph's newest version, if that is another one. */
function newest(served: ServedGraph[], { graph, version }: ServedGraph): ServedGraph | undefined {
  const last = served.findLast((one) => one.graph === graph);
  return last?.version === version ? undefined : last;
}
