export { PerdureClient, type AnswerOptions } from './client.ts';
export { connect, type ConnectOptions } from './connect.ts';
export { artifacts, type ArtifactPlace } from './artifacts.ts';
export type { ArtifactKey, Artifacts, Verification } from '../artifacts/artifacts.ts';
export type { Collected, CollectOptions } from '../artifacts/collect.ts';
export type { PutOptions } from '../artifacts/put.ts';
export type { ArtifactContent } from '../artifacts/streams.ts';
export { artifactReference, type ArtifactReference, type ArtifactView } from '../contracts/artifacts.ts';
export { responseTo, type Decision } from '../contracts/approvals.ts';
export type { TemporalServer } from '../config/config.ts';
export type { CopyOptions, ForkOptions } from './branch-options.ts';
export type { CopiedThread } from './copy-thread.ts';
export type { CheckpointDiff, ValueChange } from './diff.ts';
export type { MigrateOptions } from './migrate.ts';
export type { ThreadMigration, MigrationOutcome } from '../contracts/migrate-workflow.ts';
export type { PruneOptions } from './prune.ts';
export type { ThreadPruning } from '../contracts/pruning.ts';
export type { HistoryEntry } from './history.ts';
export type {
  RunRequest,
  RunResult,
  RunView,
  RunStatus,
  InterruptView,
  ThreadView,
} from '../contracts/runs.ts';
export type { OperationView, OperationResolution } from '../contracts/operations.ts';
export type { JsonValue } from '../contracts/json.ts';
export { PerdureError, isPerdureError } from '../contracts/errors.ts';
