/** The order of items in their rows, with few crossings, or as it was. */
import type { Layers, Neighbours } from "./layers.ts";
import type { LayoutInput } from "./types.ts";

/** Places of items in their rows. */
export function positionsOf(layers: Layers): Float32Array {
  const position = new Float32Array(layers.items);
  for (const row of layers.rows) {
    for (let i = 0; i < row.length; i += 1) position[row[i]!] = i;
  }
  return position;
}

/** A first order: each row as a walk from the roots up to the sources meets its items. */
export function orderByWalk(layers: Layers, above: Neighbours): void {
  const met = new Float64Array(layers.items).fill(Number.POSITIVE_INFINITY);
  let clock = 0;
  const stack: number[] = [];
  // The lowest row is walked first; what no walk reached from there follows, row by row.
  for (let r = layers.rows.length - 1; r >= 0; r -= 1) {
    for (const item of layers.rows[r]!.toReversed()) stack.push(item);
  }
  while (stack.length > 0) {
    const item = stack.pop()!;
    if (met[item]! < Number.POSITIVE_INFINITY) continue;
    met[item] = clock;
    clock += 1;
    for (let e = above.start[item + 1]! - 1; e >= above.start[item]!; e -= 1) {
      if (met[above.list[e]!]! === Number.POSITIVE_INFINITY) stack.push(above.list[e]!);
    }
  }
  for (const row of layers.rows) row.sort((a, b) => met[a]! - met[b]!);
}

/** One sweep: each row is sorted by the mean place of its neighbours in the row before it. */
export function sweep(
  layers: Layers,
  position: Float32Array,
  towards: Neighbours,
  upwards: boolean,
): void {
  const rows = layers.rows;
  const key = new Float32Array(layers.items);
  for (let step = 1; step < rows.length; step += 1) {
    const row = rows[upwards ? step : rows.length - 1 - step]!;
    for (const item of row) {
      const from = towards.start[item]!;
      const to = towards.start[item + 1]!;
      let sum = 0;
      for (let e = from; e < to; e += 1) sum += position[towards.list[e]!]!;
      key[item] = to > from ? sum / (to - from) : position[item]!;
    }
    row.sort((a, b) => key[a]! - key[b]! || position[a]! - position[b]!);
    for (let i = 0; i < row.length; i += 1) position[row[i]!] = i;
  }
}

/** How many pairs of links cross, counted row by row in n log n. */
export function countCrossings(layers: Layers, position: Float32Array, above: Neighbours): number {
  let crossings = 0;
  for (let r = 0; r + 1 < layers.rows.length; r += 1) {
    const ends = new PlaceCounts(layers.rows[r + 1]!.length);
    for (const item of layers.rows[r]!) {
      const from = above.start[item]!;
      const to = above.start[item + 1]!;
      for (let e = from; e < to; e += 1) crossings += ends.after(position[above.list[e]!]!);
      for (let e = from; e < to; e += 1) ends.add(position[above.list[e]!]!);
    }
  }
  return crossings;
}

/** How often each place was met, with sums of ranges in log n (a Fenwick tree). */
class PlaceCounts {
  readonly #tree: Int32Array;
  #total = 0;

  constructor(size: number) {
    this.#tree = new Int32Array(size + 1);
  }

  add(place: number): void {
    this.#total += 1;
    for (let at = place + 1; at < this.#tree.length; at += at & -at) this.#tree[at]! += 1;
  }

  /** How many of the places that were met lie after this one. */
  after(place: number): number {
    let upTo = 0;
    for (let at = place + 1; at > 0; at -= at & -at) upTo += this.#tree[at]!;
    return this.#total - upTo;
  }
}

/** Sweeps both ways and keeps the best order. A generator: the caller may stop between sweeps. */
export function* reduceCrossings(
  layers: Layers,
  above: Neighbours,
  below: Neighbours,
  rounds: number,
): Generator<void, number> {
  orderByWalk(layers, above);
  const position = positionsOf(layers);
  let best = countCrossings(layers, position, above);
  let bestRows = layers.rows.map((row) => row.slice());
  for (let round = 0; round < rounds && best > 0; round += 1) {
    yield;
    sweep(layers, position, below, true);
    yield;
    sweep(layers, position, above, false);
    const crossings = countCrossings(layers, position, above);
    if (crossings >= best) continue;
    best = crossings;
    bestRows = layers.rows.map((row) => row.slice());
  }
  for (let r = 0; r < layers.rows.length; r += 1) layers.rows[r]!.set(bestRows[r]!);
  return best;
}

/**
 * The order that keeps nodes where they were: rows are sorted by old x; a new item goes to where
 * its neighbours are. Returns the x that each item would like.
 */
export function orderByOldPlaces(
  input: LayoutInput,
  layers: Layers,
  above: Neighbours,
  below: Neighbours,
): Float32Array {
  const wish = new Float32Array(layers.items).fill(Number.NaN);
  wish.set(input.oldX);
  for (const row of layers.rows) wishFromNeighbours(row, below, wish);
  for (const row of layers.rows.toReversed()) wishFromNeighbours(row, above, wish);
  for (let item = 0; item < layers.items; item += 1) wish[item] ||= 0;
  for (const row of layers.rows) row.sort((a, b) => wish[a]! - wish[b]! || a - b);
  return wish;
}

/** Items of a row without a wish take the mean of those of their neighbours that have one. */
function wishFromNeighbours(row: Int32Array, near: Neighbours, wish: Float32Array): void {
  for (const item of row) {
    if (!Number.isNaN(wish[item]!)) continue;
    let sum = 0;
    let count = 0;
    for (let e = near.start[item]!; e < near.start[item + 1]!; e += 1) {
      const other = wish[near.list[e]!]!;
      if (Number.isNaN(other)) continue;
      sum += other;
      count += 1;
    }
    if (count > 0) wish[item] = sum / count;
  }
}
