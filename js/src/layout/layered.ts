/**
 * The layered layout: rows, order, places, edges. Near-linear, without recursion, and stable: given
 * where nodes were, it keeps them there.
 */
import { buildLayers, type Layers, lastBend, neighbours } from "./layers.ts";
import { countCrossings, orderByOldPlaces, positionsOf, reduceCrossings } from "./order.ts";
import { keepPlaces, relax } from "./place.ts";
import { assignRanks } from "./rank.ts";
import { type Layout, type LayoutInput, NODE_GAP, ROW_GAP } from "./types.ts";

/** Above this share of nodes with an old place the layout is made around the old one. */
const STABLE_SHARE = 0.5;
/** Kept places may make a layout this much wider than its widest row, or this wide, and no more. */
const SPRAWL = 3;
const ROOMY = 1200;

/** The layout as a generator: whoever drives it may stop after any step. */
export function* layered(input: LayoutInput): Generator<void, Layout> {
  const rank = assignRanks(input);
  yield;
  const layers = buildLayers(input, rank);
  const above = neighbours(layers.items, layers.lower, layers.upper);
  const below = neighbours(layers.items, layers.upper, layers.lower);
  yield;
  if (isStable(input)) {
    const wish = orderByOldPlaces(input, layers, above, below);
    const x = keepPlaces(layers, wish, input.oldX);
    yield;
    // What is left of a wide graph would lie far apart.
    if (!sprawls(layers, x)) {
      return finish(input, layers, x, countCrossings(layers, positionsOf(layers), above));
    }
  }
  const crossings = yield* reduceCrossings(layers, above, below, effort(layers.items, 8));
  const x = yield* relax(layers, above, below, input.count, 2 * effort(layers.items, 6));
  return finish(input, layers, x, crossings);
}

/** Runs the layout to its end at once: for tests and small graphs. */
export function layoutNow(input: LayoutInput): Layout {
  const steps = layered(input);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

function isStable(input: LayoutInput): boolean {
  let known = 0;
  for (const x of input.oldX) if (!Number.isNaN(x)) known += 1;
  return input.count > 0 && known >= STABLE_SHARE * input.count;
}

function sprawls(layers: Layers, x: Float32Array): boolean {
  const { left, right } = extent(layers, x);
  const rowWidth = (row: Int32Array): number =>
    row.reduce((sum, item) => sum + layers.widths[item]! + NODE_GAP, 0);
  const widest = layers.rows.reduce((most, row) => Math.max(most, rowWidth(row)), 0);
  return right - left > Math.max(ROOMY, SPRAWL * widest);
}

/** Fewer sweeps for larger graphs. */
function effort(items: number, most: number): number {
  if (items < 2000) return most;
  return items < 12000 ? Math.ceil(most / 2) : 2;
}

function finish(input: LayoutInput, layers: Layers, x: Float32Array, crossings: number): Layout {
  const { tops, centres, height } = rowPlaces(input, layers);
  const { left, right } = extent(layers, x);
  const y = new Float32Array(input.count);
  for (let node = 0; node < input.count; node += 1) y[node] = centres[layers.rank[node]!]!;
  const { pointStart, points } = routeEdges(input, layers, x, y, tops, centres);
  return {
    x: x.slice(0, input.count),
    y,
    rank: layers.rank.slice(0, input.count),
    pointStart,
    points,
    width: right - left,
    height,
    crossings,
    dummies: layers.dummies,
  };
}

function extent(layers: Layers, x: Float32Array): { left: number; right: number } {
  let left = Number.POSITIVE_INFINITY;
  let right = Number.NEGATIVE_INFINITY;
  for (let item = 0; item < layers.items; item += 1) {
    left = Math.min(left, x[item]! - layers.widths[item]! / 2);
    right = Math.max(right, x[item]! + layers.widths[item]! / 2);
  }
  return left <= right ? { left, right } : { left: 0, right: 0 };
}

/** y grows downwards and the root's row ends at 0, so that rows below a change do not move. */
function rowPlaces(
  input: LayoutInput,
  layers: Layers,
): { tops: Float32Array; centres: Float32Array; height: number } {
  const rows = layers.rows.length;
  const tops = new Float32Array(rows);
  const centres = new Float32Array(rows);
  let bottom = 0;
  for (let r = 0; r < rows; r += 1) {
    let height = 0;
    for (const item of layers.rows[r]!) {
      if (item < input.count) height = Math.max(height, input.heights[item]!);
    }
    tops[r] = bottom - height;
    centres[r] = bottom - height / 2;
    bottom -= height + ROW_GAP;
  }
  return { tops, centres, height: rows === 0 ? 0 : -bottom - ROW_GAP };
}

/** Each edge from the foot of its source, through its bends, to its port on the consumer. */
function routeEdges(
  input: LayoutInput,
  layers: Layers,
  x: Float32Array,
  y: Float32Array,
  tops: Float32Array,
  centres: Float32Array,
): { pointStart: Int32Array; points: Float32Array } {
  const { count, srcStart, src, widths, heights } = input;
  const pointStart = new Int32Array(src.length + 1);
  const points: number[] = [];
  for (let node = 0; node < count; node += 1) {
    const first = srcStart[node]!;
    const ports = srcStart[node + 1]! - first;
    for (let e = first; e < first + ports; e += 1) {
      const source = src[e]!;
      points.push(x[source]!, y[source]! + heights[source]! / 2);
      const last = lastBend(layers.bendStart, layers.rank, source, layers.rank[node]!);
      if (last >= count) {
        for (let bend = layers.bendStart[source]!; bend <= last; bend += 1) {
          const row = layers.rank[bend]!;
          points.push(x[bend]!, tops[row]!, x[bend]!, 2 * centres[row]! - tops[row]!);
        }
      }
      const port = ((e - first + 1) / (ports + 1) - 0.5) * Math.min(widths[node]! - 12, ports * 26);
      points.push(x[node]! + port, y[node]! - heights[node]! / 2);
      pointStart[e + 1] = points.length / 2;
    }
  }
  return { pointStart, points: Float32Array.from(points) };
}
