/** Many stretches of time in lanes, as columns of numbers: nothing is made for each of them. */
import type { Range } from "./range.ts";

export type Column =
  | Float64Array
  | Float32Array
  | Uint32Array
  | Int32Array
  | Uint16Array
  | Int16Array
  | Uint8Array
  | Int8Array;

/** Columns of a table, each by its name. */
export interface Columns {
  readonly [name: string]: Column;
}

/** What spans must have; other columns may stand beside. Rows are sorted by lane, then start. */
export interface SpanColumns {
  readonly lane: Column;
  readonly start: Column;
  readonly end: Column;
  readonly colour: Column;
  /** How much of a span is waiting, from its start on; the rest is work. Nothing, if absent. */
  readonly wait?: Column;
  /** How much of a span is filled, 0 to 255, where it stands for several; all of it, if absent. */
  readonly busy?: Column;
  /** Which rows are marked; the others step back. */
  readonly marked?: Column;
  /** How many a row stands for: those shorter than a column of the picture are merged. */
  readonly count: Column;
}

export interface Found {
  readonly row: number;
  /** How far the place that was asked for is from the span, 0 inside it. */
  readonly off: number;
}

/** Spans by lane, found by time in logarithmic time even where they overlap. */
export class Spans {
  readonly #bounds = new Map<number, readonly [number, number]>();
  /** The latest end of the rows of the lane so far: it only grows, so that it can be searched. */
  readonly #latest: Float64Array;

  constructor(readonly columns: SpanColumns) {
    const { lane, end } = columns;
    const size = lane.length;
    this.#latest = new Float64Array(size);
    for (let first = 0; first < size; ) {
      const key = lane[first]!;
      let latest = Number.NEGATIVE_INFINITY;
      let row = first;
      for (; row < size && lane[row] === key; row += 1) {
        latest = Math.max(latest, end[row]!);
        this.#latest[row] = latest;
      }
      this.#bounds.set(key, [first, row]);
      first = row;
    }
  }

  static readonly none = new Spans({
    lane: new Uint16Array(),
    start: new Float64Array(),
    end: new Float64Array(),
    colour: new Uint8Array(),
    count: new Uint32Array(),
  });

  get size(): number {
    return this.columns.lane.length;
  }

  /** Rows of a lane: from the first up to the last but one. */
  rowsOf(lane: number): readonly [number, number] {
    return this.#bounds.get(lane) ?? [0, 0];
  }

  /** Rows of a lane that may touch a range: all that do are among them. */
  within(lane: number, range: Range): readonly [number, number] {
    const [first, last] = this.rowsOf(lane);
    const { start, end } = this.columns;
    // Moments at the very start of a range, and at its end, are in it.
    const from = Math.min(
      lowest(first, last, (row) => this.#latest[row]! > range.start),
      lowest(first, last, (row) => start[row]! >= range.start),
    );
    let to = lowest(from, last, (row) => start[row]! >= range.end);
    while (to < last && start[to] === range.end && end[to] === range.end) to += 1;
    return [from, to];
  }

  /** The span at a time, the last that began if several are; else the nearest within `slop`. */
  at(lane: number, time: number, slop: number): Found | null {
    const { start, end } = this.columns;
    const [from, to] = this.within(lane, { start: time - slop, end: time + slop + 1e-9 });
    let best: Found | null = null;
    for (let row = to - 1; row >= from; row -= 1) {
      const off = Math.max(0, start[row]! - time, time - end[row]!);
      if (off <= slop && (best === null || off < best.off)) best = { row, off };
      if (best?.off === 0) break;
    }
    return best;
  }

  /** The next row in a lane after one that began at `time`, or the one before: step is 1 or -1. */
  beside(lane: number, time: number, step: 1 | -1): number | null {
    const [first, last] = this.rowsOf(lane);
    const { start } = this.columns;
    const after = lowest(first, last, (row) => start[row]! > time);
    const before = lowest(first, last, (row) => start[row]! >= time) - 1;
    const row = step === 1 ? after : before;
    return row >= first && row < last ? row : null;
  }
}

/** The first row that holds, where all rows after one that holds do too; `last` if none does. */
export function lowest(first: number, last: number, holds: (row: number) => boolean): number {
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
