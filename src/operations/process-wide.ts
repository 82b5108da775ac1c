/**
 * One value for the whole process, kept on `globalThis` under `Symbol.for('perdure.' + name)`: two copies of this
 * package (the user's and the worker's) have to meet in one place. Its shape is therefore part of the API.
 */
export function processWide<T>(name: string, make: () => T): T {
  const holder = globalThis as unknown as Record<symbol, T | undefined>;
  return (holder[Symbol.for(`perdure.${name}`)] ??= make());
}
