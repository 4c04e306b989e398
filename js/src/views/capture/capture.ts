/** The viewer of captures: one view of it, put together from its parts. */
import { Store } from "../../base/store.ts";
import { plural } from "../../base/text.ts";
import type { CaptureSession, CaptureState, CaptureTab } from "../../protocol/capture.ts";
import { bindKeys } from "../bind.ts";
import { button, guardFocus, h, setText } from "../dom.ts";
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
  const root = h("div", {
    class: "tinylab tl-capture",
    tabindex: "0",
    role: "application",
    "aria-label": "thread traces and counters; press ? for the keys",
    "data-lm-suppress-shortcuts": "true",
  });
  const context: CaptureContext = { session, view, root, signal };
  el.append(h("style", {}, css, captureCss), root);
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
    topBar(context),
    traceSearch(context, (place, instruction) => trace.showEvent(place, instruction), trace.source),
    h("div", { class: "tl-body" }, trace.el, counters.el),
    statusBar(context),
    helpPanel(
      root,
      {
        isOpen: () => view.now.help,
        close: () => view.set({ help: false }),
        watch: (tell) => view.watch(["help"], tell, signal),
      },
      commands,
      NOTES,
    ),
  );
  bindKeys(root, commands, signal);
  guardFocus(root, signal);
  session.state.watch(["tab"], () => (root.dataset.tab = session.state.now.tab), signal);
  session.state.watch(
    ["traces", "stream", "link", "compared"],
    () => markReady(root, session),
    signal,
  );
  session.views.add(root);
  signal.addEventListener(
    "abort",
    () => {
      session.views.delete(root);
      el.replaceChildren();
    },
    { once: true },
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

function topBar({ session, view, signal }: CaptureContext): HTMLElement {
  const name = h("span", { class: "tl-name" });
  const facts = h("span", { class: "tl-quiet-text tl-facts-line" });
  const tab = (id: CaptureTab, label: string): HTMLButtonElement => {
    const made = button(label, `${label} (k changes)`, () => session.state.set({ tab: id }), {
      class: "tl-tab-button",
      name: `tab-${id}`,
    });
    made.setAttribute("role", "tab");
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
  session.state.watch(
    ["overview"],
    () => {
      const { overview } = session.state.now;
      setText(name, overview?.name ?? "");
      setText(facts, overview ? factsOf(overview) : "");
    },
    signal,
  );
  return h(
    "div",
    { class: "tl-top" },
    h(
      "div",
      { class: "tl-tabs", role: "tablist" },
      tab("trace", "Thread trace"),
      tab("counters", "Counters"),
    ),
    name,
    facts,
    h(
      "div",
      { class: "tl-buttons tl-right" },
      button(
        "Search",
        "Search instructions and events (/)",
        () => view.set({ search: !view.now.search }),
        { class: "tl-quiet" },
      ),
      button("?", "Keys and meanings (?)", () => view.set({ help: true }), {
        class: "tl-quiet",
        name: "help",
      }),
    ),
  );
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

type Look = "ready" | "waiting" | "busy" | "problem" | "gone";

function statusBar({ session, signal }: CaptureContext): HTMLElement {
  const text = h("span", { class: "tl-status-text", role: "status", "aria-live": "polite" });
  const dot = h("i", { class: "tl-dot", "aria-hidden": "true" });
  const bar = h(
    "div",
    { class: "tl-status" },
    dot,
    text,
    h("span", { class: "tl-right tl-faint" }, "? help"),
  );
  session.state.watch(
    ["link", "problem", "traces", "stream", "overview", "reading", "tab"],
    () => {
      const [look, words] = captureStatus(session);
      bar.dataset.state = look;
      setText(text, words);
    },
    signal,
  );
  return bar;
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
