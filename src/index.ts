export { defineGraph, type DefineGraphOptions, type GraphDefinition } from './graph/define-graph.ts';
export { durableTool, type DurableToolOptions } from './operations/durable-tool.ts';
export { durableTools, type DurableToolsOptions } from './operations/durable-tools.ts';
export { operation, type OperationOptions } from './operations/operation.ts';
export { currentOperation } from './operations/current-operation.ts';
export { operationFetch } from './operations/operation-fetch.ts';
export { NotExecutedError } from './operations/proof.ts';
export { isPerdureError, NonRetryableError, PerdureError, RetryableError } from './contracts/errors.ts';
export type { EffectKind } from './contracts/operations.ts';
