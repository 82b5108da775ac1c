import { DynamicStructuredTool, type ToolRunnableConfig } from '@langchain/core/tools';
import type { InteropZodType, InferInteropZodOutput } from '@langchain/core/utils/types';
import type { EffectKind } from '../contracts/operations.ts';
import { currentOperation, type OperationCall } from './current-operation.ts';
import type { Lookup } from './ledger.ts';
import { checkKind } from './operation.ts';
import { outsideCall, type Outside } from './outside.ts';
import { toolAsOperation, type InvokableTool } from './tool-as-operation.ts';

export type DurableToolOptions<Input> = {
  /** What may be done when it is not known whether the effect happened. */
  kind: EffectKind;
  /**
   * Names what is done, from the input as the schema gives it, such as `refund:order-1042`: a call planned again
   * under a new tool-call id, or on another thread, is then the same operation. Undefined: the call's place names it.
   */
  businessKey?: ((input: Input) => string | undefined) | undefined;
  /** For the kind `reconcilable`: asks the far side. `result` is what the tool's function would have returned. */
  lookup?: Lookup | undefined;
  /** For forks in which nothing may happen outside: gives, for an input, what the tool's function would have returned. */
  simulate?: ((input: Input) => unknown) | undefined;
  /** How long a silent worker is believed to be at work, in ms. Default 5,000. */
  lease?: number | undefined;
  /** What to do outside of a perdure run. Default `throw`. */
  outside?: Outside | undefined;
};

export type DurableToolFields<Schema extends InteropZodType> = DurableToolOptions<
  InferInteropZodOutput<Schema>
> & {
  name: string;
  description: string;
  schema: Schema;
  /** As in LangChain's `tool()`: `content_and_artifact` when the function returns such a pair. Default `content`. */
  responseFormat?: 'content' | 'content_and_artifact' | undefined;
  /** Whether an agent stops after this tool. Default false. */
  returnDirect?: boolean | undefined;
  metadata?: Record<string, unknown> | undefined;
};

/** The input of a tool's function. */
type InputOf<T extends InvokableTool> = T extends { schema: infer S }
  ? S extends InteropZodType
    ? InferInteropZodOutput<S>
    : Record<string, unknown>
  : never;

/**
 * Makes each call of a tool an operation, so that no retry or resume repeats its effect. Takes any LangChain tool and
 * gives back the same one, made durable; or makes one of an async function, which then gets the operation's id:
 *
 * ```ts
 * const refund = durableTool(
 *   { name: 'refund', description: 'Pay money back.', schema, kind: 'idempotent', businessKey: (input) => `refund:${input.order}` },
 *   async (input, call) => (await call.fetch(url, { method: 'POST', body: JSON.stringify(input) })).text(),
 * );
 * ```
 * An agent whose tools are durable but which lacks the `durableTools()` middleware gives the errors of a tool to
 * the model, as LangChain does; with it they end the attempt, and the retry finds out what happened.
 */
export function durableTool<T extends InvokableTool>(tool: T, options: DurableToolOptions<InputOf<T>>): T;
export function durableTool<Schema extends InteropZodType>(
  fields: DurableToolFields<Schema>,
  fn: (
    input: InferInteropZodOutput<Schema>,
    call: OperationCall,
    config: ToolRunnableConfig | undefined,
  ) => unknown,
): DynamicStructuredTool<Schema>;
export function durableTool<Schema extends InteropZodType>(
  first: InvokableTool | DurableToolFields<Schema>,
  second:
    | DurableToolOptions<never>
    | ((
        input: InferInteropZodOutput<Schema>,
        call: OperationCall,
        config: ToolRunnableConfig | undefined,
      ) => unknown),
): InvokableTool {
  if (typeof second === 'function') {
    const { kind, businessKey, lookup, simulate, lease, outside, ...fields } =
      first as DurableToolFields<Schema>;
    checkKind(fields.name, { kind, lookup });
    const made = new DynamicStructuredTool<Schema>({
      name: fields.name,
      description: fields.description,
      schema: fields.schema,
      responseFormat: fields.responseFormat ?? 'content',
      returnDirect: fields.returnDirect ?? false,
      ...(fields.metadata === undefined ? {} : { metadata: fields.metadata }),
      func: async (input, _manager, config) =>
        second(input as InferInteropZodOutput<Schema>, currentOperation() ?? outsideCall(), config),
    });
    return toolAsOperation(made, {
      kind,
      businessKey,
      lookup,
      simulate,
      lease,
      outside,
      mayOutliveAbort: false,
    });
  }
  const tool = first as InvokableTool;
  checkKind(tool.name, second);
  return toolAsOperation(tool, { ...second, mayOutliveAbort: true });
}
