/**
 * Lanes over time on a canvas: any number of spans, of which those in sight are asked for and drawn.
 *
 * The recording stays in Python. A view of it is asked for as a window: a range of time, how many
 * columns it is cut into, and the lanes that are in sight. What is finer than a column comes merged.
 */
import { Superseded } from "../base/lanes.ts";
import {
  keepWithin,
  type Limits,
  moveRange,
  type Range,
  reveal,
  width,
  zoomRange,
} from "../base/range.ts";
import { type LaneRow, Rows } from "../base/rows.ts";
import type { Unit } from "../base/ruler.ts";
import { type Wanted, Windows } from "../base/windows.ts";
import { h, onResize, perFrame } from "./dom.ts";
import {
  type Frame,
  type LaneState,
  type LaneWindow,
  type Marker,
  type Pick,
  paintLanes,
  xToTime,
} from "./lane_paint.ts";
import { watchLanePointer } from "./lane_pointer.ts";
import { type Palette, readPalette, readSwatches, type Swatch } from "./theme.ts";

/** Where lanes get what they show. */
export interface LaneSource {
  readonly bounds: Range;
  /** What is worth seeing of it: where a view begins; all of it by default. */
  readonly home?: Range;
  /** A view is never narrower than this: a few cycles, some nanoseconds. */
  readonly least: number;
  readonly unit: Unit;
  readonly rows: readonly LaneRow[];
  /** Rejects with Superseded when a newer window was asked for meanwhile. */
  load(wanted: Wanted): Promise<{ readonly window: LaneWindow; readonly exact: boolean }>;
  /** What is written in a span. */
  label(window: LaneWindow, row: number): string;
  /** Lines about a span, for the tip beside the pointer. */
  tip(window: LaneWindow, row: number): readonly string[];
}

/** A span that was chosen, with its window as long as that is on screen. */
export interface Chosen extends Pick {
  readonly window: LaneWindow;
  readonly row: number;
}

export interface LaneEvents {
  /** A span was clicked or reached by keys; null when nothing is chosen any more. */
  chosen?(chosen: Chosen | null): void;
  /** A stretch of time was marked, or no longer. */
  stretched?(range: Range | null): void;
  /** The view moved; called at most once a frame. */
  moved?(view: Range): void;
  failed?(error: unknown): void;
  /** Whether windows are on their way. */
  loading?(busy: boolean): void;
}

export interface LaneOptions {
  /** Names of colours in the style sheet without "--tl-", by the number that spans carry. */
  readonly colours: readonly string[];
  readonly label: string;
  readonly gutter?: number;
}

const RULER = 22;
const GUTTER = 148;
const NEAR_PX = 4;
/** Lanes above and below those in sight are loaded too, so that scrolling shows no gaps. */
const LANES_AROUND = 24;

export class LaneCanvas {
  readonly el: HTMLElement;
  readonly #canvas = h("canvas", { class: "tl-canvas tl-lane-canvas", role: "img" });
  readonly #tip = h("div", { class: "tl-tip", hidden: true });
  readonly #redraw: () => void;
  #windows: Windows<LaneWindow>;
  /** What was loaded before it went out of date: drawn until its successor is here. */
  #before: Windows<LaneWindow> | null = null;
  #rows: Rows;
  #folded = new Set<string>();
  #view: Range;
  #frame: Frame;
  #scrollTop = 0;
  #palette: Palette | null = null;
  #swatches: readonly Swatch[] = [];
  #selected: Pick | null = null;
  #hovered: Pick | null = null;
  #cursor: number | null = null;
  #stretch: Range | null = null;
  #markers: readonly Marker[] = [];
  #dims = false;
  #asked: Wanted | null = null;
  #told: Range | null = null;

