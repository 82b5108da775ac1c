import { createMiddleware, ToolMessage, type AgentMiddleware } from 'langchain';
import { isCommand } from '@langchain/langgraph';
import type { EffectKind } from '../contracts/operations.ts';
import { PerdureError } from '../contracts/errors.ts';
import { isControlFlow } from './control-flow.ts';
import { uncovered } from './covered-tool.ts';
import { currentSlot, currentTaskSignal } from './current-slot.ts';
import { declaredKind } from './declared-kind.ts';
import { part } from './part.ts';
import { execute, type Lookup, type Simulate } from './ledger.ts';
import { checkKind } from './operation.ts';
import { checkOutside, type Outside } from './outside.ts';
import { currentRunContext } from './run-context.ts';
import { isDurableTool, toolAsOperation, withInvoke, type InvokableTool } from './tool-as-operation.ts';
import { toolResult } from './tool-results.ts';

export type DurableToolsOptions = {
  /**
   * What may be done when it is not known whether a tool's effect happened, by the tool's name. A tool that is not
   * named here says it itself, by `metadata.perdure.kind` or MCP's annotations; one that says nothing is `exclusive`.
   */
  kinds?: Readonly<Record<string, EffectKind>> | undefined;
  /** Names what a call does, by the tool's name, from the call's arguments as the tool's schema gives them. */
  businessKeys?: Readonly<Record<string, (input: Record<string, unknown>) => string | undefined>> | undefined;
  /** For tools of the kind `reconcilable`, by name. */
  lookups?: Readonly<Record<string, Lookup>> | undefined;
  /** By the tool's name, for forks in which nothing may happen outside: what the tool would have returned for an input. */
  simulations?: Readonly<Record<string, (input: Record<string, unknown>) => unknown>> | undefined;
  /** How long a silent worker is believed to be at work, in ms. Default 5,000. */
  lease?: number | undefined;
  /** What to do outside of a perdure run. Default `throw`. */
  outside?: Outside | undefined;
};

/**
 * LangChain middleware that makes every tool call of an agent an operation. Tools that are durable by themselves
 * stay as they are. Put it **first** in the agent's list:
 *
 * - It is the tool itself that becomes the operation, so that whatever stands behind it (a retry) can't repeat an
 *   effect either.
 * - A pause that a tool or the ledger asks for goes through, also where a middleware behind it takes the pause for
 *   an error, as LangChain's `toolRetryMiddleware` does. One before it could still swallow the pause.
 *
 * A middleware that puts another tool in a known tool's place has to stand before it.
 */
export function durableTools(options: DurableToolsOptions = {}): AgentMiddleware {
  for (const [name, kind] of Object.entries(options.kinds ?? {}))
    checkKind(name, { kind, lookup: options.lookups?.[name] });
  return createMiddleware({
    name: 'perdure',
    wrapToolCall: async (request, handler) => {
      const { toolCall } = request;
      const tool = uncovered(request.tool);
      const settings = (): Settings => settingsOf(toolCall.name, tool, options);
      if (!isInvokable(tool)) return handlerAsOperation(toolCall, settings(), () => handler(request));
      const durable = isDurableTool(tool)
        ? tool
        : toolAsOperation(tool, { ...settings(), mayOutliveAbort: true });
      const pause = new Pause();
      return pause.outlast(() => handler({ ...request, tool: pause.keepOf(durable) }));
    },
  });
}

/** A pause (or another signal of LangGraph) that left a tool, and that nothing on its way out may swallow. */
class Pause {
  #signal: { thrown: unknown } | undefined;

  /** The tool, which throws its first signal again instead of running again. */
  keepOf<T extends InvokableTool>(tool: T): T {
    return withInvoke(tool, async (input, config) => {
      if (this.#signal !== undefined) throw this.#signal.thrown;
      try {
        return await tool.invoke(input as never, config as never);
      } catch (error) {
        if (isControlFlow(error)) this.#signal = { thrown: error };
        throw error;
      }
    });
  }

  /** What `work` gives, or the signal that was thrown inside of it. */
  async outlast<T>(work: () => Promise<T> | T): Promise<T> {
    try {
      const result = await work();
      if (this.#signal === undefined) return result;
    } catch (error) {
      if (this.#signal === undefined) throw error;
    }
    throw this.#signal.thrown;
  }
}

type Settings = {
  kind: EffectKind;
  businessKey: ((input: Record<string, unknown>) => string | undefined) | undefined;
  lookup: Lookup | undefined;
  simulate: Simulate | undefined;
  lease: number | undefined;
  outside: Outside | undefined;
};

function settingsOf(name: string, tool: object | undefined, options: DurableToolsOptions): Settings {
  const settings = {
    kind: options.kinds?.[name] ?? declaredKind(name, tool) ?? 'exclusive',
    businessKey: options.businessKeys?.[name],
    lookup: options.lookups?.[name],
    simulate: options.simulations?.[name],
    lease: options.lease,
    outside: options.outside,
  };
  checkKind(name, settings);
  return settings;
}

function isInvokable<T>(tool: T): tool is T & InvokableTool {
  return typeof part(tool, 'invoke') === 'function';
}

/** For tools that another middleware provides: the rest of the chain is the operation. */
async function handlerAsOperation<T>(
  toolCall: { name: string; id?: string | undefined; args: Record<string, unknown> },
  settings: Settings,
  handler: () => Promise<T> | T,
): Promise<T> {
  const run = currentRunContext();
  if (run === undefined) {
    checkOutside(toolCall.name, settings.outside);
    return handler();
  }
  const businessKey = settings.businessKey?.(toolCall.args);
  const result = await execute<T>(run, {
    ...currentSlot(run, { tool: toolCall.name, toolCallId: toolCall.id, businessKey }),
    ...settings,
    tool: toolCall.name,
    args: toolCall.args,
    toolCallId: toolCall.id,
    businessKey,
    run: handler,
    signal: currentTaskSignal(),
    leaseMs: settings.lease,
    mayOutliveAbort: true,
  });
  const value = toolResult(result, {
    toolName: toolCall.name,
    responseFormat: undefined,
    toolCallId: toolCall.id ?? '',
    shared: businessKey !== undefined,
  });
  if (ToolMessage.isInstance(value) || isCommand(value)) return value as T;
  throw new PerdureError(
    'OPERATION_INVALID',
    `The result recorded for '${toolCall.name}' is no tool message.`,
    {
      tool: toolCall.name,
    },
  );
}
