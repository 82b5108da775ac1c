import { createHash } from 'node:crypto';
import type { BindToolsInput } from '@langchain/core/language_models/chat_models';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import { planCalls, type PlannedCall } from './scripted-plan.ts';

/**
 * A chat model without a model: it decides by rules which of the bound tools to call for the last human message,
 * and sums up what they gave. The same conversation always gets the same answer, with the same ids.
 */
export class ScriptedModel extends BaseChatModel {
  private readonly toolNames: readonly string[];

  constructor(toolNames: readonly string[] = []) {
    super({});
    this.toolNames = toolNames;
  }

  _llmType(): string {
    return 'scripted';
  }

  override bindTools(tools: BindToolsInput[]): ScriptedModel {
    return new ScriptedModel(tools.map(nameOf));
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = this.answer(messages);
    return { generations: [{ text: message.text, message }] };
  }

  private answer(messages: BaseMessage[]): AIMessage {
    const turn = messages.slice(messages.findLastIndex((message) => HumanMessage.isInstance(message)));
    const asked = turn[0]?.text ?? '';
    const stages = planCalls(asked, this.toolNames);
    const done = turn.filter(
      (message) => AIMessage.isInstance(message) && (message.tool_calls?.length ?? 0) > 0,
    ).length;
    const id = createHash('sha256')
      .update(JSON.stringify([messages.length, asked]))
      .digest('hex')
      .slice(0, 16);
    const calls = stages[done];
    return calls === undefined
      ? new AIMessage({ id: `scripted-${id}`, content: summary(turn) })
      : new AIMessage({
          id: `scripted-${id}`,
          content: '',
          tool_calls: calls.map((call, n) => toolCall(call, id, n)),
        });
  }
}

function toolCall({ name, args }: PlannedCall, id: string, n: number) {
  return { type: 'tool_call' as const, id: `call-${id}-${n}`, name, args };
}

function summary(turn: BaseMessage[]): string {
  const results = turn.filter((message) => ToolMessage.isInstance(message)).map((message) => message.text);
  if (results.length > 0) return results.join('\n');
  return 'I can look up an order ("Where is order 1042?"), convert money ("convert 20 EUR to USD") and send mail ("mail ann@example.com: Hello").';
}

function nameOf(tool: BindToolsInput): string {
  if ('name' in tool && typeof tool.name === 'string') return tool.name;
  if (
    'function' in tool &&
    typeof tool.function === 'object' &&
    tool.function !== null &&
    'name' in tool.function
  )
    return String(tool.function.name);
  return '';
}
