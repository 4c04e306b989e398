/** Stretches of time and how they change: zooming about a place, moving, staying inside. */

/** From `start` up to `end`, in whatever the clock counts. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** How far a view may go: it stays in `bounds` and is never narrower than `least`. */
export interface Limits {
  readonly bounds: Range;
  readonly least: number;
}

export const width = (range: Range): number => range.end - range.start;

export const contains = (outer: Range, inner: Range): boolean =>
  outer.start <= inner.start && inner.end <= outer.end;

export const meets = (a: Range, b: Range): boolean => a.start < b.end && b.start < a.end;

/** A range inside the limits, of the same width if that fits. */
export function keepWithin(range: Range, { bounds, least }: Limits): Range {
  const most = Math.max(width(bounds), least);
  const size = Math.min(most, Math.max(least, width(range)));
  // What is widened grows about its middle.
  const wanted = (range.start + range.end - size) / 2;
  const last = Math.max(bounds.start, bounds.start + most - size);
  const start = Math.min(last, Math.max(bounds.start, wanted));
  return { start, end: start + size };
}

/** Scales about `at`, which stays where it is: a factor of 2 shows half as much. */
export function zoomRange(range: Range, factor: number, at: number, limits: Limits): Range {
  const most = Math.max(width(limits.bounds), limits.least);
  const size = Math.min(most, Math.max(limits.least, width(range) / factor));
  const part = (at - range.start) / width(range);
  const start = at - part * size;
  return keepWithin({ start, end: start + size }, limits);
}

/** Moves by an amount of time. */
export function moveRange(range: Range, by: number, limits: Limits): Range {
  return keepWithin({ start: range.start + by, end: range.end + by }, limits);
}

/** More of both sides: a share of 0.5 shows twice as much. */
export function widen(range: Range, share: number, bounds: Range): Range {
  const more = width(range) * share;
  return {
    start: Math.max(bounds.start, range.start - more),
    end: Math.min(bounds.end, range.end + more),
  };
}

/** Moves as little as shows a stretch; what is wider than the view is shown whole. */
export function reveal(range: Range, shown: Range, limits: Limits): Range {
  if (contains(range, shown)) return range;
  const air = 0.1 * width(range);
  if (width(shown) > width(range) - 2 * air) {
    const more = 0.25 * width(shown);
    return keepWithin({ start: shown.start - more, end: shown.end + more }, limits);
  }
  const by =
    shown.start < range.start ? shown.start - air - range.start : shown.end + air - range.end;
  return moveRange(range, by, limits);
}
