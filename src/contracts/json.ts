import { z } from 'zod';

/** What JSON can hold: the only thing that crosses a process. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

export const jsonValue: z.ZodType<JsonValue> = z.json();

export const jsonObject: z.ZodType<{ [key: string]: JsonValue }> = z.record(z.string(), jsonValue);

/** An error as it is kept in Postgres and shown to people. */
export const errorRecord = z.object({
  name: z.string(),
  message: z.string(),
  code: z.string().optional(),
  stack: z.string().optional(),
  node: z.string().optional(),
});
export type ErrorRecord = z.infer<typeof errorRecord>;

/** The longest stack that is kept, in characters. */
const MAX_STACK = 4_000;

export function toErrorRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  return {
    name: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(error.stack ? { stack: error.stack.slice(0, MAX_STACK) } : {}),
  };
}
