import { pino, destination, type Logger } from 'pino';

export type { Logger };

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** JSON lines on stderr, so that stdout stays free for results. */
export function createLogger(level: LogLevel): Logger {
  return pino({ level, base: null }, destination({ dest: 2, sync: false }));
}
