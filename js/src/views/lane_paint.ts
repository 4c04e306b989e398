/** Painting lanes: a ruler, names at the left, and of the spans those that are in sight. */
import type { Range } from "../base/range.ts";
import { width } from "../base/range.ts";
import type { LaneRow, Rows } from "../base/rows.ts";
import { rulerOf, type Unit } from "../base/ruler.ts";
import type { Spans } from "../base/spans.ts";
import type { Palette, Swatch } from "./theme.ts";

/** A curve over time: layers stacked on each other, a value a column. */
export interface Curve {
  readonly range: Range;
  readonly layers: readonly { readonly colour: number; readonly values: ArrayLike<number> }[];
  /** A line over them, of the same columns. */
  readonly line?: ArrayLike<number>;
  /** What the row's height stands for. */
  readonly top: number;
  /** Written at the row's top: "12 waves". */
  readonly topLabel: string;
}

/** What one load brings: spans of all lanes, curves by the key of their row. */
export interface LaneWindow {
  readonly spans: Spans;
  readonly curves: ReadonlyMap<number, Curve>;
  /** What is to be said about all of it: that a closer look shows more. */
  readonly note?: string;
}

/** One span as it was when it was chosen: windows come and go, this stays. */
export interface Pick {
  readonly key: number;
  readonly start: number;
  readonly end: number;
}

export interface Marker {
  readonly at: number;
  readonly label: string;
}

export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly gutter: number;
  readonly ruler: number;
}

export interface LaneState {
  readonly frame: Frame;
  readonly ratio: number;
  readonly view: Range;
  readonly unit: Unit;
  readonly rows: Rows;
  readonly scrollTop: number;
  readonly window: LaneWindow | null;
  readonly palette: Palette;
  readonly swatches: readonly Swatch[];
  readonly folded: ReadonlySet<string>;
  readonly selected: Pick | null;
  readonly hovered: Pick | null;
  readonly stretch: Range | null;
  readonly markers: readonly Marker[];
  /** Where the pointer is in time, for the line that runs through all lanes. */
  readonly cursor: number | null;
  /** Spans that the column `marked` leaves out step back. */
  readonly dims: boolean;
  /** What is written in a span that has room for it. */
  readonly label: (window: LaneWindow, row: number) => string;
}

const CHAR = 6.1;
/** A shortened name says something from so many letters on. */
const LEAST_LETTERS = 4;
const SMALL_CHAR = 6.65;
/** Rows of less height than this have no text in their spans. */
const TEXT_HEIGHT = 12;
const DIM = 0.22;
const ALL_BUSY = 255;
/** Of a bar that is hardly filled a line stays, on a ground of its colour that is as high as others. */
const LEAST_SHARE = 0.2;
const GROUND = 0.4;
/** Nothing is narrower: a moment is a tick that can be seen. */
const LEAST_WIDE = 2;

export const timeToX = (state: { frame: Frame; view: Range }, time: number): number =>
  state.frame.gutter +
  ((time - state.view.start) / width(state.view)) * (state.frame.width - state.frame.gutter);

export const xToTime = (state: { frame: Frame; view: Range }, x: number): number =>
  state.view.start +
  ((x - state.frame.gutter) / Math.max(1, state.frame.width - state.frame.gutter)) *
    width(state.view);

export function paintLanes(context: CanvasRenderingContext2D, state: LaneState): number {
  context.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
  return new LanePainter(context, state).paint();
}

