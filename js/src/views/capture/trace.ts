/** The thread trace of a stream: lanes over time, a second stream under it, the program beside. */
import { type Range, reveal } from "../../base/range.ts";
import { bytes, clip, plural } from "../../base/text.ts";
import type { CaptureState, Span, Trace } from "../../protocol/capture.ts";
import type { Beside, EventPlace, TraceInfo } from "../../protocol/capture_types.ts";
import { button, h, setText } from "../dom.ts";
import { LaneCanvas } from "../lane_canvas.ts";
import type { CaptureContext } from "./context.ts";
import { detailsPanel } from "./details.ts";
import { listingPanel } from "./listing.ts";
import { colourNames, TraceSource } from "./source.ts";

const REST_MS = 200;

export interface TraceTab {
  readonly el: HTMLElement;
  /** The lanes that keys move; null while nothing has been read. */
  lanes(): LaneCanvas | null;
  /** Goes to the next event of the marked instruction, or the one before. */
  goToEvent(step: 1 | -1): Promise<void>;
  themeChanged(): void;
  showEvent(place: EventPlace, instruction: number | null): void;
  source(): TraceSource | null;
}

export function traceTab(context: CaptureContext): TraceTab {
  const { session, asker, signal } = context;
  const first = new Stage(context, "stream");
  const second = new Stage(context, "second");
  first.follows(second);
  second.follows(first);
  const note = h("div", { class: "tl-lanes-note", hidden: true });
  const lanes = h("div", { class: "tl-stages" }, first.el, second.el, note);
  session.state.watch(
    ["stream", "traces", "overview"],
    () => {
      const trace = session.trace;
      const isBare = trace?.done && trace.waves.length === 0 && trace.info.instructions === 0;
      note.hidden = isBare !== true;
      if (isBare) setText(note, trace.info.notes.join("; ") || "there is nothing to see here");
    },
    signal,
  );

  const goToEvent = async (step: 1 | -1): Promise<void> => {
    const canvas = first.lanes;
    const { instruction, span, stream } = session.state.now;
    if (!canvas || instruction === null || stream === null) return;
    let at: number | null =
      span?.number === instruction
        ? span.start + span.stall
        : canvas.view[step > 0 ? "start" : "end"];
    while (at !== null) {
      const answer: Beside = await asker.ask("beside", { stream, instruction, at, step });
      at = answer.next;
      if (!answer.found) continue;
      first.showEvent(answer.found, instruction);
      return;
    }
  };

  return {
    el: h(
      "div",
      { class: "tl-tab tl-trace-tab" },
      h(
        "div",
        { class: "tl-main" },
        sourceBar(context, goToEvent),
        lanes,
        legend(context),
        h(
          "div",
          { class: "tl-under" },
          listingPanel(
            context,
            (step) => void goToEvent(step).catch((error) => session.report(error)),
            () => first.lanes,
          ),
          detailsPanel(context, () => first.source),
        ),
      ),
    ),
    lanes: () => first.lanes,
    source: () => first.source,
    showEvent: (place, instruction) => first.showEvent(place, instruction),
    goToEvent: (step) => goToEvent(step).catch((error) => session.report(error)),
    themeChanged: () => {
      first.lanes?.themeChanged();
      second.lanes?.themeChanged();
    },
  };
}

/** One stream's lanes; of two, each moves with the other, from the start of its own dispatch. */
class Stage {
  readonly el = h("div", { class: "tl-stage-box", hidden: true });
  lanes: LaneCanvas | null = null;
  source: TraceSource | null = null;
  #other: Stage | null = null;
  #shown: Trace | null = null;
  #stream: number | null = null;
  #rest: ReturnType<typeof setTimeout> | null = null;
  #moved = false;

