import { PerdureError } from '../contracts/errors.ts';
import { effectKind, type EffectKind } from '../contracts/operations.ts';
import { part } from './part.ts';

/** What the tool says of itself. MCP's hints: one that only reads is pure, one that may be repeated idempotent. */
export function declaredKind(name: string, tool: object | undefined): EffectKind | undefined {
  const metadata = part(tool, 'metadata');
  const own = part(metadata, 'perdure.kind');
  if (own !== undefined) {
    const parsed = effectKind.safeParse(own);
    if (parsed.success) return parsed.data;
    throw new PerdureError(
      'OPERATION_INVALID',
      `metadata.perdure.kind of tool '${name}' is ${JSON.stringify(own)}; it has to be one of ${effectKind.options.join(', ')}.`,
      { tool: name },
    );
  }
  const annotations = part(metadata, 'annotations') ?? metadata;
  if (part(annotations, 'readOnlyHint') === true) return 'pure';
  if (part(annotations, 'idempotentHint') === true) return 'idempotent';
  return undefined;
}
