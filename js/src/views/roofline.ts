/** The roofline of a kernel: roofs of the machine, a point per level of memory, shares as bars. */

import { digits } from "../base/text.ts";
import { logScale, plotRange, shares } from "../protocol/counts.ts";
import type { Roofline } from "../protocol/types.ts";
import { h, s } from "./dom.ts";

const [WIDTH, HEIGHT] = [380, 224];
const [LEFT, RIGHT, TOP, BOTTOM] = [38, 10, 22, 30];

export function rooflineView(line: Roofline): HTMLElement {
  return h(
    "div",
    { class: "tl-roofline" },
    line.gflops > 0 ? plot(line) : null,
    shareBars(line),
    h(
      "p",
      { class: "tl-hint" },
      `Roofs: ${line.machine.arithmetic.kind} (${line.machine.arithmetic.note || "as stated"}; ${line.machine.levels[0]?.note || "as stated"}). ` +
        `Bytes: ${line.points[0]?.kind ?? "counted"}. Time: measured, ${digits(line.elapsed_ns / 1000)} µs.`,
    ),
  );
}

function plot(line: Roofline): SVGElement {
  const range = plotRange(line);
  const x = logScale(...range.x, LEFT, WIDTH - RIGHT);
  const y = logScale(...range.y, HEIGHT - BOTTOM, TOP);
  const peak = line.machine.arithmetic.rate;
  const grid = [
    ...x.ticks.map((tick) =>
      axisMark(x(tick), TOP, x(tick), HEIGHT - BOTTOM, power(tick), "middle"),
    ),
    ...y.ticks.map((tick) => axisMark(LEFT, y(tick), WIDTH - RIGHT, y(tick), power(tick), "end")),
  ];
  const slopes = line.machine.levels.map((roof, i) => {
    const ridge = peak / roof.rate;
    const start = Math.max(range.x[0], range.y[0] / roof.rate);
    return s(
      "line",
      {
        class: `tl-roof tl-level-${i}`,
        x1: x(start),
        y1: y(start * roof.rate),
        x2: x(ridge),
        y2: y(peak),
      },
      s("title", {}, `${roof.name}: ${digits(roof.rate)} GB/s, ${roof.kind}`),
    );
  });
  const ceiling = s(
    "line",
    {
      class: "tl-roof tl-ceiling",
      x1: x(Math.min(...line.machine.levels.map((roof) => peak / roof.rate))),
      y1: y(peak),
      x2: WIDTH - RIGHT,
      y2: y(peak),
    },
    s("title", {}, `arithmetic: ${digits(peak)} GFLOP/s, ${line.machine.arithmetic.kind}`),
  );
  const points = line.points.flatMap((point, i) => {
    if (point.intensity === null || point.gflops <= 0) return [];
    const [px, py] = [x(point.intensity), y(point.gflops)];
    const title = `${point.level}: ${digits(point.intensity)} operations a byte, ${digits(point.gflops)} GFLOP/s, ${digits(point.gbs)} GB/s, ${point.kind}`;
    return [
      s("circle", { class: `tl-point tl-level-${i}`, cx: px, cy: py, r: 4 }, s("title", {}, title)),
    ];
  });
  return s(
    "svg",
    {
      class: "tl-roofline-plot",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": `roofline: ${digits(line.gflops)} GFLOP/s, nearest roof ${line.bound}`,
    },
    ...grid,
    ...slopes,
    ceiling,
    ...points,
    s(
      "text",
      { class: "tl-axis-name", x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" },
      "operations per byte",
    ),
    s("text", { class: "tl-axis-name", x: 4, y: 9 }, "GFLOP/s"),
  );
}

function axisMark(
  x1: number,
  y1: number,
  x2: number,
  y2: number,
  text: string,
  anchor: "middle" | "end",
): SVGElement {
  const [tx, ty] = anchor === "middle" ? [x1, y2 + 12] : [x1 - 4, y1 + 3];
  return s(
    "g",
    { class: "tl-grid" },
    s("line", { x1, y1, x2, y2 }),
    s("text", { x: tx, y: ty, "text-anchor": anchor }, text),
  );
}

function power(value: number): string {
  return value >= 1 && value < 10_000
    ? String(Math.round(value))
    : value >= 0.001 && value < 1
      ? String(Number(value.toPrecision(1)))
      : value.toExponential(0);
}

/** How near each roof is; the colours are those of the plot. */
function shareBars(line: Roofline): HTMLElement {
  const levels = line.machine.levels.map((roof) => roof.name);
  return h(
    "dl",
    { class: "tl-shares", "aria-label": "share of each roof" },
    ...shares(line).flatMap(({ name, share, text }) => {
      const look = name === "arithmetic" ? "tl-ceiling" : `tl-level-${levels.indexOf(name)}`;
      const bar = h("span", { class: "tl-share-bar" }, h("i"));
      bar.style.setProperty("--share", `${Math.min(100, share * 100)}%`);
      return [
        h("dt", { class: `tl-share-name ${look}` }, name),
        h(
          "dd",
          {},
          bar,
          h("b", {}, `${digits(share * 100)}%`),
          h("span", { class: "tl-faint" }, text),
        ),
      ];
    }),
  );
}
