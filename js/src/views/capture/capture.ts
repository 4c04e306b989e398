/** The viewer of captures: one view of it, put together from its parts. */
import { Store } from "../../base/store.ts";
import { plural } from "../../base/text.ts";
import type { CaptureSession, CaptureState, CaptureTab } from "../../protocol/capture.ts";
import { h } from "../dom.ts";
import { type Look, openView, statusLine, tabButton, tabList, topBar, viewRoot } from "../frame.ts";
import { helpPanel } from "../help.ts";
import css from "../style.css";
import { followTheme } from "../theme.ts";
import captureCss from "./capture.css";
import { captureCommands, NOTES } from "./commands.ts";
import type { CaptureContext, CaptureViewState } from "./context.ts";
import { countersTab } from "./counters.ts";
import { traceSearch } from "./search.ts";
import { streamName, traceTab } from "./trace.ts";

/** Mounts a view of captures into an element, until the signal aborts. */
export function mountCapture(el: HTMLElement, session: CaptureSession, signal: AbortSignal): void {
  const view = new Store<CaptureViewState>({ help: false, search: false, sort: null });
  const root = viewRoot(el, {
    css: [css, captureCss],
    class: "tinylab tl-capture",
    label: "thread traces and counters",
  });
  const asker = session.client.askerFor(signal);
  const context: CaptureContext = { session, asker, view, root, signal };
  followTheme(
    root,
    () => {
      trace.themeChanged();
      counters.themeChanged();
    },
    signal,
  );
  const trace = traceTab(context);
  const counters = countersTab(context);
  const commands = captureCommands({ ...context, trace });
  root.append(
    headBar(context),
    traceSearch(context, (place, instruction) => trace.showEvent(place, instruction), trace.source),
    h("div", { class: "tl-body" }, trace.el, counters.el),
    statusBar(context),
    helpPanel(context, commands, NOTES),
  );
  openView(el, root, session, commands, signal);
  session.state.watch(["tab"], () => (root.dataset.tab = session.state.now.tab), signal);
  session.state.watch(
    ["traces", "stream", "link", "compared"],
    () => markReady(root, session),
    signal,
  );
}

/** What tests and screen readers can rely on. */
function markReady(root: HTMLElement, session: CaptureSession): void {
  const { stream, link, compared } = session.state.now;
  root.dataset.stream = String(stream ?? "");
  root.dataset.done = String(session.trace?.done ?? false);
  root.dataset.compared = String(compared !== null);
  root.dataset.link = link;
}

function headBar(context: CaptureContext): HTMLElement {
  const { session, signal } = context;
  const tab = (id: CaptureTab, label: string): HTMLButtonElement => {
    const made = tabButton(id, label, () => session.state.set({ tab: id }));
    session.state.watch(
      ["tab", "overview"],
      () => {
        const { overview, tab: shown } = session.state.now;
        made.setAttribute("aria-selected", String(shown === id));
        made.hidden = (overview?.[id === "trace" ? "streams" : "readouts"].length ?? 1) === 0;
      },
      signal,
    );
    return made;
  };
  return topBar(context, {
    first: tabList(tab("trace", "Thread trace"), tab("counters", "Counters")),
    factsOf,
    search: "Search instructions and events (/)",
  });
}

function factsOf(overview: NonNullable<CaptureState["overview"]>): string {
  const targets = [...new Set(overview.captures.map((each) => each.target))];
  return [
    ...targets,
    overview.streams.length > 0 && plural(overview.streams.length, "stream"),
    overview.readouts.length > 0 && plural(overview.readouts.length, "read-out"),
  ]
    .filter(Boolean)
    .join(" · ");
}

function statusBar({ session, signal }: CaptureContext): HTMLElement {
  return statusLine(
    (tell) =>
      session.state.watch(
        ["link", "problem", "traces", "stream", "overview", "reading", "tab"],
        tell,
        signal,
      ),
    () => captureStatus(session),
  );
}

/** How the line looks and what it says: the gravest thing first. */
export function captureStatus(session: CaptureSession): readonly [Look, string] {
  const { link, problem, stream, tab, overview } = session.state.now;
  if (link === "gone") {
    return [
      "gone",
      "The kernel of this capture has gone: what was loaded stays. Run the cell again for a live view.",
    ];
  }
  if (problem) return ["problem", problem];
  if (link === "busy") return ["busy", "The kernel is busy."];
  if (overview?.streams.length === 0 && overview.readouts.length === 0)
    return ["ready", "Nothing was captured."];
  const { trace } = session;
  if (tab === "counters" || stream === null)
    return ["ready", "Counters as they were read after each run."];
  if (!trace) return ["waiting", "Reading …"];
  const isEmpty = trace.info.bytes === 0 && trace.info.notes[0] !== undefined;
  const fatal = isEmpty ? undefined : trace.info.faults.find((fault) => fault.fatal);
  if (fatal)
    return [
      "problem",
      `Decoding stopped at byte ${fatal.byte}, clock ${fatal.clock}: ${fatal.why}.`,
    ];
  const bad = trace.info.notes.join("; ");
  return ["ready", [streamName(session.state.now, stream), bad].filter(Boolean).join(" — ")];
}
