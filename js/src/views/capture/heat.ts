/** A heat map: numbers by place, drawn on a canvas, with the number where there is room. */
import { count } from "../../base/text.ts";
import { h, onResize, perFrame } from "../dom.ts";
import { inkOn, type Palette, readPalette } from "../theme.ts";

export interface Grid {
  readonly rows: readonly string[];
  readonly labels: readonly string[];
  readonly values: ArrayLike<number>;
}

export interface HeatMap {
  readonly el: HTMLElement;
  show(grid: Grid | null): void;
  /** Whether `setFromLeast` would change what is seen. */
  readonly hasMoreContrast: boolean;
  /** Whether colours begin at the least value, so that small differences are seen, or at zero. */
  setFromLeast(fromLeast: boolean): void;
  themeChanged(): void;
}

const CELL_HEIGHT = 22;
const LEAST_WIDTH = 14;
const MOST_WIDTH = 96;
const NAMES = 76;
const HEAD = 20;
/** Room under the cells for what the colours stand for. */
const LEGEND = 24;
const LEGEND_STEP = 6;
const LEGEND_STEPS = 24;
const CHAR = 6.1;
/** From little to much: one hue that gets stronger, told apart without seeing colours. */
const LIGHT = ["#f1f5f9", "#cfe3f1", "#93c2df", "#4a97c6", "#1c6ca3", "#0b3f6b"];
const DARK = ["#22282e", "#1d3b52", "#215f86", "#3488b5", "#6fb9dd", "#c3e6f8"];

/** The colour for a share of the largest value: 0 is the ground, 1 the strongest. */
export function heatColour(share: number, dark: boolean): string {
  const scale = dark ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const low = Math.min(scale.length - 2, Math.floor(at));
  const mix = (i: number): string => {
    const from = Number.parseInt(scale[low]!.slice(i, i + 2), 16);
    const to = Number.parseInt(scale[low + 1]!.slice(i, i + 2), 16);
    return Math.round(from + (to - from) * (at - low))
      .toString(16)
      .padStart(2, "0");
  };
  return `#${mix(1)}${mix(3)}${mix(5)}`;
}

export interface Scale {
  readonly from: number;
  readonly to: number;
}

/** Values that differ by less than this share of their middle are not made to differ by more. */
const LEAST_REACH = 0.05;

/**
 * What the weakest and the strongest colour stand for: zero and the largest value, if values differ
 * much; if the least is over half of the largest, a range around their middle, so that values that
 * are nearly equal have a middle colour, and none looks hot.
 */
export function heatScale(least: number, most: number, fromLeast: boolean): Scale {
  if (most <= 0) return { from: 0, to: 1 };
  if (fromLeast && most > least) return { from: least, to: most };
  if (2 * least <= most) return { from: 0, to: most };
  const middle = (least + most) / 2;
  const reach = Math.max((most - least) / 2, LEAST_REACH * middle);
  return { from: middle - reach, to: middle + reach };
}

/** Colours that begin at the least value are seen to differ from so much of the scale on. */
const SEEN = 0.03;

/** Whether values look different when colours begin at the least of them. */
export function contrastHelps(least: number, most: number): boolean {
  const [usual, more] = [heatScale(least, most, false), heatScale(least, most, true)];
  const change = Math.max(Math.abs(usual.from - more.from), Math.abs(usual.to - more.to));
  return change > SEEN * (usual.to - usual.from);
}

/** 12345678 -> "12.3M": what fits in a small cell. */
export function shortCount(value: number): string {
  for (const [size, letter] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(value) >= size)
      return `${(value / size).toFixed(value / size >= 100 ? 0 : 1)}${letter}`;
  }
  return String(value);
}

