export { thread } from './thread.ts';
