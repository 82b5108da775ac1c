import { randomBytes } from 'node:crypto';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import {
  END,
  MessagesAnnotation,
  MessagesDeltaValue,
  START,
  StateGraph,
  StateSchema,
} from '@langchain/langgraph';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';

export type ChatKind = 'plain' | 'delta' | 'agent';

/** Bytes of a tool's result, unless told otherwise; as text that does not compress to nothing. */
const RESULT_BYTES = 5_000;

let calls = 0;
const call = () => ({ id: `call_${(calls += 1)}`, name: 'look_up', args: { n: calls } });
const result = (bytes: number) =>
  randomBytes(Math.ceil(bytes * 0.75))
    .toString('base64')
    .slice(0, bytes);

/** Calls the tool for what a person says, and then says that it is done. */
class TwoStepModel extends BaseChatModel {
  constructor() {
    super({});
  }

  override _llmType(): string {
    return 'two-step';
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = HumanMessage.isInstance(messages.at(-1))
      ? new AIMessage({ content: '', tool_calls: [{ ...call(), type: 'tool_call' }] })
      : new AIMessage('done');
    return { generations: [{ text: '', message }] };
  }
}

/** A turn is a model call and a tool call; in an agent, another model call after that. */
export function chat(kind: ChatKind, checkpointer?: BaseCheckpointSaver, resultBytes = RESULT_BYTES) {
  const saver = checkpointer ? { checkpointer } : {};
  if (kind === 'agent')
    return createAgent({
      model: new TwoStepModel(),
      tools: [
        tool(() => result(resultBytes), {
          name: 'look_up',
          description: 'Looks something up.',
          schema: z.object({ n: z.number() }),
        }),
      ],
      ...saver,
    });
  const model = () => ({ messages: [new AIMessage({ content: '', tool_calls: [call()] })] });
  const tools = ({ messages }: { messages: BaseMessage[] }) => {
    const last = messages.at(-1) as AIMessage;
    const id = last.tool_calls?.[0]?.id ?? '';
    return { messages: [new ToolMessage({ tool_call_id: id, content: result(resultBytes) })] };
  };
  const State = kind === 'delta' ? new StateSchema({ messages: MessagesDeltaValue }) : MessagesAnnotation;
  return new StateGraph(State as typeof MessagesAnnotation)
    .addNode('model', model)
    .addNode('tools', tools)
    .addEdge(START, 'model')
    .addEdge('model', 'tools')
    .addEdge('tools', END)
    .compile(saver);
}

export const plain = chat('plain');
export const delta = chat('delta');
export const agent = chat('agent');
