import { isToolCall, type ToolRunnableConfig } from './tool-call.ts';
import type { EffectKind } from '../contracts/operations.ts';
import { currentSlot, currentTaskSignal } from './current-slot.ts';
import { execute, type Lookup, type Simulate } from './ledger.ts';
import { checkOutside, type Outside } from './outside.ts';
import { currentRunContext } from './run-context.ts';
import { isInputRefusal, parseToolInput, type ToolWithSchema } from './tool-input.ts';
import { toolResult } from './tool-results.ts';

/** The part of a LangChain tool that an operation is made of. */
export type InvokableTool = ToolWithSchema & {
  name: string;
  responseFormat?: string;
  invoke(input: never, config?: never): Promise<unknown>;
};

export type ToolOperationOptions = {
  kind: EffectKind;
  /** Names what is done, from the input as the schema gives it: `(input) => `refund:${input.order}``. */
  businessKey?: ((input: never) => string | undefined) | undefined;
  lookup?: Lookup | undefined;
  simulate?: Simulate | undefined;
  lease?: number | undefined;
  outside?: Outside | undefined;
  /** Whether the tool comes back on an abort while its function still works, as those made by `tool()` do. */
  mayOutliveAbort: boolean;
};

const durable = Symbol.for('perdure.durable-tool');

/** Whether the tool is an operation already. */
export function isDurableTool(tool: object): boolean {
  return durable in tool;
}

/**
 * The same tool, except that each call of it is an operation. Everything else about it (name, schema, response
 * format, metadata, class) is the tool's own.
 */
export function toolAsOperation<T extends InvokableTool>(tool: T, options: ToolOperationOptions): T {
  return withInvoke(tool, (input, config) => invokeOnce(tool, options, input, config));
}

/** The same tool with another `invoke`, marked as durable. */
export function withInvoke<T extends InvokableTool>(
  tool: T,
  invoke: (input: unknown, config?: ToolRunnableConfig) => Promise<unknown>,
): T {
  return new Proxy(tool, {
    get: (target, property) =>
      property === 'invoke' || property === 'call'
        ? invoke
        : (Reflect.get(target, property, target) as unknown),
    has: (target, property) => property === durable || Reflect.has(target, property),
  });
}

async function invokeOnce(
  tool: InvokableTool,
  options: ToolOperationOptions,
  input: unknown,
  config: ToolRunnableConfig | undefined,
): Promise<unknown> {
  const invoke = (signal?: AbortSignal): Promise<unknown> =>
    tool.invoke(input as never, (signal === undefined ? config : { ...config, signal }) as never);
  const run = currentRunContext();
  if (run === undefined) {
    checkOutside(tool.name, options.outside);
    return invoke();
  }
  const toolCallId = isToolCall(input) ? input.id : config?.toolCall?.id;
  const given = isToolCall(input) ? input.args : input;
  const args = await parseToolInput(tool, given);
  const businessKey = options.businessKey?.(args as never);
  const slot = currentSlot(run, { tool: tool.name, toolCallId, businessKey });
  const result = await execute<unknown>(run, {
    ...slot,
    kind: options.kind,
    tool: tool.name,
    args,
    toolCallId,
    businessKey,
    lookup: options.lookup,
    simulate: options.simulate,
    run: (call) => invoke(call.signal),
    signal: config?.signal ?? currentTaskSignal(),
    leaseMs: options.lease,
    mayOutliveAbort: options.mayOutliveAbort,
    provesNothing: (error) => isInputRefusal(error, given),
  });
  return toolResult(result, {
    toolName: tool.name,
    responseFormat: tool.responseFormat,
    toolCallId,
    shared: businessKey !== undefined,
  });
}