  constructor(
    private source: LaneSource,
    private readonly root: HTMLElement,
    private readonly options: LaneOptions,
    private readonly events: LaneEvents,
    private readonly signal: AbortSignal,
  ) {
    this.el = h("div", { class: "tl-lane-view" }, this.#canvas, this.#tip);
    this.#canvas.setAttribute("aria-label", options.label);
    this.#redraw = perFrame(() => this.#paint(), signal);
    this.#frame = { width: 0, height: 0, gutter: options.gutter ?? GUTTER, ruler: RULER };
    this.#windows = new Windows(source.bounds);
    this.#rows = new Rows(source.rows, this.#folded);
    this.#view = this.home;
    onResize(this.el, (wide, high) => this.#resize(wide, high), signal);
    watchLanePointer(this.#canvas, this, signal);
  }

  // What there is to see.

  /** Another recording, or the same with more in it. `keep` leaves the view where it is. */
  setSource(source: LaneSource, keep = false): void {
    this.source = source;
    this.#rows = new Rows(source.rows, this.#folded);
    this.#view = keep ? keepWithin(this.#view, this.limits) : this.home;
    if (!keep) {
      this.#selected = null;
      this.#stretch = null;
      this.#scrollTop = 0;
    }
    this.reload();
    if (!keep) this.#before = null;
  }

  /** What was loaded is out of date: it stays on screen until its successor is here. */
  reload(): void {
    // What was never loaded is no successor of what was.
    if (this.#windows.best(this.source.bounds, [])) this.#before = this.#windows;
    this.#windows = new Windows(this.source.bounds);
    this.#asked = null;
    this.#redraw();
  }

  themeChanged(): void {
    this.#palette = null;
    this.#redraw();
  }

  setMarkers(markers: readonly Marker[]): void {
    this.#markers = markers;
    this.#redraw();
  }

  /** Whether spans without a `marked` step back. */
  setDims(dims: boolean): void {
    this.#dims = dims;
    this.#redraw();
  }

  // Where the view stands.

  get limits(): Limits {
    return { bounds: this.source.bounds, least: this.source.least };
  }

  get view(): Range {
    return this.#view;
  }

  setView(view: Range): void {
    this.#view = keepWithin(view, this.limits);
    this.#hideTip();
    this.#redraw();
  }

  zoom(factor: number, x?: number): void {
    const at = x === undefined ? (this.#view.start + this.#view.end) / 2 : this.timeAt(x);
    this.setView(zoomRange(this.#view, factor, at, this.limits));
  }

  /** Moves by a share of what is seen. */
  pan(share: number): void {
    this.setView(moveRange(this.#view, share * width(this.#view), this.limits));
  }

  /** Shows what is worth seeing; if that is seen, everything. */
  showAll(): void {
    const { home } = this;
    const { start, end } = this.#view;
    const isHome = start === home.start && end === home.end;
    this.setView(isHome ? this.source.bounds : home);
  }

  /** The view's right end at the end of all, or its left end at the start. */
  toEdge(side: 1 | -1): void {
    this.pan((side * width(this.source.bounds)) / width(this.#view));
  }

  /** Where a view begins: what is worth seeing. */
  get home(): Range {
    return keepWithin(this.source.home ?? this.source.bounds, this.limits);
  }

  /** Brings a stretch into sight, and its lane; closer if it could not be seen otherwise. */
  show(pick: Pick): void {
    const seen = Math.max(width(pick), 1e-9) / width(this.#view);
    const view =
      seen * this.#frame.width < 2
        ? { start: pick.start - 40 * width(pick), end: pick.end + 40 * width(pick) }
        : reveal(this.#view, pick, this.limits);
    this.setView(view);
    this.#revealRow(pick.key);
  }

  zoomTo(range: Range, share = 0.1): void {
    const more = share * width(range);
    this.setView({ start: range.start - more, end: range.end + more });
  }

  get selected(): Pick | null {
    return this.#selected;
  }

  /** Chooses a span that need not be loaded; nobody is told. */
  select(pick: Pick | null): void {
    this.#selected = pick;
    this.#redraw();
  }

  get stretch(): Range | null {
    return this.#stretch;
  }

  setStretch(range: Range | null, tell = true): void {
    this.#stretch = range;
    if (tell) this.events.stretched?.(range);
    this.#redraw();
  }

  /** Chooses the next span of the chosen lane, or the one before. */
  step(by: 1 | -1): void {
    const window = this.#window();
    const from = this.#selected;
    if (!window) return;
    if (!from) {
      this.#chooseFirst(window);
      return;
    }
    const row = window.spans.beside(from.key, from.start, by);
    if (row !== null) this.#choose(window, row, true);
    else this.pan(0.4 * by);
  }

  /** Chooses what runs at the same time in the next lane that has something, up or down. */
  stepLane(by: 1 | -1): void {
    const window = this.#window();
    const from = this.#selected;
    if (!window || !from) {
      if (window) this.#chooseFirst(window);
      return;
    }
    const { shown } = this.#rows;
    for (let i = this.#rows.indexOf(from.key) + by; i >= 0 && i < shown.length; i += by) {
      const lane = shown[i]!;
      if (lane.kind !== "spans") continue;
      const found = window.spans.at(lane.key, from.start, width(this.#view));
      if (found) {
        this.#choose(window, found.row, true);
        return;
      }
    }
  }

  // What the pointer asks for.

  get frame(): Frame {
    return this.#frame;
  }

  timeAt(x: number): number {
    return xToTime({ frame: this.#frame, view: this.#view }, x);
  }

  scrollBy(pixels: number): boolean {
    const before = this.#scrollTop;
    this.#scrollTo(before + pixels);
    return this.#scrollTop !== before;
  }

  get scrollTop(): number {
    return this.#scrollTop;
  }

  hover(x: number, y: number): void {
    const found = this.#at(x, y);
    const inPlot = x >= this.#frame.gutter && y >= 0;
    this.#cursor = inPlot ? this.timeAt(x) : null;
    this.#hovered = found;
    this.#canvas.style.cursor = found || this.#headAt(x, y) ? "pointer" : inPlot ? "grab" : "";
    if (found) this.#showTip(this.source.tip(found.window, found.row), x, y);
    else this.#showLaneTip(x, y);
    this.#redraw();
  }

  click(x: number, y: number): void {
    const head = this.#headAt(x, y);
    if (head) {
      this.fold(head.group);
      return;
    }
    const found = this.#at(x, y);
    if (found) this.#choose(found.window, found.row, false);
    else {
      if (this.#stretch) this.setStretch(null);
      this.clear();
    }
  }

  /** A double click goes to a span. */
  open(x: number, y: number): void {
    const found = this.#at(x, y);
    if (found) this.zoomTo(found, 0.5);
  }

  clear(): void {
    if (!this.#selected) return;
    this.select(null);
    this.events.chosen?.(null);
  }

  fold(group: string): void {
    if (!this.#folded.delete(group)) this.#folded.add(group);
    this.#rows = new Rows(this.source.rows, this.#folded);
    this.#scrollTo(this.#scrollTop);
    this.#redraw();
  }

  // How it is drawn.

  #window(): LaneWindow | null {
    const keys = this.#keys();
    const best = this.#windows.best(this.#view, keys) ?? this.#before?.best(this.#view, keys);
    return best?.value ?? null;
  }

  #at(x: number, y: number): Chosen | null {
    const window = this.#window();
    const { frame } = this;
    if (!window || x < frame.gutter || y < frame.ruler) return null;
    const index = this.#rows.at(y - frame.ruler + this.#scrollTop);
    const lane = index === null ? null : this.#rows.shown[index]!;
    if (lane?.kind !== "spans") return null;
    const slop = (NEAR_PX * width(this.#view)) / Math.max(1, frame.width - frame.gutter);
    const found = window.spans.at(lane.key, this.timeAt(x), slop);
    return found ? chosenOf(window, found.row) : null;
  }

  #headAt(x: number, y: number): LaneRow | null {
    if (x < 0 || y < this.#frame.ruler) return null;
    const index = this.#rows.at(y - this.#frame.ruler + this.#scrollTop);
    const row = index === null ? null : this.#rows.shown[index]!;
    return row?.kind === "head" ? row : null;
  }

  #choose(window: LaneWindow, row: number, follow: boolean): void {
    const chosen = chosenOf(window, row);
    this.#selected = chosen;
    if (follow) {
      this.setView(reveal(this.#view, chosen, this.limits));
      this.#revealRow(chosen.key);
    }
    this.events.chosen?.(chosen);
    this.#redraw();
  }

  #chooseFirst(window: LaneWindow): void {
    for (const lane of this.#rows.shown) {
      const [from, to] = window.spans.within(lane.key, this.#view);
      if (lane.kind !== "spans" || from === to) continue;
      this.#choose(window, from, true);
      return;
    }
  }

  #revealRow(key: number): void {
    const index = this.#rows.indexOf(key);
    if (index < 0) return;
    const [top, bottom] = [this.#rows.tops[index]!, this.#rows.tops[index + 1]!];
    const room = this.#frame.height - RULER;
    if (top < this.#scrollTop) this.#scrollTo(top - 20);
    else if (bottom > this.#scrollTop + room) this.#scrollTo(bottom - room + 20);
  }

  #scrollTo(top: number): void {
    const most = Math.max(0, this.#rows.height - (this.#frame.height - RULER));
    this.#scrollTop = Math.min(most, Math.max(0, top));
    this.#redraw();
  }

  #resize(wide: number, high: number): void {
    const gutter = Math.min(this.options.gutter ?? GUTTER, Math.max(72, 0.28 * wide));
    this.#frame = { width: wide, height: high, gutter, ruler: RULER };
    this.#scrollTo(this.#scrollTop);
  }

  #paint(): void {
    const { width: wide, height: high } = this.#frame;
    if (wide < 2 || high < 2) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const [pixelWidth, pixelHeight] = [Math.round(wide * ratio), Math.round(high * ratio)];
    if (this.#canvas.width !== pixelWidth || this.#canvas.height !== pixelHeight) {
      this.#canvas.width = pixelWidth;
      this.#canvas.height = pixelHeight;
    }
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    if (!this.#palette) {
      this.#palette = readPalette(this.root);
      this.#swatches = readSwatches(this.root, this.options.colours);
    }
    const drawn = paintLanes(context, this.#state(ratio, this.#palette));
    const { dataset } = this.#canvas;
    dataset.drawn = String(drawn);
    dataset.view = `${this.#view.start}:${this.#view.end}`;
    dataset.painted = String(Number(dataset.painted ?? 0) + 1);
    if (this.#told !== this.#view) {
      this.#told = this.#view;
      this.events.moved?.(this.#view);
    }
    void this.#load();
  }

  #state(ratio: number, palette: Palette): LaneState {
    return {
      frame: this.#frame,
      ratio,
      view: this.#view,
      unit: this.source.unit,
      rows: this.#rows,
      scrollTop: this.#scrollTop,
      window: this.#window(),
      palette,
      swatches: this.#swatches,
      folded: this.#folded,
      selected: this.#selected,
      hovered: this.#hovered,
      stretch: this.#stretch,
      markers: this.#markers,
      cursor: this.#cursor,
      dims: this.#dims,
      label: (window, row) => this.source.label(window, row),
    };
  }

  #keys(): readonly number[] {
    const { shown } = this.#rows;
    const [from, to] = this.#rows.between(this.#scrollTop, this.#scrollTop + this.#frame.height);
    return shown
      .slice(Math.max(0, from - LANES_AROUND), to + LANES_AROUND)
      .filter((row) => row.kind !== "head")
      .map((row) => row.key);
  }

  async #load(): Promise<void> {
    const into = this.#windows;
    const pixels = this.#frame.width - this.#frame.gutter;
    const wanted = into.wanted(this.#view, pixels, this.#keys());
    if (!wanted || sameWanted(wanted, this.#asked)) return;
    this.#asked = wanted;
    this.events.loading?.(true);
    try {
      const { window, exact } = await this.source.load(wanted);
      if (this.signal.aborted || into !== this.#windows) return;
      const { range, step, keys } = wanted;
      into.put({ range, step, keys: new Set(keys), exact, value: window });
      this.#before = null;
      this.#canvas.dataset.loaded = String(Number(this.#canvas.dataset.loaded ?? 0) + 1);
      this.#redraw();
    } catch (error) {
      if (!(error instanceof Superseded)) this.events.failed?.(error);
    } finally {
      if (this.#asked === wanted) {
        this.#asked = null;
        this.events.loading?.(false);
      }
    }
  }

  // The tip beside the pointer.

  #showLaneTip(x: number, y: number): void {
    const index = this.#rows.at(y - this.#frame.ruler + this.#scrollTop);
    const title =
      x >= 0 && x < this.#frame.gutter && index !== null ? this.#rows.shown[index]!.title : "";
    if (title && y > this.#frame.ruler) this.#showTip([title], x, y);
    else this.#hideTip();
  }

  #showTip(lines: readonly string[], x: number, y: number): void {
    if (lines.length === 0) {
      this.#hideTip();
      return;
    }
    this.#tip.replaceChildren(...lines.map((line) => h("div", {}, line)));
    this.#tip.hidden = false;
    const box = this.#tip.getBoundingClientRect();
    const left = x + 14 + box.width > this.#frame.width ? x - 14 - box.width : x + 14;
    const top = y + 16 + box.height > this.#frame.height ? y - 10 - box.height : y + 16;
    this.#tip.style.transform = `translate(${Math.max(2, left)}px, ${Math.max(2, top)}px)`;
  }

  #hideTip(): void {
    this.#tip.hidden = true;
  }
}

function chosenOf(window: LaneWindow, row: number): Chosen {
  const { lane, start, end } = window.spans.columns;
  return { key: lane[row]!, start: start[row]!, end: end[row]!, window, row };
}

function sameWanted(a: Wanted, b: Wanted | null): boolean {
  return (
    b !== null &&
    a.step === b.step &&
    a.range.start === b.range.start &&
    a.range.end === b.range.end &&
    a.keys.length === b.keys.length &&
    a.keys.every((key, i) => key === b.keys[i])
  );
}
