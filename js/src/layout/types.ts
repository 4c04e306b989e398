/** What the layout is given and what it gives back: flat arrays, cheap to hand to a worker. */

export interface LayoutInput {
  readonly count: number;
  readonly widths: Float32Array;
  readonly heights: Float32Array;
  /** Sources of node i are `src[srcStart[i]] .. src[srcStart[i + 1] - 1]`; each is below i. */
  readonly srcStart: Int32Array;
  readonly src: Int32Array;
  /** Where nodes were in the layout before, for those that were there; else NaN and -1. */
  readonly oldX: Float32Array;
  readonly oldRank: Int32Array;
}

export interface Layout {
  readonly x: Float32Array;
  readonly y: Float32Array;
  /** Rows counted from the root, which is at the bottom. */
  readonly rank: Int32Array;
  /** Edge e (in the order of `src`) runs through `points[pointStart[e]] ..`, as x and y by turns. */
  readonly pointStart: Int32Array;
  readonly points: Float32Array;
  readonly width: number;
  readonly height: number;
  readonly crossings: number;
  readonly dummies: number;
}

export const ROW_GAP = 30;
export const NODE_GAP = 18;
export const DUMMY_WIDTH = 8;
