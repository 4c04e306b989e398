/** The program: each instruction with its figures and its heat, linked with the lanes. */
import { compact, count, digits } from "../../base/text.ts";
import { FIGURES, type Figure, type Program } from "../../protocol/capture.ts";
import { h, setText } from "../dom.ts";
import type { LaneCanvas } from "../lane_canvas.ts";
import { lineList } from "../lines.ts";
import type { CaptureContext } from "./context.ts";

const ROW = 17;
/** From this share of the time on an instruction is called hot. */
const HOT = 0.05;
const HEAT_PX = 46;
/** Time is shown as heat. */
const SHOWN = FIGURES.filter((name) => name !== "time");
const WORDS: Readonly<Record<Figure, readonly [string, string]>> = {
  hits: ["hits", "How often it ran"],
  total: ["cycles", "Cycles from it to the next instruction of its wave, all together"],
  mean: ["mean", "Mean of these cycles"],
  longest: ["longest", "Most cycles of one event"],
  stall: ["stall", "Cycles that waves stood still before it, or at the barrier that it is"],
  time: ["time", "Cycles that waves spent at it: standing still and working"],
};

export function listingPanel(
  context: CaptureContext,
  goToEvent: (step: 1 | -1) => void,
  lanes: () => LaneCanvas | null,
): HTMLElement {
  const { session, asker, view, signal } = context;
  const list = lineList(ROW, "tl-listing", signal);
  const note = h("p", { class: "tl-hint", hidden: true });
  const title = h("h3", {}, "Program");
  const about = h("span", { class: "tl-quiet-text" });
  let order: readonly number[] = [];
  let heat: Float64Array = new Float64Array();
  let hottest = 0;

  const choose = (number: number): void => {
    const chosen = session.state.now.instruction === number ? null : number;
    session.chooseInstruction(chosen);
    if (chosen === null) session.chooseSpan(null);
    else followFirst(chosen);
  };
  /** Shows an event of the instruction, if none is in sight. */
  const followFirst = (number: number): void => {
    const canvas = lanes();
    const { stream, span } = session.state.now;
    if (!canvas || stream === null || span?.number === number) return;
    session.state.set({ span: null });
    const at = Math.floor(canvas.view.start) - 1;
    asker
      .ask("beside", { stream, instruction: number, at, step: 1 })
      .then(({ found }) => {
        if (found === null || found.time > canvas.view.end) goToEvent(1);
      })
      .catch((error) => session.report(error));
  };

  const row = (i: number): HTMLElement => {
    const number = order[i]!;
    const program = session.program!;
    const line = program.lines[number]!;
    const { figures } = program;
    const share = heat[number]!;
    const isChosen = session.state.now.instruction === number;
    const look = `${isChosen ? " tl-chosen" : ""}${share >= HOT ? " tl-hot" : ""}${figures.hits[number] === 0 ? " tl-idle" : ""}`;
    const target = line.target >= 0 ? ` → 0x${line.target.toString(16)}` : "";
    return h(
      "div",
      {
        class: `tl-code-line tl-listing-line${look}`,
        role: "row",
        "aria-selected": String(isChosen),
        on: { click: () => choose(number) },
      },
      heatCell(share, hottest),
      h("span", { class: "tl-pc" }, line.pc.toString(16)),
      h(
        "span",
        { class: "tl-instruction", title: `${line.text}${target}` },
        line.text.replace(/\s+/g, " "),
      ),
      ...SHOWN.map((name) =>
        h(
          "span",
          { class: "tl-figure", title: exactly(figures[name][number]!) },
          figureText(name, figures[name][number]!),
        ),
      ),
      ...comparedCells(context, number),
    );
  };

  const heads = SHOWN.map((name) => {
    const [word, title_] = WORDS[name];
    const made = h(
      "button",
      {
        type: "button",
        class: "tl-quiet tl-figure",
        title: `${title_}; click to sort`,
        "data-name": `sort-${name}`,
        on: { click: () => view.set({ sort: view.now.sort === name ? null : name }) },
      },
      word,
    );
    view.watch(
      ["sort"],
      () => made.setAttribute("aria-pressed", String(view.now.sort === name)),
      signal,
    );
    return made;
  });
  const secondHeads = [
    h("span", { class: "tl-figure", title: WORDS.time[1] }, "time"),
    h("span", { class: "tl-figure", title: "The same in the second trace" }, "time₂"),
    h("span", { class: "tl-figure", title: "Time in the second trace over the first" }, "change"),
  ];
  const header = h(
    "div",
    { class: "tl-listing-line tl-listing-head" },
    h("span", { class: "tl-share", title: "Share of the time of all waves, in percent" }, "%"),
    h("span", { class: "tl-pc" }, "pc"),
    h(
      "span",
      { class: "tl-instruction" },
      h(
        "button",
        {
          type: "button",
          class: "tl-quiet",
          title: "In the order of the program",
          on: { click: () => view.set({ sort: null }) },
        },
        "instruction",
      ),
    ),
    ...heads,
    ...secondHeads,
  );

  const draw = (keep: boolean): void => {
    const program = session.program;
    const { compared } = session.state.now;
    for (const each of secondHeads) each.hidden = !compared?.figures;
    heat = program ? shares(program) : new Float64Array();
    hottest = heat.reduce((most, each) => Math.max(most, each), 0);
    order = program ? ordered(program, view.now.sort) : [];
    const some = order.length > 0;
    header.hidden = list.el.hidden = !some;
    setText(note, program?.note ?? "");
    note.hidden = !program?.note;
    setText(about, some ? `${count(order.length)} instructions` : "");
    list.show(order.length, row, keep);
  };
  const follow = (): void => {
    list.refresh();
    const { instruction } = session.state.now;
    const at = instruction === null ? -1 : order.indexOf(instruction);
    if (at >= 0) list.scrollTo(at);
  };
  session.state.watch(["stream", "programs", "compared"], () => draw(true), signal);
  view.watch(["sort"], () => draw(false), signal);
  session.state.watch(["instruction"], follow, signal);
  list.el.addEventListener(
    "keydown",
    (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step === undefined || event.altKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      const { instruction } = session.state.now;
      const at = instruction === null ? -1 : order.indexOf(instruction);
      const next = order[Math.max(0, at + step)];
      if (next !== undefined && next !== instruction) choose(next);
    },
    { signal },
  );
  return h(
    "section",
    { class: "tl-panel tl-listing-panel" },
    h("header", { class: "tl-head" }, title, about),
    note,
    header,
    list.el,
  );
}

