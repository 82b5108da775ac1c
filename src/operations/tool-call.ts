/** A model's call of a tool, as LangChain passes it to `invoke`. */
export type ToolCallInput = { type: 'tool_call'; name: string; args: unknown; id?: string | undefined };

/** What of LangChain's config a tool's operation reads; the rest is passed on. */
export type ToolRunnableConfig = { signal?: AbortSignal; toolCall?: { id?: string } };

export function isToolCall(input: unknown): input is ToolCallInput {
  return (
    typeof input === 'object' &&
    input !== null &&
    'type' in input &&
    input.type === 'tool_call' &&
    'args' in input
  );
}
