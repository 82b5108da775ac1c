import { Command, MemorySaver } from '@langchain/langgraph';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunConfig, RunResult } from '../../src/contracts/runs.ts';
import { asCompiledGraph, type CompiledGraph } from '../../src/graph/define-graph.ts';
import { jsonView } from '../../src/graph/json-view.ts';

/** How a run ended, in the words that bare LangGraph and perdure share. */
export type Ending = {
  status: RunResult['status'];
  values?: JsonValue;
  /** Values of the pending interrupts, in order. */
  asked?: JsonValue[];
  next?: string[];
  error?: { name: string; message: string };
};

/** The same compiled graph on bare LangGraph with a MemorySaver, to compare with. */
export class PlainThread {
  readonly #graph: CompiledGraph;
  readonly #config: Record<string, unknown>;

  constructor(graph: unknown, config: RunConfig = {}) {
    const compiled = asCompiledGraph(graph);
    if (!compiled) throw new Error('not a graph');
    this.#graph = compiled.withConfig({}) as CompiledGraph;
    this.#graph.checkpointer = new MemorySaver();
    this.#config = {
      configurable: { ...config.configurable, thread_id: 'plain' },
      ...(config.recursion_limit ? { recursionLimit: config.recursion_limit } : {}),
      ...(config.context ? { context: config.context } : {}),
      ...(config.interrupt_before ? { interruptBefore: config.interrupt_before } : {}),
      ...(config.interrupt_after ? { interruptAfter: config.interrupt_after } : {}),
    };
  }

  /** From new input, or null to go on after a static interrupt. */
  async run(input: JsonValue): Promise<Ending> {
    return this.#drive(input);
  }

  /** Answers the only pending interrupt, or those at the given places. */
  async answer(value: JsonValue, at = 0): Promise<Ending> {
    const state = await this.#graph.getState(this.#config, { subgraphs: true });
    const ids = state.tasks.flatMap((task) => task.interrupts).flatMap(({ id }) => (id === undefined ? [] : [id]));
    return this.#drive(new Command({ resume: { [ids[at] ?? '']: value } }));
  }

  async #drive(input: unknown): Promise<Ending> {
    let output: unknown;
    try {
      output = await this.#graph.invoke(input, this.#config);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      return { status: 'error', error: { name: error.name, message: error.message } };
    }
    const state = await this.#graph.getState(this.#config);
    if (state.next.length === 0) return { status: 'success', values: jsonView(output) };
    const asked = state.tasks.flatMap((task) => task.interrupts).map(({ value }) => jsonView(value));
    return { status: 'interrupted', asked, next: [...state.next] };
  }
}

/** A run of perdure in the same words. */
export function ending(result: RunResult): Ending {
  return {
    status: result.status,
    ...(result.values === undefined ? {} : { values: result.values }),
    ...(result.status === 'interrupted' ? { asked: (result.interrupts ?? []).map(({ value }) => value), next: result.next ?? [] } : {}),
    ...(result.error ? { error: { name: result.error.name, message: result.error.message } } : {}),
  };
}
