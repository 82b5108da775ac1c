import { createHash } from 'node:crypto';
import { GraphInterrupt } from '@langchain/langgraph';
import type { JsonValue } from '../contracts/json.ts';
import { NEW_EFFECT_QUESTION_PREFIX, OPERATION_QUESTION_PREFIX } from '../contracts/operations.ts';

/** What a person sees of an operation that waits for an answer: the value of its interrupt. */
export type OperationQuestion = {
  /** Its fate is not known, or a fork came to it and it is not on record. */
  type: 'operation_unknown' | 'operation_new';
  operation_id: string;
  tool: string;
  args: JsonValue;
  question: string;
  /** The two answers, as `operations resolve` takes them. */
  answers: { happened: string; retry: string };
};

/** The interrupt's id: another one for every time the operation's fate became unknown. */
export function questionId(operationId: string, attempts: number): string {
  const hash = createHash('sha256').update(operationId).digest('hex').slice(0, 16);
  return `${OPERATION_QUESTION_PREFIX}${hash}-${attempts}`;
}

/**
 * Stops the task until a person has said what became of the operation. Thrown as it is: LangGraph's `interrupt()`
 * would take a number of the node's own questions, and their answers would go to the wrong one.
 */
export function askPerson(operation: {
  operationId: string;
  tool: string;
  args: JsonValue;
  attempts: number;
}): GraphInterrupt {
  const value: OperationQuestion = {
    type: 'operation_unknown',
    operation_id: operation.operationId,
    tool: operation.tool,
    args: operation.args,
    question: `It is not known whether '${operation.tool}' took effect. Look on the far side: did it happen, or may it run again?`,
    answers: {
      happened: '{"happened": RESULT}, where RESULT is the JSON that it would have returned',
      retry: '{"retry": true}, when it did not happen',
    },
  };
  return new GraphInterrupt([{ id: questionId(operation.operationId, operation.attempts), value }]);
}

/** The interrupt's id: another one in every branch, and for other arguments, so that no answer is carried over. */
export function newEffectQuestionId(operationId: string, branchId: string, argsHash: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([operationId, branchId, argsHash]))
    .digest('hex');
  return `${NEW_EFFECT_QUESTION_PREFIX}${hash.slice(0, 24)}`;
}

/** Stops the task of a fork until a person has said whether an effect that is not on record may happen. */
export function askBeforeNewEffect(
  id: string,
  operation: { operationId: string; tool: string; args: JsonValue },
): GraphInterrupt {
  const value: OperationQuestion = {
    type: 'operation_new',
    operation_id: operation.operationId,
    tool: operation.tool,
    args: operation.args,
    question: `This branch was forked to take effects from the record, and '${operation.tool}' is not on it with these arguments. May it run?`,
    answers: {
      happened: '{"happened": RESULT} goes on with RESULT as its result, and runs nothing',
      retry: '{"retry": true} runs it',
    },
  };
  return new GraphInterrupt([{ id, value }]);
}