  constructor(
    private readonly context: CaptureContext,
    private readonly which: "stream" | "second",
  ) {
    const { session, signal } = context;
    session.state.watch(["stream", "second", "traces", "overview"], () => this.#follow(), signal);
    session.state.watch(["instruction"], () => this.#mark(), signal);
    session.state.watch(["programs"], () => this.lanes?.themeChanged(), signal);
    session.state.watch(["wanted"], () => this.#goTo(), signal);
    session.state.watch(["span"], () => this.#select(), signal);
    session.state.watch(["stretch"], () => this.#stretch(), signal);
  }

  /** Moves with another stage. */
  follows(other: Stage): void {
    this.#other = other;
  }

  /** Brings an event into sight and chooses it, whether or not its bar is loaded. */
  showEvent({ lane, time, start, end }: EventPlace, instruction: number | null): void {
    this.lanes?.show({ key: lane, start, end });
    const number = instruction ?? -1;
    const stall = time - start;
    this.context.session.chooseSpan({
      lane,
      start,
      end,
      stall,
      number,
      colour: 0,
      op: 0,
      count: 1,
    });
  }

  #follow(): void {
    const { session, asker } = this.context;
    const stream = session.state.now[this.which];
    const trace = stream === null ? null : (session.state.now.traces.get(stream) ?? null);
    this.el.hidden = trace === null;
    if (stream === null || !trace) {
      this.#stream = null;
      return;
    }
    if (trace.info === this.#shown?.info && stream === this.#stream) return;
    const isSame = stream === this.#stream;
    this.#shown = trace;
    this.#stream = stream;
    this.source = new TraceSource(session, stream, trace, asker, `window ${this.which}`);
    if (!this.lanes) this.#make(this.source);
    else {
      const growing = isSame && !this.#moved;
      if (!isSame) this.#moved = false;
      this.lanes.setSource(this.source, isSame);
      if (growing) this.lanes.setView(this.source.home);
    }
    if (this.which === "second") this.#takeFrom(this.#other);
  }

  #make(source: TraceSource): void {
    const { session, root, signal } = this.context;
    const categories = session.state.now.overview?.categories ?? [];
    this.lanes = new LaneCanvas(
      source,
      root,
      { colours: colourNames(categories), label: "waves and instructions over time" },
      {
        chosen: (chosen) => this.#chosen(chosen && this.source!.span(chosen.window, chosen.row)),
        stretched: (range) => this.which === "stream" && session.state.set({ stretch: range }),
        moved: (view) => this.#movedTo(view),
        failed: (error) => session.report(error),
      },
      signal,
    );
    if (this.which === "second") {
      this.el.append(h("div", { class: "tl-stream-name" }));
      session.state.watch(
        ["second"],
        () => setText(this.el.firstElementChild!, nameOf(this.context, "second")),
        signal,
      );
    }
    this.el.append(this.lanes.el);
    if (this.which === "stream") this.#goTo();
  }

  /** Of the second stream only the instruction is taken over, if both ran one program. */
  #chosen(span: Span | null): void {
    const { session } = this.context;
    if (this.which === "stream") session.chooseSpan(span);
    else if (span && span.op >= 0 && session.state.now.compared?.figures)
      session.chooseInstruction(span.number);
  }

  #mark(): void {
    this.lanes?.setDims(this.context.session.state.now.instruction !== null);
    this.lanes?.reload();
  }

  #goTo(): void {
    const { wanted } = this.context.session.state.now;
    if (this.which !== "stream" || !wanted || !this.lanes) return;
    this.#moved = true;
    this.lanes.setView(wanted);
  }

  #select(): void {
    const { span } = this.context.session.state.now;
    if (this.which === "stream")
      this.lanes?.select(span && { key: span.lane, start: span.start, end: span.end });
  }

  #stretch(): void {
    const { stretch } = this.context.session.state.now;
    if (this.which === "stream" && this.lanes && this.lanes.stretch !== stretch)
      this.lanes.setStretch(stretch, false);
  }

  #movedTo(view: Range): void {
    const { session } = this.context;
    const home = this.lanes!.home;
    this.#moved ||= Math.abs(view.start - home.start) > 1 || Math.abs(view.end - home.end) > 1;
    if (this.#other) this.#other.#takeFrom(this);
    if (this.which !== "stream") return;
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#rest = setTimeout(() => session.state.set({ view }), REST_MS);
  }

  /** Shows the same stretch as another stage, counted from the start of each dispatch. */
  #takeFrom(other: Stage | null): void {
    if (!other?.lanes || !this.lanes || this.el.hidden || other.el.hidden) return;
    const by = this.lanes.home.start - other.lanes.home.start;
    const view = { start: other.lanes.view.start + by, end: other.lanes.view.end + by };
    const now = this.lanes.view;
    if (Math.abs(now.start - view.start) < 1e-6 && Math.abs(now.end - view.end) < 1e-6) return;
    this.lanes.setView(reveal(view, view, this.lanes.limits));
  }
}

function nameOf(context: CaptureContext, which: "stream" | "second"): string {
  const { session } = context;
  const info = session.info(session.state.now[which]);
  return info ? `compared with ${streamName(session.state.now, session.state.now[which]!)}` : "";
}

/** "se1 · r_32_32_16_2", with the capture and the run where there are several. */
export function streamName(state: CaptureState, stream: number): string {
  const { overview } = state;
  const info = overview?.streams[stream];
  if (!overview || !info) return "";
  const parts = [info.name, info.kernel];
  if (
    overview.streams.some(
      (each) =>
        each.kernel === info.kernel && each.run !== info.run && each.capture === info.capture,
    )
  )
    parts.push(`run ${info.run}`);
  if (overview.captures.length > 1) parts.push(overview.captures[info.capture]!.name);
  if (!info.instructions) parts.push(info.waves ? "waves only" : "no waves");
  return parts.filter(Boolean).join(" · ");
}

// The bar above the lanes.

