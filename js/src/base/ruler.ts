/** Marks on an axis of time, and times as text. */
import type { Range } from "./range.ts";
import { count, digits, THIN_SPACE } from "./text.ts";

/** What a clock counts. */
export type Unit = "cycles" | "ns";

export interface Tick {
  readonly at: number;
  readonly label: string;
}

export interface Ruler {
  readonly ticks: readonly Tick[];
  readonly step: number;
  /** Where labels count from, if they do not count from zero: "from 1.25 s". */
  readonly base: string;
}

const NS_UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
] as const;
/** Labels stay this short: beyond, they count from a place near by. */
const MOST_STEPS = 1e5;

/** The least of 1, 2, 5, 10, 20 … that is at least `size`. */
export function niceStep(size: number): number {
  const power = 10 ** Math.floor(Math.log10(size));
  const part = size / power;
  const nice = part <= 1.000001 ? 1 : part <= 2.000001 ? 2 : part <= 5.000001 ? 5 : 10;
  return nice * power;
}

/**
 * Marks for a range that is `pixels` wide, at least `apart` pixels from each other.
 *
 * Whole units are the finest: cycles and nanoseconds have no parts.
 */
export function rulerOf(range: Range, pixels: number, unit: Unit, apart = 90): Ruler {
  const size = range.end - range.start;
  const step = Math.max(1, niceStep((size / Math.max(1, pixels)) * apart));
  const base =
    range.start / step > MOST_STEPS ? Math.floor(range.start / (100 * step)) * 100 * step : 0;
  const ticks: Tick[] = [];
  for (let n = Math.ceil(range.start / step); n * step <= range.end; n += 1) {
    const at = n * step;
    const label = timeLabel(at - base, step, unit);
    ticks.push({ at, label: base > 0 ? `+${label}` : label });
  }
  return { ticks, step, base: base > 0 ? timeText(base, unit) : "" };
}

/** A time whose last digit that matters is that of `step`. */
function timeLabel(time: number, step: number, unit: Unit): string {
  if (unit === "cycles") return count(time);
  const [name, size] = unitFor(Math.max(step, Math.abs(time) / 1000));
  const places = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  return `${(time / size).toFixed(Math.min(places, 9))}${THIN_SPACE}${name}`;
}

function unitFor(ns: number): readonly [string, number] {
  return NS_UNITS.find(([, size]) => ns >= size) ?? NS_UNITS[3];
}

/** An exact time: 1234567 -> "1,234,567 cycles", or "1.234567 ms". */
export function timeText(time: number, unit: Unit): string {
  if (unit === "cycles") return `${count(time)}${THIN_SPACE}cycles`;
  const [name, size] = unitFor(Math.abs(time));
  // Through a number: it drops the zeros at the end.
  return `${Number((time / size).toFixed(Math.log10(size)))}${THIN_SPACE}${name}`;
}

/** A length of time as people read it: three digits of nanoseconds, all of cycles. */
export function lengthText(length: number, unit: Unit): string {
  if (unit === "cycles") return `${count(length)}${THIN_SPACE}${length === 1 ? "cycle" : "cycles"}`;
  const [name, size] = unitFor(Math.abs(length));
  return `${digits(length / size)}${THIN_SPACE}${name}`;
}
