/** Rows of items: nodes, and the bends of edges that pass a row. */
import { DUMMY_WIDTH, type LayoutInput } from "./types.ts";

/**
 * Items 0 .. count-1 are the nodes; later ones are bends. All edges of a source that pass a row
 * share one bend there, so that a value used in many places is one line that branches.
 */
export interface Layers {
  readonly items: number;
  readonly widths: Float32Array;
  readonly rank: Int32Array;
  readonly rows: Int32Array[];
  /** Links between neighbouring rows, from the upper item to the lower one. */
  readonly upper: Int32Array;
  readonly lower: Int32Array;
  /** The source that a bend belongs to; for a node, itself. */
  readonly owner: Int32Array;
  /** Bends of a node from its row down: `bendStart[node] .. + span - 2`, or -1. */
  readonly bendStart: Int32Array;
  readonly dummies: number;
}

/** How many bends are worth making; beyond that the longest edges run straight. */
const BUDGET_PER_NODE = 6;
const BUDGET_FLOOR = 4000;

export function buildLayers(input: LayoutInput, rank: Int32Array): Layers {
  const made = addBends(rank, lowestUse(input, rank));
  addEdges(input, rank, made);
  const { owner, ranks, upper, lower, bendStart } = made;
  const widths = new Float32Array(owner.length).fill(DUMMY_WIDTH);
  widths.set(input.widths);
  return {
    items: owner.length,
    widths,
    rank: Int32Array.from(ranks),
    rows: rowsOf(ranks),
    upper: Int32Array.from(upper),
    lower: Int32Array.from(lower),
    owner: Int32Array.from(owner),
    bendStart,
    dummies: owner.length - input.count,
  };
}

interface Growing {
  readonly owner: number[];
  readonly ranks: number[];
  readonly upper: number[];
  readonly lower: number[];
  readonly bendStart: Int32Array;
}

/** The lowest row in which each node is used; its own if it is not used. */
function lowestUse({ count, srcStart, src }: LayoutInput, rank: Int32Array): Int32Array {
  const lowest = rank.slice();
  for (let node = 0; node < count; node += 1) {
    for (let e = srcStart[node]!; e < srcStart[node + 1]!; e += 1) {
      const source = src[e]!;
      lowest[source] = Math.min(lowest[source]!, rank[node]!);
    }
  }
  return lowest;
}

/** A chain of bends from each node down to just above its lowest use. */
function addBends(rank: Int32Array, lowest: Int32Array): Growing {
  const count = rank.length;
  const longest = spanWithinBudget(rank, lowest);
  const bendStart = new Int32Array(count).fill(-1);
  const owner = Array.from({ length: count }, (_, i) => i);
  const ranks = Array.from(rank);
  const upper: number[] = [];
  const lower: number[] = [];
  for (let node = 0; node < count; node += 1) {
    const span = rank[node]! - lowest[node]!;
    if (span < 2 || span > longest) continue;
    bendStart[node] = owner.length;
    let above = node;
    for (let row = rank[node]! - 1; row > lowest[node]!; row -= 1) {
      upper.push(above);
      lower.push(owner.length);
      above = owner.length;
      owner.push(node);
      ranks.push(row);
    }
  }
  return { owner, ranks, upper, lower, bendStart };
}

/** The last link of each edge, into the node that uses the source. */
function addEdges({ count, srcStart, src }: LayoutInput, rank: Int32Array, made: Growing): void {
  for (let node = 0; node < count; node += 1) {
    for (let e = srcStart[node]!; e < srcStart[node + 1]!; e += 1) {
      const from = lastBend(made.bendStart, rank, src[e]!, rank[node]!);
      if (from < 0) continue;
      made.upper.push(from);
      made.lower.push(node);
    }
  }
}

/** The item just above a row on the way down from a source; -1 if the way has no bends. */
export function lastBend(
  bendStart: Int32Array,
  rank: Int32Array,
  source: number,
  row: number,
): number {
  const span = rank[source]! - row;
  if (span === 1) return source;
  const start = bendStart[source]!;
  return start < 0 ? -1 : start + span - 2;
}

/** The longest edge that gets bends, so that all bends together stay in the budget. */
function spanWithinBudget(rank: Int32Array, reachDown: Int32Array): number {
  const budget = Math.max(BUDGET_FLOOR, BUDGET_PER_NODE * rank.length);
  const bySpan = new Map<number, number>();
  for (let node = 0; node < rank.length; node += 1) {
    const span = rank[node]! - reachDown[node]!;
    if (span > 1) bySpan.set(span, (bySpan.get(span) ?? 0) + 1);
  }
  let spent = 0;
  for (const span of [...bySpan.keys()].sort((a, b) => a - b)) {
    spent += (span - 1) * bySpan.get(span)!;
    if (spent > budget) return span - 1;
  }
  return Number.POSITIVE_INFINITY;
}

function rowsOf(ranks: readonly number[]): Int32Array[] {
  const sizes: number[] = [];
  for (const row of ranks) sizes[row] = (sizes[row] ?? 0) + 1;
  const rows = Array.from(sizes, (size) => new Int32Array(size ?? 0));
  const filled = new Int32Array(rows.length);
  for (let item = 0; item < ranks.length; item += 1) {
    const row = ranks[item]!;
    rows[row]![filled[row]!] = item;
    filled[row]! += 1;
  }
  return rows;
}

/** Neighbours of each item in one direction, as flat lists. */
export interface Neighbours {
  readonly start: Int32Array;
  readonly list: Int32Array;
}

/** For each item at an end `of` its links, the items at the other end. */
export function neighbours(items: number, of: Int32Array, other: Int32Array): Neighbours {
  const start = new Int32Array(items + 1);
  for (const item of of) start[item + 1]! += 1;
  for (let item = 0; item < items; item += 1) start[item + 1]! += start[item]!;
  const next = start.slice();
  const list = new Int32Array(of.length);
  for (let link = 0; link < of.length; link += 1) {
    const item = of[link]!;
    list[next[item]!] = other[link]!;
    next[item]! += 1;
  }
  return { start, list };
}
