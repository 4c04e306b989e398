/** Beside the lanes: the event that is chosen, figures of a stretch, the longest kernels. */
import { lengthText, timeText } from "../../base/ruler.ts";
import type { Store } from "../../base/store.ts";
import { bytes, compact, count, digits, plural, visible } from "../../base/text.ts";
import type { TimelineSession } from "../../protocol/timeline_session.ts";
import type {
  ComparedRow,
  CounterFigure,
  EventInfo,
  SumsRow,
  TimelineOverview,
  TopRow,
} from "../../protocol/timeline_types.ts";
import { button, h } from "../dom.ts";
import { walk } from "../tree.ts";

export type PanelTab = "kernels" | "counters" | "lanes" | "compare";

/** Which figures there are to be shown. */
export function tabsOf(overview: TimelineOverview | null): readonly PanelTab[] {
  const all: readonly [PanelTab, boolean][] = [
    ["kernels", true],
    ["counters", overview?.counted ?? false],
    ["lanes", true],
    ["compare", (overview?.other ?? null) !== null],
  ];
  return all.filter(([, is]) => is).map(([tab]) => tab);
}

/** What a view begins with: the difference, if it shows two runs; figures that were asked for. */
export function firstTab(overview: TimelineOverview | null): PanelTab {
  if ((overview?.other ?? null) !== null) return "compare";
  return overview?.counted ? "counters" : "kernels";
}

export interface TimelineViewState {
  readonly tab: PanelTab;
  readonly help: boolean;
  readonly search: boolean;
}

export interface TimelineContext {
  readonly session: TimelineSession;
  readonly view: Store<TimelineViewState>;
  readonly root: HTMLElement;
  readonly signal: AbortSignal;
  /** Goes to the first event that bears a name. */
  readonly find: (name: string) => void;
  /** Lists the events that bear a name. */
  readonly list: (name: string) => void;
  readonly zoomToEvent: () => void;
  readonly clear: () => void;
}

const ns = (time: number | null | undefined): string =>
  time === null || time === undefined ? "–" : lengthText(time, "ns");
const percent = (share: number): string => `${digits(100 * share)} %`;

export function sidePanel(context: TimelineContext): HTMLElement {
  return h("div", { class: "tl-side tl-time-side" }, eventPanel(context), tablesPanel(context));
}

// The event

function eventPanel(context: TimelineContext): HTMLElement {
  const { session, signal } = context;
  const body = h("div", { class: "tl-event" });
  const show = (): void => {
    const { event, overview } = session.state.now;
    if (event) body.replaceChildren(...eventParts(context, event));
    else body.replaceChildren(h("p", { class: "tl-hint" }, hintOf(overview?.notices ?? [])));
  };
  session.state.watch(["event", "overview"], show, signal);
  return h(
    "section",
    { class: "tl-panel" },
    h("header", { class: "tl-head" }, h("h3", {}, "Event")),
    body,
  );
}

function hintOf(notices: readonly string[]): string {
  return notices.length > 0
    ? notices.join(". ")
    : "Click a bar, or use the arrow keys. Drag in the ruler to measure a stretch.";
}

function eventParts(context: TimelineContext, event: EventInfo): HTMLElement[] {
  const fact = (name: string, value: string): HTMLElement[] => [
    h("dt", {}, name),
    h("dd", {}, value),
  ];
  const { work } = event;
  const facts = [
    ...fact("lane", event.lane),
    ...fact("takes", ns(event.duration_ns)),
    ...fact("starts", timeText(event.start_ns, "ns")),
    ...(event.value > 0 ? fact("bytes", bytes(event.value)) : []),
    ...(event.kind === "copy" && event.value > 0 && event.duration_ns > 0
      ? fact("GB/s", digits(event.value / event.duration_ns))
      : []),
    ...(work && work.ops > 0 ? fact("Gop/s", `${digits(work.gops)} estimated`) : []),
    ...(work && work.bytes > 0 ? fact("GB/s", `${digits(work.gbs)} estimated`) : []),
  ];
  return [
    h("div", { class: "tl-event-name", title: visible(event.name) }, visible(event.name)),
    h("dl", { class: "tl-facts" }, ...facts),
    ...counterParts(event),
    eventButtons(context, event),
  ];
}

