import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import type { ToolCall } from '@langchain/core/messages/tool';

export type PlannedCall = { name: string; args: Record<string, unknown>; id: string };

/** Plans the tool calls of its script, one message for each turn, and then says what the tools answered. */
export class ScriptedModel extends BaseChatModel {
  readonly #turns: readonly PlannedCall[][];

  constructor(turns: readonly PlannedCall[][]) {
    super({});
    this.#turns = turns;
  }

  override _llmType(): string {
    return 'scripted';
  }

  override bindTools(): this {
    return this;
  }

  override _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const turn = messages.filter((message) => AIMessage.isInstance(message)).length;
    const planned = this.#turns[turn];
    const message =
      planned === undefined
        ? new AIMessage(
            `done: ${messages
              .filter((each) => ToolMessage.isInstance(each))
              .map((each) => each.text)
              .join(', ')}`,
          )
        : new AIMessage({
            content: '',
            tool_calls: planned.map((call): ToolCall => ({ ...call, type: 'tool_call' })),
          });
    return Promise.resolve({ generations: [{ text: message.text, message }] });
  }
}
