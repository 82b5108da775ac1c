import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { inject } from 'vitest';
import { refundFlow } from '../../graphs/refund-flow/graph.ts';
import type { RefundKind } from '../../graphs/refund-flow/settings.ts';
import type { Ticket } from '../../graphs/refund-flow/ticket.ts';
import type { RunRequest, RunResult } from '../../src/contracts/runs.ts';
import { withShape } from '../../src/graph/load-graphs.ts';
import { GraphRegistry } from '../../src/graph/registry.ts';
import type { RecordedRun } from '../../src/threads/request-run.ts';
import { createLogger } from '../../src/telemetry/log.ts';
import { startThreadWorker, type ThreadWorker } from '../../workers/thread-worker.ts';
import { openInstallation, type Installation, type TestServers } from '../support/installation.ts';
import { workflowBundle } from '../support/workflow-bundle.ts';
import { startWorkerProcess, type TestProcess } from './processes.ts';
import { ofKind, type RefundOffice, type TicketBooks } from './refund-office.ts';

const graph = withShape(refundFlow);
/** Made once, however many scenes begin at a time. */
let bundle: ReturnType<typeof workflowBundle> | undefined;

/** One ticket in an installation of its own. */
export type Scene = {
  at: Installation;
  ticket: Ticket;
  run: RecordedRun;
  /** A worker process, killed at `fault` when one is given. */
  workerProcess(fault?: string): TestProcess;
  /** Whether a worker process was killed by its fault. */
  faultFired(): boolean;
  /** A worker of this process, without a fault. */
  worker(): Promise<ThreadWorker>;
  close(): Promise<void>;
};

export type SceneOptions = {
  /** Of the refund. Default `idempotent`. */
  kind?: RefundKind;
  /** Default: those of the test run. */
  servers?: TestServers;
  /** How the run is asked for. Default: by the installation's client. */
  start?: (at: Installation, request: RunRequest) => Promise<RecordedRun>;
};

export async function openScene(office: RefundOffice, options: SceneOptions = {}): Promise<Scene> {
  const { kind = 'idempotent', start = (on, request) => on.client.startRun(request) } = options;
  const servers = options.servers ?? {
    databaseUrl: inject('databaseUrl'),
    temporalAddress: inject('temporalAddress'),
  };
  const at = await openInstallation('faults', servers);
  const workers: ThreadWorker[] = [];
  const onceFile = join(office.folder, at.schema);
  try {
    const registry = new GraphRegistry();
    registry.add(graph);
    await registry.register(at.database, 'default');
    const ticket = await office.newTicket();
    const run = await start(at, { graph: 'refund-flow', input: { ticket }, config: ofKind(kind) });
    return {
      at,
      ticket,
      run,
      workerProcess: (fault) =>
        startWorkerProcess({
          ...servers,
          schema: at.schema,
          project: office.project,
          env: {
            PAYMENTS_URL: office.payments.url,
            ...(fault === undefined ? {} : { PERDURE_FAULT: fault, PERDURE_FAULT_ONCE_FILE: onceFile }),
          },
        }),
      faultFired: () => existsSync(onceFile),
      async worker() {
        const worker = await startRefundWorker(at.schema, servers);
        workers.push(worker);
        return worker;
      },
      async close() {
        await Promise.allSettled(workers.map((worker) => worker.stop()));
        await at.close();
      },
    };
  } catch (error) {
    await at.close();
    throw error;
  }
}

async function startRefundWorker(schema: string, servers: TestServers): Promise<ThreadWorker> {
  return startThreadWorker({
    databaseUrl: servers.databaseUrl,
    schema,
    tenant: 'default',
    temporal: { address: servers.temporalAddress, namespace: 'default', apiKey: undefined, tls: undefined },
    graphs: [graph],
    poolSize: 4,
    maxConcurrentSegments: 10,
    maxCachedWorkflows: 10,
    segmentBudgetMs: 600_000,
    logger: createLogger('error'),
    workflowBundle: await (bundle ??= workflowBundle()),
  });
}