/** What was counted of the kernel, each figure with where it comes from. */
function counterParts({ counters }: EventInfo): HTMLElement[] {
  if (!counters) return [];
  if (counters.figures.length === 0) return [h("p", { class: "tl-hint" }, counters.message)];
  const rows = counters.figures.map((figure) =>
    h(
      "tr",
      { title: figure.note },
      nameCell(figure.name),
      num(figureText(figure)),
      h("td", { class: "tl-faint" }, figure.kind),
    ),
  );
  const body = h("tbody", {}, ...rows);
  return [
    h(
      "div",
      { class: "tl-event-counters", tabindex: "0", "aria-label": "counters of the kernel" },
      h("table", { class: "tl-table tl-time-table" }, body),
      ...counters.notes.map((note) => h("p", { class: "tl-hint" }, note)),
    ),
  ];
}

function figureText({ value, unit }: CounterFigure): string {
  if (unit === "bytes") return bytes(value);
  return `${Number.isInteger(value) ? count(value) : digits(value)} ${unit}`.trim();
}

function eventButtons(context: TimelineContext, event: EventInfo): HTMLElement {
  const { session, zoomToEvent, list } = context;
  const { kernel } = event;
  const open = (tab: "kernels" | "rewrites", label: string, title: string): HTMLElement => {
    const made = button(label, title, () => void openKernel(context, tab), { name: `open-${tab}` });
    made.disabled = kernel === null;
    return made;
  };
  const recorded = session.state.now.overview?.recorded ?? false;
  const buttons = [
    button("Zoom", "Zoom to this event (e)", zoomToEvent, { name: "zoom-event" }),
    button("All of this name", "List all events of this name", () => list(event.name), {
      name: "same",
    }),
  ];
  if (event.kind === "run") {
    const why = recorded ? "" : ": profile with record=True, or by %%tinygrad --profile";
    buttons.unshift(
      open("kernels", "Opts", `Its source and opts editor (o)${why}`) as HTMLButtonElement,
      open("rewrites", "Rewrites", `Its rewrites, step by step (w)${why}`) as HTMLButtonElement,
    );
  }
  return h("div", { class: "tl-event-buttons" }, ...buttons);
}

const SHOWN_MS = 1500;

/** Takes the debugger of the record to the kernel of the chosen event. */
export async function openKernel(
  { session }: TimelineContext,
  tab: "kernels" | "rewrites",
): Promise<void> {
  const kernel = session.state.now.event?.kernel ?? null;
  if (kernel === null) {
    const { event, overview } = session.state.now;
    const chosen = event?.kind === "run";
    const problem = overview?.recorded
      ? chosen
        ? "This kernel was lowered before the record began, and is not in it."
        : "Choose a run of a kernel first."
      : "There is no record beside this profile: profile with record=True, or by %%tinygrad --profile.";
    session.state.set({ problem });
    return;
  }
  const reveal = await session.open(kernel, tab);
  if (reveal === null) return;
  const shown = (): boolean => document.querySelector(`[data-reveal="${reveal}"]`) !== null;
  setTimeout(() => {
    if (shown()) return;
    session.state.set({
      problem: "The debugger of this record is on no page: show it by the profile's `record`.",
    });
  }, SHOWN_MS);
}

// Tables

function tablesPanel(context: TimelineContext): HTMLElement {
  const { session, view, signal } = context;
  const title = h("span", { class: "tl-quiet-text tl-stretch-text" });
  const clear = button("all", "Forget the stretch: figures of all (Esc)", context.clear);
  clear.classList.add("tl-quiet");
  const scroller = h("div", { class: "tl-table-scroll" });
  const tabs = h(
    "div",
    { class: "tl-buttons tl-forms", role: "group", "aria-label": "which figures" },
    tabButton(context, "kernels", "kernels"),
    tabButton(context, "counters", "counters"),
    tabButton(context, "lanes", "lanes"),
    tabButton(context, "compare", "compared"),
  );
  const show = (): void => {
    const { stretch, overview } = session.state.now;
    const span = stretch ?? { start: overview?.span[0] ?? 0, end: overview?.span[1] ?? 0 };
    title.textContent = `${stretch ? "of" : "of all,"} ${ns(span.end - span.start)}`;
    clear.hidden = stretch === null;
    scroller.replaceChildren(tableOf(context));
    if (view.now.tab === "lanes" && !stretch) void session.sumAll();
  };
  session.state.watch(["stretch", "sums", "whole", "overview", "compared"], show, signal);
  view.watch(
    ["tab"],
    () => {
      if (view.now.tab === "compare") void session.compare();
      show();
    },
    signal,
  );
  return h(
    "section",
    { class: "tl-panel tl-grow" },
    h("header", { class: "tl-head" }, tabs, title, clear),
    scroller,
  );
}

