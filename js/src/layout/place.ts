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
  const mean = new Float64Array(n);
  const mass = new Float64Array(n);
  const size = new Int32Array(n);
  let blocks = 0;
  for (let i = 0; i < n; i += 1) {
    mean[blocks] = wish[row[i]!]! - offset[i]!;
    mass[blocks] = weight[row[i]!]!;
    size[blocks] = 1;
    blocks += 1;
    while (blocks > 1 && mean[blocks - 2]! >= mean[blocks - 1]!) {
      const a = blocks - 2;
      const b = blocks - 1;
      const total = mass[a]! + mass[b]!;
      mean[a] = (mean[a]! * mass[a]! + mean[b]! * mass[b]!) / total;
      mass[a] = total;
      size[a]! += size[b]!;
      blocks -= 1;
    }
  }
  let i = 0;
  for (let block = 0; block < blocks; block += 1) {
    for (let k = 0; k < size[block]!; k += 1, i += 1) x[row[i]!] = mean[block]! + offset[i]!;
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
  const weight = new Float32Array(items);
  for (let item = 0; item < items; item += 1) weight[item] = item < nodes ? 1 : BEND_PULL;
  for (let round = 0; round < rounds; round += 1) {
    const upwards = round % 2 === 0;
    const last = round >= rounds - 2;
    for (let step = 0; step < rows.length; step += 1) {
      const row = rows[upwards ? step : rows.length - 1 - step]!;
      for (const item of row) {
        const own = mean(item, upwards ? below : above, x);
        const other = last ? mean(item, upwards ? above : below, x) : Number.NaN;
        wish[item] = blend(own, other, x[item]!);
      }
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
