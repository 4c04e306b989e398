/** x of each item: near its neighbours, in the order of its row, without overlap. */
import type { Layers, Neighbours } from "./layers.ts";
import { NODE_GAP } from "./types.ts";

/**
 * Moves the items of a row to where they would like to be, as far as order and widths allow:
 * the places that minimise the weighted sum of squared distances (pool adjacent violators).
 */
export function placeRow(
  row: Int32Array,
  widths: Float32Array,
  wish: Float32Array,
  weight: Float32Array,
  x: Float32Array,
): void {
  const n = row.length;
  const offset = new Float64Array(n);
  for (let i = 1; i < n; i += 1) {
    offset[i] = offset[i - 1]! + (widths[row[i - 1]!]! + widths[row[i]!]!) / 2 + NODE_GAP;
  }
  // Blocks of items that touch: each stands at the weighted mean of what its items would like.
  const mean = new Float64Array(n);
  const mass = new Float64Array(n);
  const end = new Int32Array(n);
  let blocks = 0;
  for (let i = 0; i < n; i += 1) {
    let place = wish[row[i]!]! - offset[i]!;
    let weighs = weight[row[i]!]!;
    while (blocks > 0 && mean[blocks - 1]! >= place) {
      blocks -= 1;
      const total = mass[blocks]! + weighs;
      place = (mean[blocks]! * mass[blocks]! + place * weighs) / total;
      weighs = total;
    }
    mean[blocks] = place;
    mass[blocks] = weighs;
    end[blocks] = i + 1;
    blocks += 1;
  }
  for (let block = 0, i = 0; block < blocks; block += 1) {
    for (; i < end[block]!; i += 1) x[row[i]!] = mean[block]! + offset[i]!;
  }
}

const BEND_PULL = 4;

/** Sweeps that pull each item towards the mean of its neighbours; stops are between sweeps. */
export function* relax(
  layers: Layers,
  above: Neighbours,
  below: Neighbours,
  nodes: number,
  rounds: number,
): Generator<void, Float32Array> {
  const { items, rows, widths } = layers;
  const x = new Float32Array(items);
  for (const row of rows) packRow(row, widths, x);
  const wish = new Float32Array(items);
  const weight = new Float32Array(items).fill(BEND_PULL).fill(1, 0, nodes);
  for (let round = 0; round < rounds; round += 1) {
    const upwards = round % 2 === 0;
    const [from, other] = upwards ? [below, above] : [above, below];
    // The last rounds look both ways, so that nodes end between their neighbours.
    const second = round >= rounds - 2 ? other : null;
    const pull = (item: number): number =>
      blend(mean(item, from, x), second ? mean(item, second, x) : Number.NaN, x[item]!);
    for (const row of upwards ? rows : rows.toReversed()) {
      for (const item of row) wish[item] = pull(item);
      placeRow(row, widths, wish, weight, x);
    }
    yield;
  }
  return x;
}

/** Like `relax` for a graph whose nodes were placed before: they stay, and the new ones fit in. */
export function keepPlaces(layers: Layers, wish: Float32Array, old: Float32Array): Float32Array {
  const x = new Float32Array(layers.items);
  const weight = new Float32Array(layers.items).fill(1);
  for (let item = 0; item < old.length; item += 1) if (!Number.isNaN(old[item]!)) weight[item] = 50;
  for (const row of layers.rows) placeRow(row, layers.widths, wish, weight, x);
  return x;
}

function packRow(row: Int32Array, widths: Float32Array, x: Float32Array): void {
  let total = -NODE_GAP;
  for (const item of row) total += widths[item]! + NODE_GAP;
  let left = -total / 2;
  for (const item of row) {
    x[item] = left + widths[item]! / 2;
    left += widths[item]! + NODE_GAP;
  }
}

function mean(item: number, near: Neighbours, x: Float32Array): number {
  const from = near.start[item]!;
  const to = near.start[item + 1]!;
  if (from === to) return Number.NaN;
  let sum = 0;
  for (let e = from; e < to; e += 1) sum += x[near.list[e]!]!;
  return sum / (to - from);
}

function blend(own: number, other: number, now: number): number {
  if (Number.isNaN(own)) return Number.isNaN(other) ? now : other;
  return Number.isNaN(other) ? own : (own + other) / 2;
}
