import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AIMessage, type BaseMessage, ToolMessage } from '@langchain/core/messages';
import { MemorySaver } from '@langchain/langgraph';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { agent } from '../../graphs/agent/agent.ts';
import { planCalls } from '../../graphs/agent/scripted-plan.ts';

const TOOLS = ['look_up_order', 'convert_currency', 'send_mail'];
const outbox = join(tmpdir(), `perdure-agent-${randomUUID()}.jsonl`);

beforeEach(() => {
  vi.stubEnv('AGENT_OUTBOX', outbox);
  agent.graph.checkpointer = new MemorySaver();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(outbox, { force: true });
});

async function say(content: string, thread = randomUUID()): Promise<BaseMessage[]> {
  const { messages } = await agent.invoke(
    { messages: [{ role: 'user', content }] },
    { configurable: { thread_id: thread } },
  );
  return messages;
}

describe('the agent under plain LangGraph', () => {
  test('calls two tools at once and sums up what they gave', async () => {
    const messages = await say('Where is order 1042? And convert 20 EUR to USD');
    expect(messages.map((message) => message.type)).toEqual(['human', 'ai', 'tool', 'tool', 'ai']);
    expect(messages.at(-1)?.text).toContain('Order 1042 was delivered');
    expect(messages.at(-1)?.text).toContain('20 EUR is 22.00 USD.');
  });

  test('goes on over several turns, and each call has an id of its own', async () => {
    const thread = randomUUID();
    await say('convert 5 GBP to JPY', thread);
    await say('convert 5 GBP to JPY', thread);
    const messages = await say('Hello there', thread);
    const calls = messages
      .filter((message) => AIMessage.isInstance(message))
      .flatMap((message) => message.tool_calls ?? []);
    expect(new Set(calls.map((call) => call.id)).size).toBe(2);
    expect(messages.filter((message) => ToolMessage.isInstance(message))).toHaveLength(2);
    expect(messages.at(-1)?.text).toContain('I can look up an order');
  });

  test('gives the same ids for the same conversation', async () => {
    const [one, two] = [await say('Where is order 1059?'), await say('Where is order 1059?')];
    const ids = (messages: BaseMessage[]) =>
      messages
        .filter((message) => AIMessage.isInstance(message))
        .map((message) => [message.id, message.tool_calls]);
    expect(ids(one)).toEqual(ids(two));
  });

  test('mails after the rest when asked to, once', async () => {
    await say('Where is order 1058? Then mail ann@example.com: Your order 1058 is late, sorry.');
    const lines = readFileSync(outbox, 'utf8').trim().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { to: 'ann@example.com', text: 'Your order 1058 is late, sorry.' },
    ]);
  });
});

test('the script plans in stages and only what is bound', () => {
  const text = 'order #1042, order 1042, convert 1.5 usd into eur, email bob@example.com Hi';
  expect(planCalls(text, TOOLS)).toEqual([
    [
      { name: 'look_up_order', args: { order_id: '1042' } },
      { name: 'convert_currency', args: { amount: 1.5, from: 'USD', to: 'EUR' } },
      { name: 'send_mail', args: { to: 'bob@example.com', text: 'Hi' } },
    ],
  ]);
  expect(planCalls(text, ['send_mail'])).toHaveLength(1);
  expect(planCalls('hello', TOOLS)).toEqual([]);
});
