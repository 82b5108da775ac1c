import { z } from 'zod';
import { duration } from './duration.ts';

/**
 * What is declared of a tool from outside, for agents that know nothing of perdure. `false`: its calls are no
 * operations at all. `reconcilable` needs code that asks the far side, so it can only be declared by `durableTool()`.
 */
export const toolSettings = z.union([
  z.literal(false),
  z.strictObject({
    /** Default: what the tool says of itself, else `exclusive`. */
    kind: z.enum(['pure', 'idempotent', 'exclusive']).optional(),
    /** How long a silent worker is believed to be at work on a call. Default 5 seconds. */
    lease: duration.optional(),
  }),
]);

/** By the tool's name; `false` for all of them. */
export const toolsSettings = z.union([z.literal(false), z.record(z.string(), toolSettings)]);
export type ToolsSettingsInput = z.input<typeof toolsSettings>;
export type ToolsSettings = z.output<typeof toolsSettings>;
