/** An environment for a child, without the variables that `left out` says. */
export function without(
  environment: NodeJS.ProcessEnv,
  leftOut: (name: string) => boolean,
): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !leftOut(name)));
}

/** Postgres's own variables, which would steer `initdb` and the server. */
export const isForPostgres = (name: string): boolean => name.startsWith('PG');

/** Temporal's own variables, which would steer the server's CLI. */
export const isForTemporal = (name: string): boolean => name.startsWith('TEMPORAL_');
