/** A directed acyclic graph by ids: what a uop graph is when nothing of it is drawn yet. */

export interface GraphNode {
  readonly id: number;
  readonly src: readonly number[];
}

/**
 * The ids that a root reaches, sources before their consumers.
 *
 * Walks without recursion, so that depth has no limit. Ids that the table lacks are left out and
 * reported in `missing`.
 */
export function reach(
  table: ReadonlyMap<number, GraphNode>,
  roots: readonly number[],
): { order: number[]; missing: number[] } {
  const order: number[] = [];
  const missing: number[] = [];
  const seen = new Set<number>();
  const path: { id: number; src: readonly number[]; next: number }[] = [];
  const enter = (id: number): void => {
    if (seen.has(id)) return;
    seen.add(id);
    const node = table.get(id);
    if (node) path.push({ id, src: node.src, next: 0 });
    else missing.push(id);
  };
  for (const root of roots) {
    enter(root);
    while (path.length > 0) {
      const top = path[path.length - 1]!;
      if (top.next < top.src.length) {
        enter(top.src[top.next]!);
        top.next += 1;
      } else {
        order.push(top.id);
        path.pop();
      }
    }
  }
  return { order, missing };
}

/** For each id, the ids that use it, in the order of `order`. */
export function consumersOf(
  table: ReadonlyMap<number, GraphNode>,
  order: readonly number[],
): Map<number, number[]> {
  const uses = new Map<number, number[]>();
  for (const id of order) uses.set(id, []);
  for (const id of order) {
    for (const src of table.get(id)?.src ?? []) {
      const users = uses.get(src);
      // A source that is used twice in a row of sources was pushed just now.
      if (users && users[users.length - 1] !== id) users.push(id);
    }
  }
  return uses;
}
