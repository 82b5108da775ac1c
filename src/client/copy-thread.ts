import { randomUUID } from 'node:crypto';
import { copyCheckpoints, forgetQuestions } from '../checkpoint/copy-checkpoints.ts';
import { InvalidInputError } from '../contracts/errors.ts';
import { branchId, checkpointThreadId } from '../contracts/ids.ts';
import { NEW_EFFECT_QUESTION_PREFIX } from '../contracts/operations.ts';
import { copyRequest, type CopyRequest } from '../contracts/runs.ts';
import { newEffectQuestionId } from '../operations/ask-person.ts';
import type { Database } from '../postgres/database.ts';
import { copyQuestions, insertCopy, readCopySource, renameQuestion } from '../threads/copy.ts';

/** The copy, which nothing runs on yet. */
export type CopiedThread = {
  thread_id: string;
  /** A run that stands for the copying: it has ended as the one that brought the original to where it stands. */
  run_id: string;
  graph: string;
  version: string;
  copied_from: string;
  copied_at: string;
};

/**
 * Copies a thread, in one transaction that sees one moment and locks nothing of the original.
 * @throws InvalidInputError | UnknownThreadError | ThreadDeletedError | ThreadBusyError | ThreadExistsError | UnknownCheckpointError | PrunedCheckpointError | VersionMismatchError
 */
export async function copyThread(
  database: Database,
  tenant: string,
  threadId: string,
  request: CopyRequest = {},
): Promise<CopiedThread> {
  const parsed = copyRequest.safeParse(request);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new InvalidInputError(`${issue?.path.join('.') || 'request'}: ${issue?.message ?? 'is invalid'}`);
  }
  const { checkpoint_id: at, as, effects, actor } = parsed.data;
  const runId = randomUUID();
  const copyId = as ?? randomUUID();
  const copy = { threadId: copyId, checkpointThreadId: checkpointThreadId(tenant, copyId), runId };
  return database.transaction(async (client) => {
    await client.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ');
    const source = await readCopySource(client, database, tenant, threadId, at);
    await insertCopy(client, database, tenant, source, {
      ...copy,
      effects: effects ?? 'recorded',
      actor: actor ?? 'user:unknown',
    });
    await copyCheckpoints(client, database, {
      from: source.checkpoint_thread_id,
      to: copy.checkpointThreadId,
      checkpointId: source.checkpoint_id,
      withWrites: source.standing !== undefined,
    });
    if (source.standing !== undefined) {
      const asked = await copyQuestions(client, database, tenant, source, copy, NEW_EFFECT_QUESTION_PREFIX);
      // Their ids are of the branch: the copy's asks under others, and has to find its answers.
      await forgetQuestions(client, database, copy.checkpointThreadId, asked);
      for (const { interrupt_id: from, operation_id, args_hash } of asked) {
        const to = newEffectQuestionId(operation_id, branchId(runId), args_hash);
        await renameQuestion(client, database, tenant, copyId, { from, to });
      }
    }
    const { graph, version, checkpoint_id: copiedAt } = source;
    return {
      thread_id: copyId,
      run_id: runId,
      graph,
      version,
      copied_from: threadId,
      copied_at: copiedAt,
    };
  });
}
