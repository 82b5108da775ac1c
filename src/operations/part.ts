/** A field of an object, or of a field of it: `a.b`. */
export function part(value: unknown, path: string): unknown {
  let at: unknown = value;
  for (const name of path.split('.')) {
    if (typeof at !== 'object' || at === null || !(name in at)) return undefined;
    at = (at as Record<string, unknown>)[name];
  }
  return at;
}