/** A bar as long as an instruction is hot, and the share in percent. */
function heatCell(share: number, hottest: number): HTMLElement {
  const percent = 100 * share;
  const long = hottest > 0 ? Math.round((HEAT_PX * share) / hottest) : 0;
  return h(
    "span",
    { class: "tl-share", title: `${percent.toFixed(1)} % of the time of all waves` },
    h("i", { style: `width: ${long}px` }),
    h("b", {}, percent >= 0.5 ? percent.toFixed(percent >= 10 ? 0 : 1) : ""),
  );
}

/** The share of all time that waves spent at each instruction. */
function shares(program: Program): Float64Array {
  const { time } = program.figures;
  const sum = time.reduce((all, each) => all + each, 0) || 1;
  return time.map((each) => each / sum);
}

/** Numbers of instructions in the order that they are listed in. */
export function ordered(program: Program, sort: Figure | null): readonly number[] {
  const numbers = program.lines.map((_, i) => i);
  if (sort === null) return numbers;
  const by = program.figures[sort];
  return numbers.sort((a, b) => by[b]! - by[a]! || a - b);
}

function figureText(name: Figure, value: number): string {
  if (value === 0) return "";
  return name === "mean" && value < 1e6 ? digits(value) : compact(value);
}

/** What a shortened figure stands for. */
const exactly = (value: number): string | undefined => (value >= 1e6 ? count(value) : undefined);

function comparedCells({ session }: CaptureContext, number: number): HTMLElement[] {
  const figures = session.state.now.compared?.figures;
  if (!figures) return [];
  const [before, after] = [session.program!.figures.time[number]!, figures.time[number]!];
  const change = before > 0 ? after / before : null;
  return [
    h("span", { class: "tl-figure" }, figureText("time", before)),
    h("span", { class: "tl-figure" }, figureText("time", after)),
    h("span", { class: `tl-figure ${changeLook(change)}` }, changeText(change)),
  ];
}

/** 1.5 -> "1.50×"; what did not change much says nothing. */
export function changeText(change: number | null): string {
  return change === null ? "" : `${change >= 10 ? change.toFixed(0) : change.toFixed(2)}×`;
}

export function changeLook(change: number | null): string {
  if (change === null || (change > 0.95 && change < 1.05)) return "";
  return change > 1 ? "tl-worse" : "tl-better";
}