class LanePainter {
  #drawn = 0;
  /** The colour that rows fill with now: setting one costs more than a small rectangle. */
  #fill = "";
  readonly #scale: number;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly state: LaneState,
  ) {
    const { frame, view } = state;
    this.#scale = (frame.width - frame.gutter) / width(view);
  }

  /** Paints everything; how many spans were drawn. */
  paint(): number {
    const { context, state } = this;
    const { frame, palette } = state;
    context.fillStyle = palette.background;
    context.fillRect(0, 0, frame.width, frame.height);
    const ruler = rulerOf(state.view, frame.width - frame.gutter, state.unit);
    this.#inside(frame.gutter, frame.ruler, () => {
      this.#grid(ruler.ticks.map((tick) => tick.at));
      this.#eachRow((row, top) => this.#row(row, top));
      this.#overlays();
    });
    this.#inside(0, frame.ruler, () => this.#names());
    this.#ruler(ruler);
    this.#note();
    this.#scrollBar();
    return this.#drawn;
  }

  #inside(left: number, top: number, draw: () => void): void {
    const { frame } = this.state;
    this.context.save();
    this.context.beginPath();
    this.context.rect(left, top, frame.width - left, frame.height - top);
    this.context.clip();
    draw();
    this.context.restore();
  }

  #eachRow(draw: (row: LaneRow, top: number) => void): void {
    const { rows, scrollTop, frame } = this.state;
    const [from, to] = rows.between(scrollTop, scrollTop + frame.height - frame.ruler);
    for (let i = from; i < to; i += 1) {
      draw(rows.shown[i]!, frame.ruler + rows.tops[i]! - scrollTop);
    }
  }

  #use(colour: string): void {
    if (this.#fill === colour) return;
    this.#fill = colour;
    this.context.fillStyle = colour;
  }

  #x(time: number): number {
    return this.state.frame.gutter + (time - this.state.view.start) * this.#scale;
  }

  #grid(times: readonly number[]): void {
    const { context, state } = this;
    context.fillStyle = state.palette.grid;
    for (const time of times) {
      context.fillRect(Math.round(this.#x(time)), state.frame.ruler, 1, state.frame.height);
    }
  }

  #row(row: LaneRow, top: number): void {
    const { context, state } = this;
    if (row.kind === "head") {
      context.fillStyle = state.palette.raised;
      context.fillRect(0, top, state.frame.width, row.height);
    } else if (row.kind === "curve") this.#curve(row, top);
    else this.#spans(row, top);
  }

  #spans(row: LaneRow, top: number): void {
    const { state } = this;
    if (!state.window) return;
    this.#fill = "";
    const { spans } = state.window;
    const { start, end } = spans.columns;
    const marked = spans.columns.marked;
    const [from, to] = spans.within(row.key, state.view);
    const y = top + (row.height > 9 ? 1 : 0.5);
    const height = row.height - (row.height > 9 ? 2 : 1);
    let filled = Number.NEGATIVE_INFINITY;
    for (let i = from; i < to; i += 1) {
      const isMarked = marked !== undefined && marked[i] !== 0;
      const right = this.#x(end[i]!);
      const left = this.#x(start[i]!);
      // What would only paint a pixel over again is left out, unless it must be seen. A moment has
      // no width, and where a bar ends its pixel is still free.
      const isOver = right > left ? right <= filled : left < filled;
      if (isOver && !isMarked) continue;
      this.#span(i, left, right, y, height, !state.dims || isMarked);
      filled = Math.max(right, Math.ceil(left + 0.5));
    }
  }

  #span(i: number, left: number, right: number, y: number, height: number, full: boolean): void {
    const { context, state } = this;
    const { frame } = state;
    const { colour, wait, start, busy } = state.window!.spans.columns;
    const swatch = state.swatches[colour[i]!] ?? state.swatches[0]!;
    const x = Math.min(Math.max(left, frame.gutter - 2), frame.width - LEAST_WIDE);
    // A little of the ground stays between neighbours that are wide enough.
    const gap = right - left > 3 ? 1 : 0;
    const stop = Math.max(x + LEAST_WIDE, Math.min(right, frame.width + 2) - gap);
    // Work is drawn high, waiting low: they differ without their colours too.
    const works = wait && wait[i] !== 0 ? Math.max(x, this.#x(start[i]! + wait[i]!)) : x;
    const low = Math.max(2, Math.round(0.35 * height));
    context.globalAlpha = full ? 1 : DIM;
    this.#use(swatch.fill);
    // A moment, which takes no time, is a tick.
    if (works < right || works === x) {
      const share = busy ? busy[i]! / ALL_BUSY : 1;
      this.#filledBar(works, y, Math.max(1, stop - works), height, share);
    }
    if (works > x) context.fillRect(x, y + height - low, Math.min(works, stop) - x, low);
    this.#drawn += 1;
    if (full && stop - x > 22 && height >= TEXT_HEIGHT) {
      const fits = stop - works > 0.6 * (stop - x);
      if (fits) this.#spanText(i, works, stop - works, y + height / 2 + 0.5, swatch.ink);
      else this.#spanText(i, x, works - x, y + (height - low) / 2, state.palette.text);
    }
    context.globalAlpha = 1;
  }

  /** A bar that stands for several is as high as they fill it, on a ground of its colour. */
  #filledBar(x: number, y: number, wide: number, height: number, share: number): void {
    const { context } = this;
    const filled = Math.max(LEAST_SHARE, share) * height;
    context.fillRect(x, y + height - filled, wide, filled);
    if (filled >= height) return;
    const alpha = context.globalAlpha;
    context.globalAlpha = GROUND * alpha;
    context.fillRect(x, y, wide, height - filled);
    context.globalAlpha = alpha;
  }

  #spanText(i: number, x: number, wide: number, middle: number, ink: string): void {
    const { context, state } = this;
    const letters = Math.floor((wide - 8) / CHAR);
    const text = letters < 3 ? "" : state.label(state.window!, i);
    if (!text) return;
    this.#use(ink);
    context.font = `10px ${state.palette.font}`;
    context.textBaseline = "middle";
    const shown = text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
    context.fillText(shown, x + 4, middle);
  }

  #curve(row: LaneRow, top: number): void {
    const { context, state } = this;
    const curve = state.window?.curves.get(row.key);
    const bottom = top + row.height - 1;
    context.fillStyle = state.palette.grid;
    context.fillRect(state.frame.gutter, bottom, state.frame.width, 1);
    if (!curve || curve.top <= 0) return;
    this.#fill = "";
    const room = row.height - 4;
    const columns = (curve.line ?? curve.layers[0]?.values)?.length ?? 0;
    const per = width(curve.range) / Math.max(1, columns);
    const columnAt = (x: number): number =>
      Math.floor((xToTime(state, x) - curve.range.start) / per);
    let line: number | null = null;
    for (let x = state.frame.gutter; x < state.frame.width; x += 1) {
      const [from, to] = [Math.max(0, columnAt(x)), Math.min(columns - 1, columnAt(x + 1))];
      if (columnAt(x + 1) < 0 || from >= columns) continue;
      const at = highest(curve, from, Math.max(from, to));
      this.#stack(curve, at, x, bottom, room);
      if (!curve.line) continue;
      const y = bottom - (room * curve.line[at]!) / curve.top;
      this.#use(state.palette.edgeStrong);
      const upper = Math.min(y, line ?? y);
      context.fillRect(x, upper, 1, Math.max(1, Math.abs(y - (line ?? y))));
      line = y;
    }
  }

  #stack(curve: Curve, at: number, x: number, bottom: number, room: number): void {
    let y = bottom;
    for (const { colour, values } of curve.layers) {
      const height = (room * values[at]!) / curve.top;
      if (height <= 0) continue;
      const swatch = this.state.swatches[colour] ?? this.state.swatches[0]!;
      this.#use(swatch.fill);
      this.context.fillRect(x, y - height, 1, height);
      y -= height;
    }
  }

  #overlays(): void {
    const { context, state } = this;
    const { palette, frame } = state;
    if (state.stretch) {
      const left = this.#x(state.stretch.start);
      const wide = Math.max(1, this.#x(state.stretch.end) - left);
      context.globalAlpha = 0.14;
      context.fillStyle = palette.accent;
      context.fillRect(left, frame.ruler, wide, frame.height);
      context.globalAlpha = 1;
      context.fillRect(left, frame.ruler, 1, frame.height);
      context.fillRect(left + wide - 1, frame.ruler, 1, frame.height);
    }
    this.#markerLines();
    if (state.cursor !== null) {
      context.fillStyle = palette.edge;
      context.fillRect(Math.round(this.#x(state.cursor)), frame.ruler, 1, frame.height);
    }
    this.#eachRow((row, top) => {
      if (row.kind !== "spans") return;
      this.#outline(state.hovered, row, top, palette.edgeStrong, 1);
      this.#outline(state.selected, row, top, palette.text, 2);
    });
  }

  /** Markers as lines, with the names that have room before the next one's. */
  #markerLines(): void {
    const { context, state } = this;
    const { frame, palette } = state;
    context.fillStyle = palette.line;
    context.font = `10px ${palette.font}`;
    context.textBaseline = "top";
    const places = state.markers.map(({ at }) => Math.round(this.#x(at)));
    for (const [i, { label }] of state.markers.entries()) {
      const x = places[i]!;
      if (x < frame.gutter - CHAR * label.length || x > frame.width) continue;
      context.fillRect(x, frame.ruler, 1, frame.height);
      const letters = Math.floor(((places[i + 1] ?? frame.width) - x - 6) / CHAR);
      if (letters < Math.min(LEAST_LETTERS, label.length)) continue;
      const shown = label.length <= letters ? label : `${label.slice(0, letters - 1)}…`;
      context.fillText(shown, x + 3, frame.ruler + 2);
    }
  }

  #outline(pick: Pick | null, row: LaneRow, top: number, colour: string, line: number): void {
    if (!pick || pick.key !== row.key) return;
    const { context, state } = this;
    const left = Math.max(this.#x(pick.start), state.frame.gutter - 4);
    const right = Math.min(Math.max(this.#x(pick.end), left + 2), state.frame.width + 4);
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(left - 0.5, top + 0.5, right - left, row.height - 1);
  }

  /** The names of rows; the first row of a run of thin ones speaks for all of them. */
  #names(): void {
    const { context, state } = this;
    const { palette, frame } = state;
    context.fillStyle = palette.background;
    context.fillRect(0, 0, frame.gutter - 1, frame.height);
    context.textBaseline = "middle";
    this.#eachRow((row, top) => {
      if (row.kind === "head") {
        context.fillStyle = palette.raised;
        context.fillRect(0, top, frame.gutter - 1, row.height);
      } else if (row.label) this.#name(row, top, false);
    });
    context.fillStyle = palette.grid;
    context.fillRect(frame.gutter - 1, 0, 1, frame.height);
    this.#eachRow((row, top) => row.kind === "head" && this.#name(row, top, true));
  }

  #name(row: LaneRow, top: number, head: boolean): void {
    const { context, state } = this;
    const { palette, frame } = state;
    const middle = top + Math.min(row.height, 26) / 2;
    context.fillStyle = head ? palette.text : palette.faint;
    context.font = `${head ? "600 " : ""}11px ${palette.sans}`;
    const left = head ? 20 : 12;
    // A head has its row for itself.
    const room = (head ? frame.width : frame.gutter) - left - 6;
    const letters = Math.floor(room / SMALL_CHAR) + (head ? 0 : 3);
    const label = row.label.length <= letters ? row.label : `${row.label.slice(0, letters - 1)}…`;
    context.fillText(label, left, Math.max(middle, top + 6));
    if (head) {
      context.fillStyle = palette.faint;
      context.fillText(state.folded.has(row.group) ? "▸" : "▾", 8, middle);
    }
    const curve = row.kind === "curve" ? state.window?.curves.get(row.key) : undefined;
    if (!curve) return;
    context.font = `10px ${palette.sans}`;
    context.fillText(curve.topLabel, left, middle + 14);
  }

  #ruler({ ticks, base }: ReturnType<typeof rulerOf>): void {
    const { context, state } = this;
    const { palette, frame } = state;
    context.fillStyle = palette.raised;
    context.fillRect(0, 0, frame.width, frame.ruler);
    context.fillStyle = palette.grid;
    context.fillRect(0, frame.ruler - 1, frame.width, 1);
    context.font = `10px ${palette.sans}`;
    context.textBaseline = "middle";
    let free = Number.NEGATIVE_INFINITY;
    for (const { at, label } of ticks) {
      const x = Math.round(this.#x(at));
      if (x < frame.gutter) continue;
      context.fillStyle = palette.edge;
      context.fillRect(x, frame.ruler - 6, 1, 6);
      context.fillStyle = palette.faint;
      const wide = context.measureText(label).width;
      // At the right edge a label stands before its mark, unless another one is there.
      const place = x + 4 + wide <= frame.width ? x + 4 : x - 4 - wide;
      if (place >= free) context.fillText(label, place, frame.ruler / 2);
      free = place + wide + 4;
    }
    context.fillStyle = palette.raised;
    context.fillRect(0, 0, frame.gutter, frame.ruler - 1);
    context.fillStyle = palette.faint;
    const unit = state.unit === "cycles" ? "cycles" : "time";
    context.fillText(base ? `from ${base}` : unit, 8, frame.ruler / 2);
  }

  #note(): void {
    const { context, state } = this;
    const { frame, palette, window } = state;
    if (!window?.note) return;
    context.font = `11px ${palette.sans}`;
    context.textBaseline = "middle";
    const wide = context.measureText(window.note).width + 16;
    context.fillStyle = palette.raised;
    context.fillRect(frame.width - wide - 12, frame.height - 22, wide, 18);
    context.fillStyle = palette.text;
    context.fillText(window.note, frame.width - wide - 4, frame.height - 13);
  }

  #scrollBar(): void {
    const { context, state } = this;
    const { frame, rows, palette } = state;
    const room = frame.height - frame.ruler;
    if (rows.height <= room) return;
    const length = Math.max(18, (room * room) / rows.height);
    const top = ((room - length) * state.scrollTop) / (rows.height - room);
    context.globalAlpha = 0.55;
    context.fillStyle = palette.edge;
    context.beginPath();
    context.roundRect(frame.width - 7, frame.ruler + top, 5, length, 2.5);
    context.fill();
    context.globalAlpha = 1;
  }
}

/** Of some columns the one whose layers, or line, reach highest. */
function highest(curve: Curve, from: number, to: number): number {
  const reach = (at: number): number =>
    curve.line?.[at] ?? curve.layers.reduce((sum, layer) => sum + layer.values[at]!, 0);
  let best = from;
  for (let at = from + 1; at <= to; at += 1) if (reach(at) > reach(best)) best = at;
  return best;
}
