// The types of workflows that a worker offers, by Temporal's name for them.
export { thread } from './thread.ts';
export { migrateThreads } from './migrate.ts';
export { fireSchedule } from './fire-schedule.ts';