function tabButton({ session, view, signal }: TimelineContext, tab: PanelTab, label: string) {
  const made = button(label, `${label} (f changes)`, () => view.set({ tab }), {
    name: `figures-${tab}`,
  });
  const mark = (): void => {
    made.setAttribute("aria-pressed", String(view.now.tab === tab));
    made.hidden = !tabsOf(session.state.now.overview).includes(tab);
  };
  view.watch(["tab"], mark, signal);
  session.state.watch(["overview"], mark, signal);
  return made;
}

function tableOf(context: TimelineContext): HTMLElement {
  const { stretch, sums, whole, overview, compared } = context.session.state.now;
  const { tab } = context.view.now;
  if (tab === "compare") {
    return compared ? comparedTable(context, compared.names, compared.rows) : waiting();
  }
  const shown = stretch ? sums : whole;
  if (tab === "lanes") return shown ? lanesTable(shown.all, shown.lanes) : waiting();
  const rows = stretch ? sums?.top : overview?.top;
  if (!rows) return waiting();
  return tab === "counters" ? countersTable(context, rows) : kernelsTable(context, rows, !!stretch);
}

const waiting = (): HTMLElement => h("p", { class: "tl-hint" }, "Summing …");

/** What a column is called, what is said of it, its look, and where its figures come from. */
type Head = readonly [string, string, string, string?];

function table(label: string, heads: readonly Head[], rows: readonly HTMLElement[]): HTMLElement {
  const cells = heads.map(([name, title, look, kind]) =>
    h("th", { class: look, title }, name, kind && h("small", {}, kind)),
  );
  const none = h(
    "tr",
    {},
    h("td", { colspan: String(heads.length), class: "tl-hint" }, "Nothing."),
  );
  const body = h("tbody", {}, ...(rows.length > 0 ? rows : [none]));
  const made = h(
    "table",
    { class: "tl-table tl-time-table", "aria-label": label },
    h("thead", {}, h("tr", {}, ...cells)),
    body,
  );
  made.addEventListener("keydown", (event) => walk(made, event));
  return made;
}

function nameCell(text: string): HTMLElement {
  return h("td", { class: "tl-kernel-name", title: visible(text) }, visible(text));
}

const num = (text: string, title?: string): HTMLElement =>
  h("td", { class: "tl-num", title }, text);

/** What stands behind a name that several programs bear: "3 programs". */
function programsText(programs: readonly number[]): string {
  if (programs.every((n) => n <= 1)) return "";
  const [before, after] = programs as [number, number?];
  if (after === undefined || before === after) return plural(before, "program");
  return `${before} and ${plural(after, "program")}`;
}

/** A row that leads to the events of a name. */
function namedRow(
  context: TimelineContext,
  name: string,
  i: number,
  cells: HTMLElement[],
  programs: readonly number[],
  sought = name,
): HTMLElement {
  const label = nameCell(name);
  const more = programsText(programs);
  if (more) {
    const title = `${more} of this name: p.kernels has each by itself, in Python`;
    label.append(" ", h("small", { class: "tl-faint", title }, more));
  }
  const go = (): void => context.find(sought);
  return h(
    "tr",
    {
      class: "tl-run",
      tabindex: i === 0 ? "0" : "-1",
      on: { click: go, keydown: (event: KeyboardEvent) => event.key === "Enter" && go() },
    },
    label,
    ...cells,
  );
}

function kernelsTable(
  context: TimelineContext,
  rows: readonly TopRow[],
  inside: boolean,
): HTMLElement {
  const heads: Head[] = [
    ["Kernel", "Kernels by total time; a click finds their runs", "tl-col-name"],
    ["Total", inside ? "Time of its runs inside the stretch" : "Time of all runs", "tl-num"],
    ["Share", "Of that time of all kernels", "tl-num"],
    ["Runs", inside ? "How many runs touch the stretch" : "How often it ran", "tl-num"],
    ["Median", "The middle of the times of its runs, each as a whole", "tl-num"],
    ["Longest", "Its longest run, as a whole", "tl-num"],
  ];
  const made = rows.map((row, i) =>
    namedRow(
      context,
      row.name,
      i,
      [
        num(ns(row.total_ns)),
        num(percent(row.share)),
        num(count(row.runs)),
        num(ns(row.median_ns), `mean ${ns(row.mean_ns)}`),
        num(ns(row.longest_ns)),
      ],
      [row.programs],
    ),
  );
  return table("kernels by total time", heads, made);
}

