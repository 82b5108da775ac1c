import { isGraphBubbleUp } from '@langchain/langgraph';

/** LangGraph's interrupts, drains and commands to a parent graph are thrown, but are no errors: nothing went wrong. */
export function isControlFlow(error: unknown): boolean {
  return typeof error === 'object' && error !== null && isGraphBubbleUp(error);
}
