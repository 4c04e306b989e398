import { describe, expect, it } from "vitest";
import { keepWithin, type Limits, moveRange, reveal, widen, zoomRange } from "./range.ts";
import { type LaneRow, Rows } from "./rows.ts";
import { lengthText, niceStep, rulerOf, timeText } from "./ruler.ts";
import { Spans } from "./spans.ts";
import { Windows } from "./windows.ts";

const limits: Limits = { bounds: { start: 0, end: 1000 }, least: 8 };
const range = (start: number, end: number) => ({ start, end });

describe("ranges", () => {
  it("zoom about a place, which stays", () => {
    const seen = zoomRange(range(0, 1000), 4, 250, limits);
    expect(seen).toEqual(range(187.5, 437.5));
    expect((250 - seen.start) / 250).toBeCloseTo(0.25);
  });
  it("never leave the bounds, nor get narrower than the least", () => {
    expect(zoomRange(range(0, 10), 1e9, 5, limits)).toEqual(range(1, 9));
    expect(zoomRange(range(400, 500), 1e-9, 450, limits)).toEqual(limits.bounds);
    expect(moveRange(range(900, 950), 400, limits)).toEqual(range(950, 1000));
    expect(moveRange(range(100, 150), -400, limits)).toEqual(range(0, 50));
    expect(keepWithin(range(-50, 3000), limits)).toEqual(limits.bounds);
  });
  it("show a recording that is shorter than the least", () => {
    const short = { bounds: range(5, 6), least: 8 };
    expect(keepWithin(range(0, 100), short)).toEqual(range(5, 13));
  });
  it("reveal moves as little as it must", () => {
    expect(reveal(range(0, 100), range(20, 30), limits)).toEqual(range(0, 100));
    expect(reveal(range(0, 100), range(150, 160), limits)).toEqual(range(70, 170));
    expect(reveal(range(200, 300), range(150, 160), limits)).toEqual(range(140, 240));
    const wide = reveal(range(0, 100), range(200, 500), limits);
    expect(wide).toEqual(range(125, 575));
  });
  it("widen stops at the bounds", () => {
    expect(widen(range(100, 200), 2, limits.bounds)).toEqual(range(0, 400));
  });
});

describe("the ruler", () => {
  it("counts in 1, 2, 5", () => {
    expect([0.7, 1, 1.5, 2, 3, 7, 11, 400].map(niceStep)).toEqual([1, 1, 2, 2, 5, 10, 20, 500]);
  });
  it("marks whole cycles however close one looks", () => {
    const close = rulerOf(range(1234, 1244), 1000, "cycles");
    expect(close.step).toBe(1);
    expect(close.ticks.map((tick) => tick.at)).toEqual(
      Array.from({ length: 11 }, (_, i) => 1234 + i),
    );
    expect(close.ticks[0]?.label).toBe("1,234");
  });
  it("keeps marks apart", () => {
    for (const size of [7, 990, 123456, 9e12]) {
      const { step } = rulerOf(range(0, size), 800, "ns");
      expect((step / size) * 800).toBeGreaterThanOrEqual(89.9);
    }
  });
  it("names units by what is seen", () => {
    const labels = (start: number, end: number) =>
      rulerOf(range(start, end), 400, "ns").ticks.map((tick) => tick.label);
    expect(labels(0, 4e9)[1]).toBe("1\u202fs");
    expect(labels(0, 4e6)[1]).toBe("1\u202fms");
    expect(labels(0, 400)[1]).toBe("100\u202fns");
  });
  it("counts from near by where labels would be long", () => {
    const far = rulerOf(range(9_876_543_210, 9_876_543_250), 400, "ns");
    expect(far.base).not.toBe("");
    expect(far.ticks.every((tick) => tick.label.startsWith("+"))).toBe(true);
    expect(far.ticks.every((tick) => tick.label.length < 12)).toBe(true);
  });
  it("writes times and lengths", () => {
    expect(timeText(1_234_567, "ns")).toBe("1.234567\u202fms");
    expect(timeText(1_000_000, "ns")).toBe("1\u202fms");
    expect(timeText(100, "ns")).toBe("100\u202fns");
    expect(timeText(1_234_567, "cycles")).toBe("1,234,567\u202fcycles");
    expect(lengthText(1, "cycles")).toBe("1\u202fcycle");
    expect(lengthText(1536, "ns")).toBe("1.54\u202fµs");
  });
});

