import { describe, expect, it } from "vitest";
import { Rows } from "../base/rows.ts";
import { Spans } from "../base/spans.ts";
import { type LaneState, paintLanes } from "./lane_paint.ts";
import type { Palette } from "./theme.ts";

type Box = readonly [x: number, y: number, wide: number, high: number];

/** What is painted of spans in one lane, seen from 0 to 100 on 100 pixels; of the ruler the texts. */
function painted(spans: readonly (readonly [number, number])[]) {
  const bars: Box[] = [];
  const texts: [string, number][] = [];
  let fill = "";
  const context = new Proxy({} as Record<string, unknown>, {
    get: (_, name) => {
      if (name === "measureText") return (text: string) => ({ width: 6 * text.length });
      if (name === "fillText") return (text: string, x: number) => void texts.push([text, x]);
      if (name === "fillRect")
        return (...box: number[]) => void (fill === "bar" && bars.push(box as unknown as Box));
      return () => undefined;
    },
    set: (_, name, value) => {
      if (name === "fillStyle") fill = String(value);
      return true;
    },
  });
  const state: LaneState = {
    frame: { width: 100, height: 60, gutter: 0, ruler: 20 },
    ratio: 1,
    view: { start: 0, end: 100 },
    unit: "ns",
    rows: new Rows([{ key: 0, label: "", kind: "spans", height: 20, group: "" }], new Set()),
    scrollTop: 0,
    window: {
      spans: new Spans({
        lane: new Uint16Array(spans.length),
        start: Float64Array.from(spans, ([start]) => start),
        end: Float64Array.from(spans, ([, end]) => end),
        colour: new Uint8Array(spans.length),
        count: new Uint32Array(spans.length).fill(1),
      }),
      curves: new Map(),
    },
    palette: { background: "ground", kinds: {} } as Palette,
    swatches: [{ fill: "bar", ink: "ink" }],
    folded: new Set(),
    selected: null,
    hovered: null,
    stretch: null,
    markers: [],
    cursor: null,
    dims: false,
    label: () => "",
  };
  const count = paintLanes(context as unknown as CanvasRenderingContext2D, state);
  return { bars, texts, count };
}

describe("the lanes' picture", () => {
  it("has a tick for each moment, also at a bar's end and at the end of all", () => {
    const { bars, count } = painted([
      [0, 0],
      [10, 30],
      [30, 30],
      [50, 50],
      [100, 100],
    ]);
    expect(count).toBe(5);
    expect(bars.map(([x]) => x)).toEqual([0, 10, 30, 50, 98]);
    for (const [, , wide] of bars) expect(wide).toBeGreaterThanOrEqual(1);
  });
  it("paints one of many moments on a pixel", () => {
    expect(
      painted([
        [40, 40],
        [40, 40],
        [40.2, 40.2],
        [44, 44],
      ]).count,
    ).toBe(2);
  });
  it("cuts no label of the ruler", () => {
    const { texts } = painted([]);
    const marks = texts.filter(([text]) => /\d/.test(text));
    expect(marks.length).toBeGreaterThan(0);
    for (const [text, x] of marks) expect(x + 6 * text.length).toBeLessThanOrEqual(100);
  });
});
