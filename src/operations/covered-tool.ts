import type { ToolsSettings } from '../contracts/tool-settings.ts';
import { runningOperation } from './current-operation.ts';
import { declaredKind } from './declared-kind.ts';
import { currentRunContext } from './run-context.ts';
import { isToolCall, type ToolRunnableConfig } from './tool-call.ts';
import { isDurableTool, toolAsOperation, type InvokableTool } from './tool-as-operation.ts';

const COVERED = Symbol.for('perdure.covered-tool');

/**
 * The same tool, except that inside a run each call of it is an operation, of the kind that the run's graph declares
 * for it, else the tool itself, else `exclusive`. Outside of a run it is the tool as it was. What is durable or covered
 * already, or can't be called, comes back as it is.
 */
export function coverTool<T>(tool: T): T {
  if (!isInvokable(tool) || isDurableTool(tool) || COVERED in tool) return tool;
  const invoke = (input: unknown, config?: ToolRunnableConfig): Promise<unknown> =>
    invokeCovered(tool, input, config);
  return new Proxy(tool, {
    get: (target, property) => {
      if (property === COVERED) return target;
      return property === 'invoke' || property === 'call'
        ? invoke
        : (Reflect.get(target, property, target) as unknown);
    },
    has: (target, property) => property === COVERED || Reflect.has(target, property),
  });
}

/** The tool that coverTool() was given, for whoever makes it an operation in a way of its own. */
export function uncovered<T>(tool: T): T {
  return typeof tool === 'object' && tool !== null && COVERED in tool
    ? ((tool as { [COVERED]: T })[COVERED] satisfies T)
    : tool;
}

/** Whether nobody has said what may be done when it is not known whether a call of the tool took effect. */
export function isUndeclared(tool: unknown, settings: ToolsSettings | undefined): boolean {
  if (settings === false || !isInvokable(tool) || isDurableTool(tool)) return false;
  const own = settings && Object.hasOwn(settings, tool.name) ? settings[tool.name] : undefined;
  return own !== false && own?.kind === undefined && declaredKind(tool.name, tool) === undefined;
}

function invokeCovered(
  tool: InvokableTool,
  input: unknown,
  config: ToolRunnableConfig | undefined,
): Promise<unknown> {
  const direct = () => tool.invoke(input as never, config as never);
  const run = currentRunContext();
  if (run === undefined || run.tools === false) return direct();
  const settings = run.tools && Object.hasOwn(run.tools, tool.name) ? run.tools[tool.name] : undefined;
  const toolCallId = isToolCall(input) ? input.id : config?.toolCall?.id;
  // A middleware made an operation of this very call, and this is its inside.
  const within = toolCallId !== undefined && runningOperation()?.toolCallId === toolCallId;
  if (settings === false || within) return direct();
  return toolAsOperation(tool, {
    kind: settings?.kind ?? declaredKind(tool.name, tool) ?? 'exclusive',
    lease: settings?.lease,
    mayOutliveAbort: true,
  }).invoke(input as never, config as never);
}

function isInvokable<T>(tool: T): tool is T & InvokableTool {
  return (
    typeof tool === 'object' &&
    tool !== null &&
    'invoke' in tool &&
    typeof tool.invoke === 'function' &&
    'name' in tool &&
    typeof tool.name === 'string'
  );
}
