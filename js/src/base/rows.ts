/** Rows of a picture with lanes: their heights, which are folded, which are in sight. */
import { lowest } from "./spans.ts";

export interface LaneRow {
  /** The number that spans of this lane carry; of heads and curves, any number of their own. */
  readonly key: number;
  readonly label: string;
  readonly kind: "spans" | "curve" | "head";
  readonly height: number;
  /** Rows of one group follow its head and are folded with it; a row that begins with it is in it. */
  readonly group: string;
  readonly title?: string;
}

/** The rows that are shown, from top to bottom. */
export class Rows {
  readonly shown: readonly LaneRow[];
  /** Where each begins, and where the last ends. */
  readonly tops: Float64Array;

  constructor(
    readonly all: readonly LaneRow[],
    readonly folded: ReadonlySet<string>,
  ) {
    this.shown = all.filter((row) => row.kind === "head" || !folded.has(row.group));
    this.tops = new Float64Array(this.shown.length + 1);
    for (const [i, row] of this.shown.entries()) this.tops[i + 1] = this.tops[i]! + row.height;
  }

  get height(): number {
    return this.tops[this.shown.length]!;
  }

  /** Rows between two heights: from the first up to the last but one. */
  between(top: number, bottom: number): readonly [number, number] {
    const size = this.shown.length;
    const from = lowest(0, size, (row) => this.tops[row + 1]! > top);
    const to = lowest(from, size, (row) => this.tops[row]! >= bottom);
    return [from, to];
  }

  /** The row at a height; null under the last. */
  at(y: number): number | null {
    const [row, to] = this.between(y, y + 1e-6);
    return y >= 0 && row < to ? row : null;
  }

  /** Where the row with a key stands; -1 if it is folded or not there. */
  indexOf(key: number): number {
    return this.shown.findIndex((row) => row.key === key && row.kind !== "head");
  }
}
