/** Numbers and names as the views write them. */

/** Between a number and its unit, which stay on one line. */
export const THIN_SPACE = "\u202f";

/** 12345 -> "12,345" */
export function count(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

/** Exact up to a million, then three digits: 12345 -> "12,345", 3981968 -> "3.98M" */
export function compact(n: number): string {
  if (Math.abs(n) < 1e6) return count(n);
  const units = ["M", "G", "T", "P"];
  let [size, unit] = [n / 1e6, 0];
  while (Math.abs(size) >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${digits(size)}${units[unit]}`;
}

/** 1, "match" -> "1 match";  3, "match" -> "3 matches" */
export function plural(n: number, noun: string): string {
  const many = /(s|x|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
  return `${count(n)} ${n === 1 ? noun : many}`;
}

/** Three significant digits, without an exponent. */
export function digits(x: number): string {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 100) return count(x);
  if (size >= 10) return x.toFixed(1);
  if (size >= 1) return x.toFixed(2);
  return Number(x.toPrecision(2)).toString();
}

/**
 * A name of a stranger as it is drawn: what turns the direction of writing is written out, so that
 * a name reads as it is and not backwards. "a\u202eb" -> "a" "\\u202e" "b"
 */
export function visible(name: string): string {
  return name.replace(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Microseconds in the unit that suits them: 1250 -> "1.25 ms" */
export function duration(us: number | null | undefined): string {
  if (us === null || us === undefined || !Number.isFinite(us)) return "–";
  if (us < 1) return `${digits(us * 1000)}${THIN_SPACE}ns`;
  if (us < 1000) return `${digits(us)}${THIN_SPACE}µs`;
  if (us < 1_000_000) return `${digits(us / 1000)}${THIN_SPACE}ms`;
  return `${digits(us / 1_000_000)}${THIN_SPACE}s`;
}

/** A rate, or a dash where it is unknown. */
export function rate(x: number | null | undefined): string {
  return x === null || x === undefined || !Number.isFinite(x) ? "–" : digits(x);
}

/** Float operations a second; of a kernel without any, its integer ones, called what they are. */
export function work(of: { gflops: number | null; gops?: number | null }): string {
  if (of.gflops !== null || !of.gops) return rate(of.gflops);
  const unit = OPS.find(([, factor]) => of.gops! * factor >= 1) ?? OPS[OPS.length - 1]!;
  return `${digits(of.gops * unit[1])}${THIN_SPACE}${unit[0]}`;
}

const OPS: readonly (readonly [string, number])[] = [
  ["Gop/s", 1],
  ["Mop/s", 1e3],
  ["kop/s", 1e6],
  ["op/s", 1e9],
];

/** 4096 -> "4.00 KiB" */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = n;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : digits(size)}${THIN_SPACE}${units[unit]}`;
}

/** Keeps the start of a long text: "abcdef", 4 -> "abc…" */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, Math.max(1, length - 1))}…`;
}

/** The last parts of a path: "/a/b/c/d.py", 2 -> "c/d.py" */
export function tail(path: string, parts = 2): string {
  return path.split(/[\\/]/).slice(-parts).join("/");
}

/** Whether every word of a query is in a text, whatever the case. */
export function matches(text: string, query: string): boolean {
  const low = text.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}
