import { isPerdureError, PerdureError } from '../contracts/errors.ts';

/** What the command's exit status says. */
export const EXIT = { done: 0, failed: 1, usage: 2, waiting: 3, stopped: 130 } as const;

/** The command line is wrong, or what it hands in can't be read. Nothing was changed. */
export class UsageError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('USAGE_INVALID', message, details, options);
  }
}

/** An error as `--json` prints it. */
export type ErrorDocument = { error: { code: string; message: string; details: Record<string, unknown> } };

/** Codes of errors that a corrected command line mends. */
const USAGE_CODES = new Set(['USAGE_INVALID', 'INPUT_INVALID']);

/** Postgres has no such table or schema. Source: Postgres manual, appendix A. */
const UNDEFINED_TABLE = new Set(['42P01', '3F000']);

export function exitStatusOf(error: unknown): number {
  return isPerdureError(error) && USAGE_CODES.has(error.code) ? EXIT.usage : EXIT.failed;
}

export function errorDocument(error: unknown): ErrorDocument {
  if (isPerdureError(error))
    return { error: { code: error.code, message: error.message, details: error.details } };
  if (isMissingTable(error))
    return {
      error: {
        code: 'SCHEMA_NOT_MIGRATED',
        message:
          "The database holds no tables of perdure in this schema, or old ones. Run 'perdure migrate'.",
        details: { reason: error.message },
      },
    };
  const message = error instanceof Error ? error.message || error.name : String(error);
  return { error: { code: 'UNEXPECTED', message, details: {} } };
}

/** Whether the statement failed because the schema, or a table of it, isn't there. */
export function isMissingTable(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && UNDEFINED_TABLE.has(String(error.code));
}
