import { describe, expect, it } from "vitest";
import { fakeCounts } from "../../dev/counts.ts";
import { compact, firstMetric, heatOf, logScale, metricOf, plotRange, shares } from "./counts.ts";
import type { Roofline } from "./types.ts";

const counts = fakeCounts(0, []);
const uops = counts.uops ?? [];
const line = counts.roofline as Roofline;

describe("heat", () => {
  it("is of memory its bytes and misses, of arithmetic its operations", () => {
    expect(uops.map((row) => metricOf(row, "operations"))).toEqual([0, 16000, 500]);
    expect(uops.map((row) => metricOf(row, "bytes"))).toEqual([4000, 0, 0]);
    expect(uops.map((row) => metricOf(row, "L1 misses"))).toEqual([768, 0, 0]);
  });

  it("is a share of the largest, and 0 where there is nothing", () => {
    expect(heatOf(uops, "operations").get(4)).toEqual({ value: 500, share: 500 / 16000 });
    expect(heatOf([], "runs").size).toBe(0);
    expect(heatOf([{ ...uops[1]!, amount: 0 }], "operations").get(3)?.share).toBe(0);
  });

  it("begins with misses where there are many for the work", () => {
    expect(firstMetric(uops)).toBe("operations");
    expect(firstMetric([{ ...uops[0]!, misses: [5000] }, uops[1]!])).toBe("L1 misses");
  });

  it("is written short", () => {
    expect([0, 999, 1000, 262_144, 16_777_216, 3e12].map(compact)).toEqual([
      "0",
      "999",
      "1.0 k",
      "262 k",
      "16.8 M",
      "3.0 T",
    ]);
  });
});

describe("roofline", () => {
  it("has a logarithmic scale with a tick at each power of ten", () => {
    const scale = logScale(0.1, 1000, 0, 400);
    expect([0.1, 1, 10, 1000].map(scale).map(Math.round)).toEqual([0, 100, 200, 400]);
    expect(scale.ticks).toEqual([0.1, 1, 10, 100, 1000]);
  });

  it("holds its points and the ridges of its roofs", () => {
    const { x, y } = plotRange(line);
    for (const place of [32, 200 / 500, 200 / 50]) {
      expect(place).toBeGreaterThan(x[0]);
      expect(place).toBeLessThan(x[1]);
    }
    expect(100).toBeGreaterThan(y[0]);
    expect(200).toBeLessThan(y[1]);
  });

  it("names the nearest roof first", () => {
    expect(shares(line).map(({ name }) => name)).toEqual(["arithmetic", "L1", "memory"]);
    expect(shares(line)[0]?.text).toBe("100 of 200\u202fGFLOP/s");
  });
});
