/** Which node of a new graph is which of the old one, when all above a change was rebuilt. */
import type { Node } from "../protocol/types.ts";

/**
 * Pairs each new node with the old one that it stands for, walking down from both roots.
 *
 * A change deep in a graph gives every node from there to the root another id; a pair has the same
 * op and as many sources. Nodes that are in both graphs need no pair.
 */
export function pairRebuilt(
  nodes: ReadonlyMap<number, Node>,
  newRoot: number,
  oldRoot: number,
  isOld: (id: number) => boolean,
): Map<number, number> {
  const pairs = new Map<number, number>();
  const stack: [number, number][] = [[newRoot, oldRoot]];
  while (stack.length > 0) {
    const [now, then] = stack.pop()!;
    if (now === then || pairs.has(now) || isOld(now)) continue;
    const a = nodes.get(now);
    const b = nodes.get(then);
    if (a?.op !== b?.op || !a || !b) continue;
    pairs.set(now, then);
    if (a.src.length !== b.src.length) continue;
    for (let i = 0; i < a.src.length; i += 1) stack.push([a.src[i]!, b.src[i]!]);
  }
  return pairs;
}
