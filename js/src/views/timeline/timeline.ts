/** The timeline of a profile: lanes over time, figures beside them. */
import { contains, type Range, width } from "../../base/range.ts";
import { lengthText } from "../../base/ruler.ts";
import { Store } from "../../base/store.ts";
import { plural, visible } from "../../base/text.ts";
import type { TimelineSession, TimelineState } from "../../protocol/timeline_session.ts";
import type { EventInfo, TimelineOverview } from "../../protocol/timeline_types.ts";
import { type Command, command } from "../bind.ts";
import { button, h } from "../dom.ts";
import { type Look, openView, statusLine, topBar, viewRoot } from "../frame.ts";
import { helpPanel, type Notes } from "../help.ts";
import { type Chosen, LaneCanvas } from "../lane_canvas.ts";
import type { Pick } from "../lane_paint.ts";
import css from "../style.css";
import { followTheme } from "../theme.ts";
import {
  firstTab,
  openKernel,
  sidePanel,
  type TimelineContext,
  type TimelineViewState,
  tabsOf,
} from "./panel.ts";
import { timelineSearch } from "./search.ts";
import { columnsOf, sourceOf } from "./source.ts";
import timeCss from "./timeline.css";

const NOTHING: TimelineOverview = {
  name: "",
  span: [0, 1],
  events: 0,
  lanes: [],
  markers: [],
  names: [],
  notices: [],
  colours: [],
  top: [],
  counted: false,
  recorded: false,
  other: null,
  running: false,
};
const NOTES: Notes = [
  [
    "Lanes",
    "What stands under another bar happens inside it. Where events are too small for the picture a bar stands for several; its height says how much of it they fill, and the tip how many they are.",
  ],
  [
    "Pointer",
    "Drag to move. Drag in the ruler, or with Shift, to measure a stretch. With the focus in the widget the wheel zooms; elsewhere it scrolls the notebook, and Ctrl with the wheel zooms. A double click goes to an event.",
  ],
  [
    "Times",
    "Kernels are waited for one by one while a profile listens, also those of a captured function, which would run in one native call: their times are their own, and the whole takes longer.",
  ],
];

/** Mounts a view of a profile into an element, until the signal aborts. */
export function mountTimeline(
  el: HTMLElement,
  session: TimelineSession,
  signal: AbortSignal,
): void {
  const view = new Store<TimelineViewState>({
    tab: firstTab(session.state.now.overview),
    help: false,
    search: false,
  });
  const root = viewRoot(el, {
    css: [css, timeCss],
    class: "tinylab tl-timeline",
    label: "timeline of a profile",
  });
  followTheme(root, () => lanes.themeChanged(), signal);
  const overview = session.state.now.overview ?? NOTHING;
  const asker = session.client.askerFor(signal);
  const lanes = new LaneCanvas(
    sourceOf(session, asker, overview),
    root,
    { colours: overview.colours.map((name) => `time-${name}`), label: "lanes over time" },
    {
      chosen: (chosen) => void session.choose(chosen ? eventOf(chosen) : null),
      stretched: (range) => void session.mark(range),
      failed: (error) => session.report(error),
      loading: (busy) => (root.dataset.loading = String(busy)),
    },
    signal,
  );
  const go = (event: EventInfo): void => {
    session.take(event);
    lanes.show(pickOf(event));
  };
  const context: TimelineContext = {
    session,
    view,
    root,
    signal,
    find: (name) => void findFirst(session, view, name, go),
    list: (name) => {
      void session.search(name);
      view.set({ search: true });
    },
    zoomToEvent: () => {
      if (lanes.selected) lanes.zoomTo(lanes.selected, 0.5);
    },
    clear: () => lanes.setStretch(null),
  };
  const commands = commandsOf(context, lanes);
  root.append(
    headBar(context, lanes),
    timelineSearch(context, go),
    h("div", { class: "tl-body" }, h("div", { class: "tl-main" }, lanes.el), sidePanel(context)),
    statusBar(context),
    helpPanel(context, commands, NOTES),
  );
  session.state.watch(
    ["overview"],
    () => {
      const now = session.state.now.overview;
      if (!now) return;
      lanes.setMarkers(now.markers.map(([at, label]) => ({ at: +at!, label: String(label) })));
      if (now !== overview) lanes.setSource(sourceOf(session, asker, now));
    },
    signal,
  );
  session.state.watch(
    ["stretch"],
    () => {
      const { stretch } = session.state.now;
      if (stretch !== lanes.stretch) lanes.setStretch(stretch, false);
    },
    signal,
  );
  session.state.watch(
    ["event"],
    () => {
      markEvent(root, session);
      markInLanes(lanes, session.state.now.event);
    },
    signal,
  );
  session.state.watch(
    ["wanted"],
    () => {
      const { wanted } = session.state.now;
      if (wanted) lanes.show(pickOf(wanted));
    },
    signal,
  );
  openView(el, root, session, commands, signal);
}

function eventOf({ window, row }: Chosen): number {
  return columnsOf(window).event[row]!;
}

function pickOf(event: EventInfo): Pick {
  return { key: event.key, start: event.start_ns, end: event.end_ns };
}

/** Marks the event that is chosen, in this view or another; a bar of several holds its longest. */
function markInLanes(lanes: LaneCanvas, event: EventInfo | null): void {
  const pick = event && pickOf(event);
  const marked = lanes.selected;
  if (pick && marked && marked.key === pick.key && contains(marked, pick)) return;
  lanes.select(pick);
}

/** What tests and screen readers can rely on: which event is chosen. */
function markEvent(root: HTMLElement, session: TimelineSession): void {
  const { event } = session.state.now;
  root.dataset.event = event ? String(event.event) : "";
}