function spansOf(rows: readonly (readonly [number, number, number])[]): Spans {
  return new Spans({
    lane: Uint16Array.from(rows, (row) => row[0]),
    start: Float64Array.from(rows, (row) => row[1]),
    end: Float64Array.from(rows, (row) => row[2]),
    colour: new Uint8Array(rows.length),
    count: new Uint32Array(rows.length).fill(1),
  });
}

describe("spans", () => {
  const spans = spansOf([
    [1, 0, 10],
    [1, 10, 20],
    [1, 30, 31],
    [4, 0, 100],
    [4, 5, 6],
    [4, 50, 60],
  ]);
  it("finds those of a lane that touch a range", () => {
    expect(spans.within(1, range(12, 30))).toEqual([1, 2]);
    expect(spans.within(1, range(20, 30))).toEqual([2, 2]);
    expect(spans.within(2, range(0, 100))).toEqual([0, 0]);
  });
  it("finds moments also at the start and at the end of a range", () => {
    const moments = spansOf([
      [1, 0, 5],
      [1, 5, 5],
      [1, 9, 9],
      [1, 9, 12],
    ]);
    expect(moments.within(1, range(5, 9))).toEqual([1, 3]);
    expect(moments.within(1, range(6, 8))).toEqual([2, 2]);
  });
  it("misses none that are long and began before others", () => {
    const [from, to] = spans.within(4, range(70, 80));
    expect(from).toBe(3);
    expect(to).toBe(6);
    expect(spans.at(4, 70, 0)?.row).toBe(3);
  });
  it("finds the last that began, or the nearest", () => {
    expect(spans.at(4, 55, 0)).toEqual({ row: 5, off: 0 });
    expect(spans.at(1, 29, 2)).toEqual({ row: 2, off: 1 });
    expect(spans.at(1, 25, 2)).toBeNull();
    expect(spans.at(7, 25, 2)).toBeNull();
  });
  it("steps to neighbours in the lane only", () => {
    expect(spans.beside(1, 10, 1)).toBe(2);
    expect(spans.beside(1, 10, -1)).toBe(0);
    expect(spans.beside(1, 30, 1)).toBeNull();
    expect(spans.beside(1, 0, -1)).toBeNull();
  });
  it("agrees with looking at every row", () => {
    let seed = 7;
    const random = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % n;
    };
    const rows = Array.from({ length: 300 }, () => {
      const start = random(1000);
      return [random(4), start, start + 1 + random(random(3) === 0 ? 300 : 20)] as const;
    }).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const many = spansOf(rows);
    for (let i = 0; i < 200; i += 1) {
      const [lane, start] = [random(4), random(1100)];
      const asked = range(start, start + random(100));
      const [from, to] = many.within(lane, asked);
      rows.forEach(([its, begin, end], row) => {
        const touches = its === lane && begin < asked.end && end > asked.start;
        if (touches) expect(row >= from && row < to).toBe(true);
      });
      const at = many.at(lane, start, 0);
      const there = rows.filter(([its, a, b]) => its === lane && a <= start && start <= b);
      expect(at !== null).toBe(there.length > 0);
    }
  });
});

