/** One level of a checkpoint namespace. */
export type NamespacePart = {
  node: string;
  /** Undefined for a subgraph that keeps its state from run to run, and for a bare number: see `counts`. */
  taskId: string | undefined;
};

/** The levels of a namespace such as `agent:<task id>|tools:<task id>`. A node's name may itself hold colons. */
export function namespaceParts(ns: string): NamespacePart[] {
  if (ns === '') return [];
  return ns.split('|').map((part) => {
    const match = /^(.*):([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/s.exec(part);
    return match?.[1] !== undefined
      ? { node: match[1], taskId: match[2] }
      : { node: part, taskId: undefined };
  });
}

/** Whether the level only counts the subgraphs that one task calls, from the second on. */
export function counts({ node, taskId }: NamespacePart): boolean {
  return taskId === undefined && /^\d+$/.test(node);
}
