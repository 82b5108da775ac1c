import { Tool, ToolInputParsingException } from '@langchain/core/tools';
import { interopSafeParseAsync, isInteropZodError, isInteropZodSchema } from '@langchain/core/utils/types';
import { z } from 'zod';

/** The part of a LangChain tool that its input is checked by. */
export type ToolWithSchema = { schema: unknown; verboseParsingErrors?: boolean };

/**
 * The input as the tool's function will get it. Input that the schema refuses is refused here, in LangChain's words,
 * so that it never becomes an operation and the model can correct itself. JSON schemas are left to the tool.
 * @throws ToolInputParsingException
 */
export async function parseToolInput(tool: ToolWithSchema, input: unknown): Promise<unknown> {
  const given =
    tool instanceof Tool && (typeof input === 'string' || input === null || input === undefined)
      ? { input }
      : input;
  if (!isInteropZodSchema(tool.schema)) return given;
  const parsed = await interopSafeParseAsync(tool.schema, given);
  if (parsed.success) return parsed.data;
  const { error } = parsed;
  const details =
    tool.verboseParsingErrors === true
      ? `\nDetails: ${error instanceof Error ? error.message : 'unknown'}`
      : '';
  const issues = isInteropZodError(error) ? `\n\n${z.prettifyError(error)}` : '';
  throw new ToolInputParsingException(
    `Received tool input did not match expected schema${details}${issues}`,
    JSON.stringify(given) ?? '',
  );
}

/** Whether the tool refused this very input before its function was called. */
export function isInputRefusal(error: unknown, input: unknown): boolean {
  return error instanceof ToolInputParsingException && error.output === JSON.stringify(input);
}
