/** What counters say, in the forms that the views show. */
import { THIN_SPACE } from "../base/text.ts";
import type { CellCounts, Counts, Roofline, UopCounts } from "./types.ts";

/** What heat may stand for. */
export const METRICS = ["operations", "bytes", "L1 misses", "runs"] as const;
export type Metric = (typeof METRICS)[number];

/** A uop's figure: of arithmetic its operations, of memory its bytes and misses. */
export function metricOf(row: UopCounts, metric: Metric): number {
  if (metric === "runs") return row.runs;
  if (metric === "bytes") return row.bytes;
  if (metric === "L1 misses") return row.misses[0] ?? 0;
  return row.op === "LOAD" || row.op === "STORE" ? 0 : row.amount;
}

/** The same of a line of the cell, which has no runs of its own: its operations. */
export function lineMetric(row: CellCounts, metric: Metric): number {
  if (metric === "bytes") return row.bytes;
  return metric === "L1 misses" ? row.misses : row.operations;
}

/** The metric that says most of a kernel: misses if it has any worth the name, else operations. */
export function firstMetric(rows: readonly UopCounts[]): Metric {
  const total = (metric: Metric) => rows.reduce((sum, row) => sum + metricOf(row, metric), 0);
  return total("L1 misses") * 20 > total("operations") ? "L1 misses" : "operations";
}

export interface Heat {
  readonly value: number;
  /** Of the largest value, 0 to 1. */
  readonly share: number;
}

/** Heat of each uop by its place in the program. */
export function heatOf(rows: readonly UopCounts[], metric: Metric): ReadonlyMap<number, Heat> {
  const most = Math.max(1, ...rows.map((row) => metricOf(row, metric)));
  return new Map(
    rows.map((row) => {
      const value = metricOf(row, metric);
      return [row.uop, { value, share: value / most }];
    }),
  );
}

/** 262144 -> "262 k": short enough for a margin */
export function compact(n: number): string {
  const units = ["", "k", "M", "G", "T"];
  let value = n;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text = unit === 0 || value >= 100 ? Math.round(value).toString() : value.toFixed(1);
  return unit === 0 ? text : `${text} ${units[unit]}`;
}

/** The share of each roof that a kernel reaches, the nearest roof first. */
export function shares(line: Roofline): readonly { name: string; share: number; text: string }[] {
  const { machine, points } = line;
  const arithmetic = {
    name: "arithmetic",
    share: line.gflops / machine.arithmetic.rate,
    text: `${short(line.gflops)} of ${short(machine.arithmetic.rate)}${THIN_SPACE}GFLOP/s`,
  };
  const levels = machine.levels.flatMap((roof) => {
    const point = points.find((each) => each.level === roof.name);
    if (!point) return [];
    return [
      {
        name: roof.name,
        share: point.gbs / roof.rate,
        text: `${short(point.gbs)} of ${short(roof.rate)}${THIN_SPACE}GB/s`,
      },
    ];
  });
  return [arithmetic, ...levels].sort((a, b) => b.share - a.share);
}

function short(x: number): string {
  if (x >= 100) return Math.round(x).toString();
  return x >= 1 ? x.toFixed(1) : Number(x.toPrecision(2)).toString();
}

export interface Scale {
  (value: number): number;
  readonly ticks: readonly number[];
}

/** A logarithmic scale from [low, high] to [from, to], with a tick at each power of ten. */
export function logScale(low: number, high: number, from: number, to: number): Scale {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const scale = (value: number): number => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
  const ticks: number[] = [];
  for (let power = Math.ceil(a); power <= b; power += 1) ticks.push(10 ** power);
  return Object.assign(scale, { ticks });
}

/** The ranges of a roofline plot: all points and both ends of each roof are inside. */
export function plotRange(line: Roofline): {
  readonly x: readonly [number, number];
  readonly y: readonly [number, number];
} {
  const peak = line.machine.arithmetic.rate;
  const ridges = line.machine.levels.map((roof) => peak / roof.rate);
  const found = line.points.flatMap((point) => (point.intensity ? [point.intensity] : []));
  const xs = [...ridges, ...found];
  const x: [number, number] = [Math.min(0.1, ...xs) / 3, Math.max(10, ...xs) * 3];
  const slowest = Math.min(...line.machine.levels.map((roof) => roof.rate));
  const low = Math.min(line.gflops || peak, slowest * Math.min(...xs, 0.1));
  return { x, y: [Math.min(low / 2, peak / 100), peak * 2] };
}

/** Whether counters hold figures, and are not only the reason why there are none. */
export function isCounted(counts: Counts | null): counts is Counts & { figures: object } {
  return counts?.status === "ok" && counts.figures !== undefined;
}