describe("rows", () => {
  const row = (key: number, kind: LaneRow["kind"], group: string, height = 10): LaneRow => ({
    key,
    kind,
    group,
    height,
    label: "",
  });
  const all = [
    row(0, "head", "a", 20),
    row(1, "spans", "a"),
    row(2, "spans", "a"),
    row(0, "head", "b", 20),
    row(3, "curve", "b", 30),
  ];
  it("stand under each other, without those of folded groups", () => {
    const open = new Rows(all, new Set());
    expect([...open.tops]).toEqual([0, 20, 30, 40, 60, 90]);
    const folded = new Rows(all, new Set(["a"]));
    expect(folded.shown.map((each) => each.kind)).toEqual(["head", "head", "curve"]);
    expect(folded.indexOf(1)).toBe(-1);
    expect(folded.indexOf(3)).toBe(2);
  });
  it("are found by height", () => {
    const open = new Rows(all, new Set());
    expect([0, 19, 20, 39, 89, 90, -1].map((y) => open.at(y))).toEqual([0, 0, 1, 2, 4, null, null]);
    expect(open.between(25, 45)).toEqual([1, 4]);
  });
});

describe("windows", () => {
  const bounds = range(0, 1 << 20);
  const keys = [1, 2];
  const load = (windows: Windows<string>, view: { start: number; end: number }, name: string) => {
    const wanted = windows.wanted(view, 1000, keys);
    if (wanted) {
      const { range: loaded, step } = wanted;
      windows.put({
        range: loaded,
        step,
        keys: new Set(wanted.keys),
        exact: step <= 1,
        value: name,
      });
    }
    return wanted;
  };
  it("asks once for what a view needs, with some around it", () => {
    const windows = new Windows<string>(bounds);
    const wanted = load(windows, range(100_000, 200_000), "a")!;
    expect(wanted.range.start).toBeLessThanOrEqual(50_000);
    expect(wanted.range.end).toBeGreaterThanOrEqual(250_000);
    expect(wanted.columns * wanted.step).toBe(wanted.range.end - wanted.range.start);
    expect(wanted.columns).toBeLessThan(4000);
    expect(windows.wanted(range(100_000, 200_000), 1000, keys)).toBeNull();
    expect(windows.wanted(range(110_000, 210_000), 1000, keys)).toBeNull();
  });
  it("asks again before the border is reached, for a closer look, and for other lanes", () => {
    const windows = new Windows<string>(bounds);
    load(windows, range(100_000, 200_000), "a");
    expect(windows.wanted(range(145_000, 245_000), 1000, keys)).not.toBeNull();
    expect(windows.wanted(range(100_000, 120_000), 1000, keys)).not.toBeNull();
    expect(windows.wanted(range(100_000, 200_000), 1000, [1, 2, 3])).not.toBeNull();
    expect(windows.wanted(range(100_000, 200_000), 1000, [2])).toBeNull();
  });
  it("asks for no closer look at what was not merged", () => {
    const windows = new Windows<string>(bounds);
    load(windows, range(5000, 6000), "exact");
    expect(windows.wanted(range(5500, 5510), 1000, keys)).toBeNull();
  });
  it("draws with what it has: the finest that shows all, or most of it", () => {
    const windows = new Windows<string>(bounds);
    expect(windows.best(range(0, 10), [0])).toBeNull();
    load(windows, bounds, "whole");
    load(windows, range(100_000, 110_000), "close");
    expect(windows.best(range(101_000, 102_000), [0])?.value).toBe("close");
    expect(windows.best(range(100_000, 400_000), [0])?.value).toBe("whole");
  });
  it("draws rather all lanes coarsely than some of them finely", () => {
    const windows = new Windows<string>(bounds);
    const put = (step: number, lanes: number[], value: string): void =>
      windows.put({ range: bounds, step, keys: new Set(lanes), exact: false, value });
    put(1, [1], "fine");
    put(2, [1, 2], "all lanes");
    expect(windows.best(bounds, [1, 2])?.value).toBe("all lanes");
    expect(windows.best(bounds, [1])?.value).toBe("fine");
  });
  it("forgets what a better one covers", () => {
    const windows = new Windows<string>(bounds);
    load(windows, range(100_000, 110_000), "small");
    const step = 1;
    windows.put({ range: bounds, step, keys: new Set(keys), exact: true, value: "all" });
    expect(windows.best(range(100_000, 110_000), [0])?.value).toBe("all");
  });
});
