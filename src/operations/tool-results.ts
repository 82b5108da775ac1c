import { isDirectToolOutput, ToolMessage } from '@langchain/core/messages/tool';
import { Command, isCommand } from '@langchain/langgraph';
import type { OperationResult } from './ledger.ts';

export type ToolResultShape = {
  toolName: string;
  /** `content_and_artifact`: raw results are pairs. */
  responseFormat: string | undefined;
  /** The call that is answered; undefined when the tool was invoked with plain arguments. */
  toolCallId: string | undefined;
  /** Whether the result may have been recorded for another call, by a business key. */
  shared: boolean;
};

/**
 * What a tool gives back for a recorded result: a ToolMessage or Command answers the call that is being made now,
 * and what a person or the far side said becomes a ToolMessage, as LangChain would have made it of the tool's output.
 */
export function toolResult(result: OperationResult<unknown>, shape: ToolResultShape): unknown {
  const { value } = result;
  if (!result.recorded) return value;
  const { toolCallId } = shape;
  if (toolCallId === undefined) return shape.shared && ToolMessage.isInstance(value) ? value.content : value;
  if (ToolMessage.isInstance(value)) return answering(value, toolCallId);
  if (isCommand(value)) return answeringCommand(value, toolCallId);
  if (isDirectToolOutput(value)) return value;
  return messageOf(value, shape, toolCallId);
}

function answering(message: ToolMessage, toolCallId: string): ToolMessage {
  if (message.tool_call_id === toolCallId) return message;
  // Without its id: two messages of one id would be one in the conversation.
  return new ToolMessage({
    content: message.content,
    artifact: message.artifact as unknown,
    tool_call_id: toolCallId,
    // oxlint-disable-next-line typescript/no-deprecated -- providers still read it
    additional_kwargs: message.additional_kwargs,
    response_metadata: message.response_metadata,
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.status === undefined ? {} : { status: message.status }),
    ...(message.metadata === undefined ? {} : { metadata: message.metadata }),
  });
}

/** A Command that answers one call answers this one; one with messages for several calls is left as it is. */
function answeringCommand(command: Command, toolCallId: string): Command {
  const update: unknown = command.update;
  if (typeof update !== 'object' || update === null || Array.isArray(update) || !('messages' in update))
    return command;
  const messages: unknown[] = Array.isArray(update.messages) ? update.messages : [update.messages];
  const answered = new Set(
    messages.filter((each) => ToolMessage.isInstance(each)).map((each) => each.tool_call_id),
  );
  if (answered.size !== 1 || answered.has(toolCallId)) return command;
  return new Command({
    ...(command.graph === undefined ? {} : { graph: command.graph }),
    ...(command.resume === undefined ? {} : { resume: command.resume }),
    ...(command.goto === undefined ? {} : { goto: command.goto }),
    update: {
      ...update,
      messages: messages.map((each) => (ToolMessage.isInstance(each) ? answering(each, toolCallId) : each)),
    },
  });
}

/** As StructuredTool formats what its function returned. */
function messageOf(value: unknown, shape: ToolResultShape, toolCallId: string): ToolMessage {
  const pair = shape.responseFormat === 'content_and_artifact' && Array.isArray(value) && value.length === 2;
  const content: unknown = pair ? value[0] : value;
  return new ToolMessage({
    content: isMessageContent(content) ? content : (JSON.stringify(content) ?? ''),
    tool_call_id: toolCallId,
    name: shape.toolName,
    status: 'success',
    ...(pair ? { artifact: value[1] as unknown } : {}),
  });
}

function isMessageContent(content: unknown): content is ToolMessage['content'] {
  return (
    typeof content === 'string' ||
    (Array.isArray(content) &&
      content.every((block) => typeof block === 'object' && block !== null && 'type' in block))
  );
}
