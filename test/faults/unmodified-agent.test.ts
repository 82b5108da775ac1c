import { ToolMessage, type BaseMessage } from '@langchain/core/messages';
import { afterAll, expect, test } from 'vitest';
import { openAttempts } from './attempts.ts';

const attempts = await openAttempts();
afterAll(() => attempts.close());

const GRAPH = 'plainAgent';

test.each([
  ['before the call', 'operation:claimed#1'],
  ['between the call and the record', 'operation:effect-done#1'],
])(
  'a tool of an agent that knows nothing of perdure is never called a second time silently, killed %s',
  async (_, point) => {
    const thread = await attempts.begin(GRAPH, { messages: [{ role: 'user', content: 'go' }] });
    await attempts.killed(GRAPH, thread, point);
    const asked: string[] = [];
    let run = await attempts.advance(GRAPH, thread);
    while (run.status === 'interrupted') {
      const tool = (run.interrupts?.[0]?.value as { tool?: string } | null)?.tool;
      asked.push(
        await attempts.answer(thread, run, {
          own: 'yes',
          result: tool === 'ask_manager' ? 'yes' : 'mailed mira',
        }),
      );
      run = await attempts.advance(GRAPH, thread);
    }
    expect(run.status).toBe('success');
    expect(asked).toContain('operation');
    const left = await attempts.left(GRAPH, thread);
    expect(left).toMatchObject({
      thread: 'idle',
      effects: ['mail to mira'],
      operations: ['ask_manager succeeded', 'send_mail succeeded'],
    });
    const messages = (left.values['messages'] as BaseMessage[]).filter((each) =>
      ToolMessage.isInstance(each),
    );
    expect(messages.map(({ tool_call_id: id, text }) => `${id}: ${text}`).toSorted()).toEqual([
      'call_1: mailed mira',
      'call_2: yes',
    ]);
  },
);
