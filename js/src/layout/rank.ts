/** Rows: a node stands above all that use it, as near to them as it can. */
import type { LayoutInput } from "./types.ts";

/** A node may keep a row that is too high by this much, so that it does not jump. */
const SLACK = 2;

/**
 * The row of each node, counted from the root at the bottom.
 *
 * Nodes come sources first, so that one walk backwards sees each node after all that use it.
 */
export function assignRanks(input: LayoutInput): Int32Array {
  const { count, srcStart, src, oldRank } = input;
  const rank = new Int32Array(count);
  for (let node = count - 1; node >= 0; node -= 1) {
    const old = oldRank[node]!;
    if (old > rank[node]! && old <= rank[node]! + SLACK) rank[node] = old;
    const above = rank[node]! + 1;
    for (let e = srcStart[node]!; e < srcStart[node + 1]!; e += 1) {
      const source = src[e]!;
      if (rank[source]! < above) rank[source] = above;
    }
  }
  return closeGaps(rank);
}

/** Rows that hold no node are taken out. */
function closeGaps(rank: Int32Array): Int32Array {
  const used = new Uint8Array(1 + rank.reduce((top, row) => Math.max(top, row), 0));
  for (const row of rank) used[row] = 1;
  const renamed = new Int32Array(used.length);
  let next = 0;
  for (let row = 0; row < used.length; row += 1) {
    renamed[row] = next;
    next += used[row]!;
  }
  return rank.map((row) => renamed[row]!);
}
