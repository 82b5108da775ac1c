/**
 * What Node is started with for a worker. LangGraph makes many short-lived objects at each superstep: with room for
 * 32 MB of them (V8's default is 16) the collector runs half as often.
 */
export const WORKER_FLAGS: readonly string[] = ['--max-semi-space-size=32'];