export function heatMap(root: HTMLElement, signal: AbortSignal): HeatMap {
  const canvas = h("canvas", { class: "tl-heat-canvas", role: "img" });
  const tip = h("div", { class: "tl-tip", hidden: true });
  const scroll = h("div", { class: "tl-heat-scroll" }, canvas);
  const el = h("div", { class: "tl-heat-map" }, scroll, tip);
  let grid: Grid | null = null;
  let most = 0;
  let least = 0;
  let fromLeast = false;
  let room = 0;
  let palette: Palette | null = null;
  let hovered = -1;

  const cellWidth = (): number =>
    Math.min(
      MOST_WIDTH,
      Math.max(LEAST_WIDTH, Math.floor((room - NAMES - 8) / Math.max(1, grid?.labels.length ?? 1))),
    );

  const draw = (): void => {
    if (!grid || room < 2) return;
    palette ??= readPalette(root);
    const wide = NAMES + cellWidth() * grid.labels.length + 2;
    const high = HEAD + CELL_HEIGHT * grid.rows.length + LEGEND;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    const context = canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintHeat(context, grid, {
      scale: heatScale(least, most, fromLeast),
      cell: cellWidth(),
      palette,
      dark: root.dataset.theme === "dark",
      hovered,
    });
    canvas.dataset.painted = String(Number(canvas.dataset.painted ?? 0) + 1);
  };
  const redraw = perFrame(draw, signal);
  onResize(
    scroll,
    (width) => {
      room = width;
      redraw();
    },
    signal,
  );

  const at = (event: MouseEvent): number => {
    if (!grid) return -1;
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - NAMES) / cellWidth());
    const row = Math.floor((event.clientY - box.top - HEAD) / CELL_HEIGHT);
    const inside = column >= 0 && row >= 0 && column < grid.labels.length && row < grid.rows.length;
    return inside ? row * grid.labels.length + column : -1;
  };
  canvas.addEventListener(
    "pointermove",
    (event) => {
      const cell = at(event);
      tip.hidden = cell < 0;
      if (cell !== hovered) redraw();
      hovered = cell;
      if (cell < 0 || !grid) return;
      const place = [
        grid.rows[Math.floor(cell / grid.labels.length)],
        grid.labels[cell % grid.labels.length],
      ];
      const share =
        most > 0 ? ` · ${((100 * grid.values[cell]!) / most).toFixed(0)} % of the largest` : "";
      tip.replaceChildren(
        h("div", {}, place.filter(Boolean).join(" ") || "all"),
        h("div", {}, `${count(grid.values[cell]!)}${share}`),
      );
      const box = el.getBoundingClientRect();
      const left = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
      tip.style.transform = `translate(${Math.max(2, left)}px, ${event.clientY - box.top + 16}px)`;
    },
    { signal },
  );
  canvas.addEventListener(
    "pointerleave",
    () => {
      tip.hidden = true;
      hovered = -1;
      redraw();
    },
    { signal },
  );

  return {
    el,
    get hasMoreContrast() {
      return contrastHelps(least, most);
    },
    show(next) {
      grid = next;
      const values = Array.from(next?.values ?? []);
      most = values.reduce((a, b) => Math.max(a, b), 0);
      least = values.reduce((a, b) => Math.min(a, b), most);
      canvas.setAttribute(
        "aria-label",
        next ? `values of ${next.rows.length} by ${next.labels.length} places` : "",
      );
      el.hidden = next === null;
      redraw();
    },
    setFromLeast(next) {
      fromLeast = next;
      redraw();
    },
    themeChanged() {
      palette = null;
      redraw();
    },
  };
}

interface Look {
  readonly scale: Scale;
  readonly cell: number;
  readonly palette: Palette;
  readonly dark: boolean;
  readonly hovered: number;
}

function paintHeat(context: CanvasRenderingContext2D, grid: Grid, look: Look): void {
  const { scale, cell, palette, dark, hovered } = look;
  const across = grid.labels.length;
  context.fillStyle = palette.background;
  context.fillRect(0, 0, NAMES + cell * across + 2, HEAD + CELL_HEIGHT * grid.rows.length + LEGEND);
  context.textBaseline = "middle";
  context.font = `10px ${palette.sans}`;
  context.fillStyle = palette.faint;
  const everyNth = Math.max(
    1,
    Math.ceil((CHAR * (grid.labels[across - 1]?.length ?? 0) + 6) / cell),
  );
  for (let i = 0; i < across; i += everyNth)
    context.fillText(grid.labels[i]!, NAMES + i * cell + 2, HEAD / 2);
  context.font = `11px ${palette.sans}`;
  grid.rows.forEach((name, i) => {
    context.fillText(name, 4, HEAD + (i + 0.5) * CELL_HEIGHT);
  });
  context.font = `10px ${palette.font}`;
  for (let i = 0; i < grid.values.length; i += 1) {
    const value = grid.values[i]!;
    const x = NAMES + (i % across) * cell;
    const y = HEAD + Math.floor(i / across) * CELL_HEIGHT;
    const fill = heatColour((value - scale.from) / (scale.to - scale.from), dark);
    context.fillStyle = fill;
    context.fillRect(x, y, cell - 1, CELL_HEIGHT - 1);
    const whole = count(value);
    const text = cell > CHAR * whole.length + 4 ? whole : shortCount(value);
    if (cell > CHAR * text.length + 4) {
      context.fillStyle = inkOn(fill);
      context.fillText(text, x + (cell - CHAR * text.length) / 2, y + CELL_HEIGHT / 2);
    }
    if (i !== hovered) continue;
    context.strokeStyle = palette.text;
    context.lineWidth = 1.5;
    context.strokeRect(x, y, cell - 1, CELL_HEIGHT - 1);
  }
  paintLegend(context, HEAD + CELL_HEIGHT * grid.rows.length + 8, look);
}

/** What the colours stand for. */
function paintLegend(context: CanvasRenderingContext2D, y: number, look: Look): void {
  const { scale, palette, dark } = look;
  for (let i = 0; i < LEGEND_STEPS; i += 1) {
    context.fillStyle = heatColour(i / (LEGEND_STEPS - 1), dark);
    context.fillRect(NAMES + LEGEND_STEP * i, y, LEGEND_STEP, 8);
  }
  context.font = `10px ${palette.sans}`;
  context.fillStyle = palette.faint;
  const [from, to] = [scale.from, scale.to].map((each) => count(Math.round(each)));
  context.fillText(from!, 4, y + 4);
  context.fillText(to!, NAMES + LEGEND_STEP * LEGEND_STEPS + 6, y + 4);
}
