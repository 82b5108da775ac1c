import { ToolMessage, type BaseMessage } from '@langchain/core/messages';
import { afterAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../src/contracts/runs.ts';
import { openAttempts, type Left } from './attempts.ts';
import { passedPoints } from './passed-points.ts';

const attempts = await openAttempts();
afterAll(() => attempts.close());

type Part = 'before the answer' | 'after the answer';
const GRAPH = 'agent';
const MAIL = 'mailed mira';

const begin = () => attempts.begin(GRAPH, { messages: [{ role: 'user', content: 'go' }] });

/** Answers whatever is asked until the thread is done; notes what was asked. */
async function answerAll(thread: string, run: RunResult, answer: string, asked: string[]): Promise<void> {
  let newest = run;
  while (newest.status === 'interrupted') {
    const question = newest.interrupts?.[0];
    const tool = (question?.value as { tool?: string } | undefined)?.tool;
    const result = tool === 'ask_manager' ? answer : MAIL;
    asked.push(await attempts.answer(thread, newest, { own: answer, result }));
    newest = await attempts.advance(GRAPH, thread);
  }
}

type Story = { left: Left; asked: string[] };

/** One thread from its begin to its end; killed in one part of its life when a point is given. */
async function tell(answer: string, kill?: { part: Part; point: string }): Promise<Story> {
  const thread = await begin();
  const asked: string[] = [];
  if (kill?.part === 'before the answer') await attempts.killed(GRAPH, thread, kill.point);
  const first = await attempts.advance(GRAPH, thread);
  if (kill?.part === 'after the answer') {
    asked.push(await attempts.answer(thread, first, { own: answer, result: MAIL }));
    await attempts.killed(GRAPH, thread, kill.point);
  }
  await answerAll(
    thread,
    kill?.part === 'after the answer' ? await attempts.advance(GRAPH, thread) : first,
    answer,
    asked,
  );
  return { left: await attempts.left(GRAPH, thread), asked };
}

/** What the model was told, by tool call. */
function toolMessages({ values }: Left): string[] {
  return (values['messages'] as BaseMessage[])
    .filter((message) => ToolMessage.isInstance(message))
    .map((message) => `${message.tool_call_id}: ${message.text}`)
    .toSorted();
}

/** Where a thread is killed: at every operation, every writing of the saver and every superstep. */
const isWalked = (point: string): boolean => /^(operation|checkpoint|superstep|node):/.test(point);

async function pointsOf(answer: string): Promise<{ part: Part; point: string; answer: string }[]> {
  const thread = await begin();
  const before = await passedPoints(() => attempts.advance(GRAPH, thread));
  await attempts.answer(thread, before.result, { own: answer, result: MAIL });
  const after = await passedPoints(() => attempts.advance(GRAPH, thread));
  const walked = (part: Part, points: string[]) =>
    points.filter(isWalked).map((point) => ({ part, point, answer }));
  return [...walked('before the answer', before.points), ...walked('after the answer', after.points)];
}

const yes = await pointsOf('yes');
// Before the answer nothing depends on it.
const no = (await pointsOf('no')).filter(({ part }) => part === 'after the answer');

describe('a mail and a question to the manager, in one message of the model', () => {
  test.each(['yes', 'no'])('are one mail and two tool messages when the answer is %s', async (answer) => {
    const { left, asked } = await tell(answer);
    expect(asked).toEqual(['interrupt']);
    expect(left).toMatchObject({ thread: 'idle', next: [], effects: ['mail to mira'] });
    expect(toolMessages(left)).toEqual([`call_1: ${MAIL}`, `call_2: ${answer}`]);
  });

  test('are killed at every operation and store', () => {
    const points = yes.map(({ part, point }) => `${part} ${point}`);
    expect(points).toEqual(
      expect.arrayContaining([
        'before the answer operation:effect-done#1',
        'before the answer operation:recorded#1',
        'before the answer checkpoint:writes-stored#2',
        'after the answer operation:effect-done#1',
        'after the answer checkpoint:before-put#1',
      ]),
    );
  });

  test.concurrent.each([...yes, ...no])(
    'are the same when killed $part, at $point, and the answer is $answer',
    async ({ part, point, answer }) => {
      const { left, asked } = await tell(answer, { part, point });
      expect(left).toMatchObject({ thread: 'idle', next: [], effects: ['mail to mira'] });
      expect(left.operations).toEqual(['ask_manager succeeded', 'send_mail succeeded']);
      expect(toolMessages(left)).toEqual([`call_1: ${MAIL}`, `call_2: ${answer}`]);
      // Where it is not known whether a tool acted, a person is asked about that as well; the manager is asked once.
      expect(asked.filter((kind) => kind === 'interrupt')).toHaveLength(1);
    },
  );
});
