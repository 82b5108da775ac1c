import type { Database } from '../postgres/database.ts';

export type WorkerRecord = {
  worker_id: string;
  host: string;
  pid: number;
  serves: { graph: string; version: string; task_queue: string }[];
};

/** Writes or renews the worker's sign of life, and forgets workers that gave none for a day. */
export async function reportWorker(database: Database, tenant: string, worker: WorkerRecord): Promise<void> {
  await database.query(
    `WITH old AS (DELETE FROM ${database.table('workers')} WHERE seen_at < now() - interval '1 day')
     INSERT INTO ${database.table('workers')} (tenant_id, worker_id, host, pid, graph, version, task_queue)
     SELECT $1, $2, $3, $4, s.graph, s.version, s.task_queue
     FROM json_to_recordset($5::json) AS s(graph text, version text, task_queue text)
     ON CONFLICT (tenant_id, worker_id, graph, version) DO UPDATE SET seen_at = now()`,
    [tenant, worker.worker_id, worker.host, worker.pid, JSON.stringify(worker.serves)],
  );
}

export async function forgetWorker(database: Database, tenant: string, workerId: string): Promise<void> {
  await database.query(`DELETE FROM ${database.table('workers')} WHERE tenant_id = $1 AND worker_id = $2`, [
    tenant,
    workerId,
  ]);
}
