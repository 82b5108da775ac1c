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
  error?: { name: string; message: string };
};

/** The same compiled graph on bare LangGraph with a MemorySaver, to compare with. */
export class PlainThread {
  readonly #graph: CompiledGraph;
  readonly #config: Record<string, unknown>;
  #pending: string[] = [];

  constructor(graph: unknown, config: RunConfig = {}) {
    const compiled = asCompiledGraph(graph);
    if (!compiled) throw new Error('not a graph');
    this.#graph = compiled.withConfig({});
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

  /** Answers one of the interrupts that the last call ended with. */
  async answer(value: JsonValue, place = 0): Promise<Ending> {
    return this.#drive(new Command({ resume: { [this.#pending[place] ?? '']: value } }));
  }

  async #drive(input: unknown): Promise<Ending> {
    let output: unknown;
    try {
      output = await this.#graph.invoke(input, this.#config);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      return { status: 'error', error: { name: error.name, message: error.message } };
    }
    const { asked, values } = parted(output);
    this.#pending = (asked ?? []).map(({ id }) => id);
    if (asked === undefined) return { status: 'success', values: jsonView(output) };
    const state = await this.#graph.getState(this.#config);
    if (asked.length === 0 && state.next.length === 0) return { status: 'success', values };
    return { status: 'interrupted', asked: asked.map(({ value }) => jsonView(value)) };
  }
}

/** A run of perdure in the same words. */
export function ending(result: RunResult): Ending {
  return {
    status: result.status,
    ...(result.values === undefined ? {} : { values: result.values }),
    ...(result.status === 'interrupted'
      ? { asked: (result.interrupts ?? []).map(({ value }) => value) }
      : {}),
    ...(result.error ? { error: { name: result.error.name, message: result.error.message } } : {}),
  };
}

/** What invoke() gives: the values, and with them what is asked. */
function parted(output: unknown): { asked: { id: string; value: unknown }[] | undefined; values: JsonValue } {
  if (typeof output !== 'object' || output === null || !('__interrupt__' in output))
    return { asked: undefined, values: jsonView(output) };
  const { __interrupt__: asked, ...values } = output;
  return { asked: asked as { id: string; value: unknown }[], values: jsonView(values) };
}
