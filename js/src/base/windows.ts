/** Which stretches of a long recording have been loaded, how finely, and what to ask for next. */
import { contains, meets, type Range, widen, width } from "./range.ts";

/** A stretch that was loaded, in columns of `step`, for some lanes. */
export interface Loaded<T> {
  readonly range: Range;
  readonly step: number;
  readonly keys: ReadonlySet<number>;
  /** Nothing was merged: no closer look would show more. */
  readonly exact: boolean;
  readonly value: T;
}

export interface Wanted {
  readonly range: Range;
  readonly columns: number;
  readonly step: number;
  readonly keys: readonly number[];
}

/** What is loaded beside the view, as a share of it, so that moving a little shows no gap. */
const AROUND = 0.5;
/** More is loaded when less than this is left beside the view. */
const AHEAD = 0.15;
const KEPT = 8;
/** Columns up to this many pixels wide are fine enough. */
const FINE = 1.5;

export class Windows<T> {
  #kept: Loaded<T>[] = [];

  constructor(readonly bounds: Range) {}

  clear(): void {
    this.#kept = [];
  }

  put(loaded: Loaded<T>): void {
    this.#kept = [loaded, ...this.#kept.filter((each) => !covers(loaded, each))].slice(0, KEPT);
  }

  /**
   * The best that is here to draw a view with: of those that show all of it the one with most of
   * its lanes, and of these the finest; or else the one that shows most.
   */
  best(view: Range, keys: readonly number[]): Loaded<T> | null {
    const whole = this.#kept.filter((each) => contains(each.range, clip(view, this.bounds)));
    if (whole.length > 0) {
      const lacks = (each: Loaded<T>): number => keys.filter((key) => !each.keys.has(key)).length;
      const order = (a: Loaded<T>, b: Loaded<T>): number =>
        lacks(a) - lacks(b) || a.step - b.step || Number(b.exact) - Number(a.exact);
      return whole.reduce((a, b) => (order(b, a) < 0 ? b : a));
    }
    const some = this.#kept.filter((each) => meets(each.range, view));
    if (some.length === 0) return null;
    const share = ({ range }: Loaded<T>): number =>
      Math.min(range.end, view.end) - Math.max(range.start, view.start);
    return some.reduce((a, b) => (share(b) > share(a) ? b : a));
  }

  /** What to ask for so that a view of so many pixels is as fine as it can be; null if it is. */
  wanted(view: Range, pixels: number, keys: readonly number[]): Wanted | null {
    const step = 2 ** Math.round(Math.log2(width(view) / Math.max(1, pixels)));
    const near = widen(view, AHEAD, this.bounds);
    const enough = this.#kept.some(
      (each) =>
        contains(each.range, near) &&
        (each.exact || each.step <= FINE * step) &&
        keys.every((key) => each.keys.has(key)),
    );
    if (enough) return null;
    const range = aligned(widen(view, AROUND, this.bounds), step, this.bounds);
    return { range, step, columns: Math.max(1, Math.round(width(range) / step)), keys };
  }
}

/** Columns begin at multiples of their width, so that pictures of one step agree. */
function aligned(range: Range, step: number, bounds: Range): Range {
  const start = Math.floor((range.start - bounds.start) / step) * step + bounds.start;
  const end = Math.ceil((range.end - bounds.start) / step) * step + bounds.start;
  return { start, end };
}

function clip(view: Range, bounds: Range): Range {
  return { start: Math.max(view.start, bounds.start), end: Math.min(view.end, bounds.end) };
}

/** Whether one makes another needless. */
function covers<T>(one: Loaded<T>, other: Loaded<T>): boolean {
  if (!contains(one.range, other.range) || (one.step > other.step && !one.exact)) return false;
  return [...other.keys].every((key) => one.keys.has(key));
}