export type Question = NonNullable<RunResult['interrupts']>[number];
/** Answers what a run asks, and tells the run that carries the answer. */
export type Reviewer = (question: Question, run: RunResult) => Promise<string>;

/** Says yes to the refund; a question about an operation fails the test. */
export const approving =
  ({ at }: Scene): Reviewer =>
  async (question, { thread_id }) => {
    if (question.kind !== 'interrupt') throw new Error(`a person was asked: ${JSON.stringify(question)}`);
    const answer = { approved: true, note: 'fine' };
    return (await at.client.answer(thread_id, answer, { interruptId: question.id, actor: 'user:reviewer' }))
      .run_id;
  };

/** Follows the ticket to its end, answering what is asked on the way. */
export async function followToTheEnd(scene: Scene, review: Reviewer): Promise<RunResult> {
  let result = await scene.at.client.waitForRun(scene.run.run_id);
  while (result.status === 'interrupted') {
    const [question] = result.interrupts ?? [];
    if (question === undefined) throw new Error(`a stop without a question: ${JSON.stringify(result)}`);
    result = await scene.at.client.waitForRun(await review(question, result));
  }
  return result;
}

/** What a worker that is killed after the ticket's end may take to end, in ms. */
const LATE_END_MS = 5_000;

/**
 * A worker process carries the ticket until the fault kills it; another worker carries it to its end.
 * @throws Error when the point was never reached, or the process ended in another way.
 */
export async function killedAt(scene: Scene, fault: string, review = approving(scene)): Promise<RunResult> {
  const armed = scene.workerProcess(fault);
  const end = followToTheEnd(scene, review);
  const tooLate = end.then(() => delay(LATE_END_MS, undefined, { ref: false }));
  tooLate.catch(() => undefined);
  try {
    const died = await Promise.race([armed.ended, tooLate]);
    if (died === undefined) throw new Error(`the ticket came to its end, and ${fault} was never reached`);
    if (died.signal !== 'SIGKILL' || !scene.faultFired())
      throw new Error(`the worker was not killed at ${fault}: ${JSON.stringify(died)}`);
  } finally {
    armed.kill('SIGKILL');
  }
  await scene.worker();
  return end;
}

/** All that is left of a ticket's life, in words that are the same for every ticket. */
export type Ending = {
  status: string;
  values: unknown;
  books: TicketBooks;
  thread: { status: string; pending_interrupts: number; unfinished_runs: number };
  supersteps: number[];
  runs: string[];
  operations: string[];
  answers: string[];
};

export async function endingOf(scene: Scene, office: RefundOffice, last: RunResult): Promise<Ending> {
  const { at, ticket, run } = scene;
  const { client } = at;
  const thread = await client.thread(run.thread_id);
  const history = await client.history(run.thread_id);
  const runs = await client.runs(run.thread_id);
  const operations = await client.operations({ threadId: run.thread_id });
  const interrupts = await client.interrupts({ thread_id: run.thread_id });
  const ending: Ending = {
    status: last.status,
    values: last.values,
    books: await office.books(ticket),
    thread: {
      status: thread.status,
      pending_interrupts: thread.pending_interrupts,
      unfinished_runs: thread.unfinished_runs,
    },
    supersteps: history.map((entry) => entry.superstep).toReversed(),
    runs: runs.map((each) => `${each.kind} ${each.status}`).sort(),
    operations: operations.map((each) => `${each.tool} ${each.status}`),
    answers: interrupts.map((each) => `${each.kind} ${each.status} by ${each.answered_by ?? 'nobody'}`),
  };
  const text = JSON.stringify(ending)
    .replaceAll(ticket.order_id ?? '', 'ORDER')
    .replaceAll(run.thread_id, 'THREAD');
  return JSON.parse(text) as Ending;
}