/** Short headings of the figures that stand in a table. */
const HEADLINES: Readonly<Record<string, string>> = {
  flops: "Flops",
  "bytes loaded": "Loaded",
  "bytes stored": "Stored",
  "L1 misses": "L1 misses",
  cycles: "Cycles",
  instructions: "Instructions",
};

/** What one run of each kernel did; each heading says where its figures come from. */
function countersTable(context: TimelineContext, rows: readonly TopRow[]): HTMLElement {
  const columns = new Map<string, CounterFigure>();
  for (const { figures } of rows) {
    for (const figure of figures ?? [])
      if (!columns.has(figure.name)) columns.set(figure.name, figure);
  }
  const shown = [...columns.values()].map((figure) => {
    const title = `${figure.name} of one run, ${figure.kind}: a click on a kernel shows all figures`;
    const head: Head = [HEADLINES[figure.name] ?? figure.name, title, "tl-num", figure.kind];
    return { name: figure.name, head };
  });
  const heads: Head[] = [
    ["Kernel", "Kernels by total time; a click finds their runs", "tl-col-name"],
    ...shown.map(({ head }) => head),
  ];
  const made = rows.map((row, i) => {
    const cells = shown.map(({ name }) => {
      const figure = row.figures?.find((each) => each.name === name);
      return num(figure ? shortFigure(figure) : "–", figure && figureText(figure));
    });
    return namedRow(context, row.name, i, cells, [row.programs]);
  });
  return table("counters of kernels", heads, made);
}

const shortFigure = ({ value, unit }: CounterFigure): string =>
  unit === "bytes" ? bytes(value) : compact(value);

function lanesTable(all: SumsRow, lanes: readonly SumsRow[]): HTMLElement {
  const heads: Head[] = [
    ["Lane", "", "tl-col-name"],
    ["Busy", "Share of the stretch in which anything of the lane goes on", "tl-num"],
    ["Events", "How many touch the stretch", "tl-num"],
    ["Total", "Sum of their times inside the stretch; nested ones count again", "tl-num"],
    ["Mean", "Of whole events", "tl-num"],
    ["Median", "The middle of the times of whole events", "tl-num"],
    ["Longest", "Of whole events", "tl-num"],
  ];
  const row = (name: string, sums: SumsRow): HTMLElement =>
    h(
      "tr",
      {},
      nameCell(name),
      num(percent(sums.busy)),
      num(count(sums.count)),
      num(ns(sums.total_ns)),
      num(ns(sums.mean_ns)),
      num(ns(sums.median_ns)),
      num(ns(sums.longest_ns)),
    );
  return table("figures by lane", heads, [
    ...lanes.map((lane) => row(lane.lane ?? "", lane)),
    row(plural(lanes.length, "lane"), all),
  ]);
}

function comparedTable(
  context: TimelineContext,
  names: readonly string[],
  rows: readonly ComparedRow[],
): HTMLElement {
  const [first, second] = names as [string, string];
  const heads: Head[] = [
    ["Kernel", "The largest change first", "tl-col-name"],
    ["Before", `Total in ${first}`, "tl-num"],
    ["After", `Total in ${second}`, "tl-num"],
    ["After/before", "Below 1: it became faster", "tl-num"],
    ["Runs", "Before, after", "tl-num"],
  ];
  const made = rows.map((row, i) => {
    const cells = [
      ...row.total_ns.map((total, run) => num(row.runs[run] ? ns(total) : "–")),
      num(row.ratio === null ? "–" : `${digits(row.ratio)} ×`),
      num(row.runs.map(count).join(" · ")),
    ];
    const sought = row.names[row.runs[1] ? 1 : 0];
    const made = namedRow(context, row.name, i, cells, row.programs, sought);
    if (row.ratio !== null && row.ratio < 0.95) made.classList.add("tl-faster");
    if (row.ratio !== null && row.ratio > 1.05) made.classList.add("tl-slower");
    return made;
  });
  return table("kernels of two runs", heads, made);
}