async function findFirst(
  session: TimelineSession,
  view: Store<TimelineViewState>,
  name: string,
  go: (event: EventInfo) => void,
): Promise<void> {
  await session.search(name);
  const first = session.state.now.hits?.hits.find((hit) => hit.name === name);
  if (first) go(first);
  else view.set({ search: true });
}

function commandsOf(context: TimelineContext, lanes: LaneCanvas): Command[] {
  const { view, root } = context;
  return [
    command("Move", "ArrowRight d", "move right", () => lanes.pan(0.15)),
    command("Move", "ArrowLeft a", "move left", () => lanes.pan(-0.15)),
    command("Move", "+ = ArrowUp", "zoom in", () => lanes.zoom(1.5)),
    command("Move", "- ArrowDown", "zoom out", () => lanes.zoom(1 / 1.5)),
    command("Move", "z Home", "show all of it", () => lanes.showAll()),
    command("Move", "PageDown", "scroll down", () => void lanes.scrollBy(120)),
    command("Move", "PageUp", "scroll up", () => void lanes.scrollBy(-120)),
    command("Events", "] n", "next event of the lane", () => lanes.step(1)),
    command("Events", "[ p", "previous event of the lane", () => lanes.step(-1)),
    command("Events", "Shift+ArrowDown j", "the lane below", () => lanes.stepLane(1)),
    command("Events", "Shift+ArrowUp k", "the lane above", () => lanes.stepLane(-1)),
    command("Events", "e Enter", "zoom to the chosen event", context.zoomToEvent),
    command("Events", "m", "measure the chosen event, or what is in sight", () => {
      lanes.setStretch(stretchOf(lanes));
    }),
    command("Events", "/", "search by name", () => view.set({ search: true })),
    command("Kernel", "o", "its source and opts editor", () => void openKernel(context, "kernels")),
    command("Kernel", "w", "its rewrites", () => void openKernel(context, "rewrites")),
    command("View", "f", "figures of kernels, lanes, two runs", () => nextTab(context)),
    command("View", "?", "this help", () => view.set({ help: !view.now.help })),
    command("View", "Escape", "close, clear", () => {
      closeOne(context, lanes);
      root.focus();
    }),
  ];
}

function stretchOf(lanes: LaneCanvas): Range {
  const { selected, view } = lanes;
  const range = selected && width(selected) > 0 ? selected : view;
  return { start: Math.floor(range.start), end: Math.ceil(range.end) };
}

function nextTab({ session, view }: TimelineContext): void {
  const tabs = tabsOf(session.state.now.overview);
  const here = tabs.indexOf(view.now.tab);
  view.set({ tab: tabs[(here + 1) % tabs.length]! });
}

/** Closes the uppermost thing that is open. */
function closeOne({ session, view }: TimelineContext, lanes: LaneCanvas): void {
  if (view.now.help) view.set({ help: false });
  else if (view.now.search) view.set({ search: false });
  else if (session.state.now.problem) session.state.set({ problem: null });
  else if (session.state.now.stretch) lanes.setStretch(null);
  else lanes.clear();
}

function headBar(context: TimelineContext, lanes: LaneCanvas): HTMLElement {
  const quiet = { class: "tl-quiet" };
  return topBar(context, {
    class: "tl-time-top",
    first: h("span", { class: "tl-title" }, "Timeline"),
    factsOf,
    search: "Search by name (/)",
    buttons: [
      button("All", "Show all of it (z)", () => lanes.showAll(), { ...quiet, name: "all" }),
      button("−", "Zoom out (-)", () => lanes.zoom(1 / 1.5), quiet),
      button("+", "Zoom in (+)", () => lanes.zoom(1.5), quiet),
    ],
  });
}

function factsOf(overview: TimelineOverview): string {
  const [start, end] = overview.span as [number, number];
  return [
    lengthText(end - start, "ns"),
    plural(overview.events, "event"),
    plural(overview.lanes.length, "lane"),
    overview.running ? "still running" : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function statusBar({ session, root, signal }: TimelineContext): HTMLElement {
  session.state.watch(["link"], () => (root.dataset.link = session.state.now.link), signal);
  return statusLine(
    (tell) =>
      session.state.watch(
        ["link", "problem", "overview", "sums", "stretch", "event"],
        tell,
        signal,
      ),
    () => statusOf(session.state.now),
  );
}

/** How the line looks and what it says: the gravest thing first. */
export function statusOf(state: TimelineState): readonly [Look, string] {
  const { link, problem, overview, sums, stretch, event } = state;
  if (link === "gone") {
    return [
      "gone",
      "The kernel of this profile has gone: what was loaded stays. Run the cell again for a live view.",
    ];
  }
  if (problem) return ["problem", problem];
  if (link === "busy") return ["busy", "The kernel is busy: what is not loaded yet follows."];
  if (stretch && sums) {
    const busy = sums.lanes.reduce((most, lane) => Math.max(most, lane.busy), 0);
    const { all } = sums;
    return [
      "ready",
      `${lengthText(stretch.end - stretch.start, "ns")}: ${plural(all.count, "event")}, the busiest lane ${Math.round(100 * busy)} %`,
    ];
  }
  if (event)
    return [
      "ready",
      `${visible(event.lane)}: ${visible(event.name)}, ${lengthText(event.duration_ns, "ns")}`,
    ];
  const notices = overview?.notices ?? [];
  if (notices.length > 0) return ["note", notices.join(". ")];
  return ["ready", overview ? plural(overview.events, "event") : "Nothing is loaded."];
}