function sourceBar(
  context: CaptureContext,
  goToEvent: (step: 1 | -1) => Promise<void>,
): HTMLElement {
  const { session, signal } = context;
  const stream = choice(
    "stream",
    "The stream that is shown ([ and ])",
    (value) => value !== null && session.chooseStream(value),
  );
  const second = choice("second", "A second stream to compare with", (value) =>
    session.chooseSecond(value),
  );
  session.state.watch(
    ["overview", "stream", "second"],
    () => {
      const { overview, stream: shown, second: other } = session.state.now;
      const all = (overview?.streams ?? []).map(
        (_, i) => [i, streamName(session.state.now, i)] as const,
      );
      fill(stream, all, shown, null);
      fill(
        second,
        all.filter(([i]) => i !== shown),
        other,
        "compare with …",
      );
      second.hidden = all.length < 2;
    },
    signal,
  );
  return h(
    "div",
    { class: "tl-stepper tl-source-bar" },
    stream,
    second,
    readingPart(context),
    h("span", { class: "tl-spacer" }),
    markPart(context, goToEvent),
  );
}

function choice(
  name: string,
  title: string,
  choose: (value: number | null) => void,
): HTMLSelectElement {
  const made = h("select", {
    class: "tl-field tl-choice",
    title,
    "aria-label": title,
    "data-name": name,
    on: { change: () => choose(made.value === "" ? null : Number(made.value)) },
  });
  return made;
}

function fill(
  select: HTMLSelectElement,
  options: readonly (readonly [number, string])[],
  chosen: number | null,
  none: string | null,
): void {
  const made = options.map(([value, text]) =>
    h("option", { value: String(value) }, clip(text, 80)),
  );
  select.replaceChildren(...(none === null ? [] : [h("option", { value: "" }, none)]), ...made);
  select.value = chosen === null ? "" : String(chosen);
}

/** How far reading is, with a button that stops it. */
function readingPart({ session, signal }: CaptureContext): HTMLElement {
  const bar = h("progress", { class: "tl-progress", max: "1" });
  const text = h("span", { class: "tl-quiet-text" });
  const stop = button(
    "Stop",
    "Stop reading",
    () => session.setReading(!session.state.now.reading),
    { name: "reading" },
  );
  const box = h("span", { class: "tl-reading" }, bar, text, stop);
  session.state.watch(
    ["stream", "second", "traces", "reading"],
    () => {
      const { stream, second, traces, reading } = session.state.now;
      const open = [stream, second]
        .filter((each) => each !== null)
        .map((each) => [session.info(each), traces.get(each)] as const);
      const left = open.find(([, trace]) => trace && !trace.done);
      box.hidden = !left;
      if (!left) return;
      const [info, trace] = left;
      bar.value = trace!.progress;
      setText(
        text,
        `${reading ? "reading" : "stopped at"} ${Math.floor(100 * trace!.progress)} % of ${bytes(info?.bytes)}`,
      );
      setText(stop, reading ? "Stop" : "Go on");
    },
    signal,
  );
  return box;
}

/** Which instruction is marked, how often it ran, and buttons to its events. */
function markPart(
  { session, signal }: CaptureContext,
  goToEvent: (step: 1 | -1) => Promise<void>,
): HTMLElement {
  const text = h("span", { class: "tl-mark-text" });
  const go = (step: 1 | -1) => () => void goToEvent(step).catch((error) => session.report(error));
  const box = h(
    "span",
    { class: "tl-marked", hidden: true },
    text,
    button("‹", "Event before (p)", go(-1), { name: "event-before" }),
    button("›", "Next event (n)", go(1), { name: "event-next" }),
    button("×", "Mark nothing (Esc)", () => session.chooseInstruction(null), {
      class: "tl-quiet",
      name: "unmark",
    }),
  );
  session.state.watch(
    ["instruction", "programs", "stream"],
    () => {
      const { instruction } = session.state.now;
      const line = instruction === null ? undefined : session.program?.lines[instruction];
      box.hidden = !line;
      if (!line || instruction === null) return;
      const hits = session.program?.figures.hits[instruction] ?? 0;
      setText(text, `${clip(line.text.replace(/\s+/g, " "), 44)} · ${plural(hits, "hit")}`);
    },
    signal,
  );
  return box;
}

/** The colours that occur. */
function legend({ session, signal }: CaptureContext): HTMLElement {
  const el = h("div", { class: "tl-legend" });
  let shown: TraceInfo | null = null;
  session.state.watch(
    ["stream", "traces", "overview"],
    () => {
      const { overview } = session.state.now;
      const info = session.trace?.info;
      if (!overview || !info || info === shown) return;
      shown = info;
      const { categories } = overview;
      const colours = colourNames(categories);
      const item = (colour: number, name: string): HTMLElement =>
        h(
          "span",
          { class: "tl-legend-item" },
          h("i", { class: "tl-swatch", style: `background: var(--tl-${colours[colour]})` }),
          name,
        );
      el.replaceChildren(
        ...info.used
          .filter((colour) => categories[colour] !== "other")
          .map((colour) => item(colour, categories[colour]!)),
        item(categories.length, "wave"),
        h(
          "span",
          { class: "tl-legend-item tl-right", title: "Waits, barriers and stalls are drawn low" },
          h("i", { class: "tl-high" }),
          "works",
          h("i", { class: "tl-low" }),
          "waits",
        ),
      );
    },
    signal,
  );
  return el;
}
