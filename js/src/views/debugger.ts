/** The debugger of a record: one view of it, put together from its parts. */

import { Store } from "../base/store.ts";
import { duration, plural } from "../base/text.ts";
import type { Session } from "../protocol/session.ts";
import { benchView } from "./bench.ts";
import { cellPanel } from "./cell.ts";
import { codeView } from "./code.ts";
import { commandsOf, NOTES } from "./commands.ts";
import type { Context, Tab, ViewState } from "./context.ts";
import { h } from "./dom.ts";
import { openView, tabButton, tabList, topBar, viewRoot } from "./frame.ts";
import { GraphView } from "./graph/graph.ts";
import { helpPanel } from "./help.ts";
import { kernelTable } from "./kernels.ts";
import { rulePanel } from "./rule.ts";
import { searchPanel } from "./search.ts";
import { kernelSheets } from "./sheets.ts";
import { splitter } from "./split.ts";
import { statusBar } from "./status.ts";
import { stepperBar } from "./stepper.ts";
import css from "./style.css";
import { textView } from "./text.ts";
import { followTheme } from "./theme.ts";
import { treePanel } from "./tree.ts";

/** Mounts a view of a session into an element, until the signal aborts. */
export function mountDebugger(el: HTMLElement, session: Session, signal: AbortSignal): void {
  const view = new Store<ViewState>({
    tab: "rewrites",
    form: "graph",
    allPasses: false,
    help: false,
    search: false,
    sort: { column: "#", down: false },
  });
  const root = viewRoot(el, { css: [css], class: "tinylab", label: "tinylab debugger" });
  const asker = session.client.askerFor(signal);
  const context: Context = { session, asker, view, root, signal };
  followTheme(root, () => graph.themeChanged(), signal);

  const graph = new GraphView(session, root, signal);
  const code = codeView(context);
  const cell = cellPanel(context);
  const sheets = kernelSheets(context, code, cell);
  const bench = benchView(context, code, sheets.show);
  const commands = commandsOf({ ...context, graph, bench });
  root.append(
    headBar(context),
    searchPanel(context),
    h(
      "div",
      { class: "tl-body" },
      leftPanel(context, cell.el),
      rewritesTab(context, graph),
      kernelsTab(context, sheets.el, bench.el),
    ),
    statusBar(context),
    helpPanel(context, commands, NOTES),
  );
  openView(el, root, session, commands, signal);
  view.watch(["tab"], () => (root.dataset.tab = view.now.tab), signal);
  session.state.watch(["at", "shown", "link"], () => markReady(root, session), signal);
  // Who comes here, by pointer or by keys, is about to step.
  for (const coming of ["focusin", "pointerenter"]) {
    root.addEventListener(coming, () => session.lookAhead(), { signal, once: true });
  }
  session.state.watch(["reveal"], () => comeIntoSight(context), signal);
}

/** Another view asked to look here: the tab that it named is opened, and the first view is shown. */
function comeIntoSight({ session, view, root }: Context): void {
  const { reveal } = session.state.now;
  if (!reveal || root.dataset.reveal === String(reveal.number)) return;
  root.dataset.reveal = String(reveal.number);
  view.set({ tab: reveal.tab });
  const first = [...session.views][0];
  if (first !== undefined && first !== root) return;
  root.scrollIntoView({ block: "nearest" });
  root.focus({ preventScroll: true });
}

/** What tests and screen readers can rely on: where the view stands, and that it has painted. */
function markReady(root: HTMLElement, session: Session): void {
  const { at, shown, link } = session.state.now;
  root.dataset.at = at ? `${at.pass}:${at.k}` : "";
  root.dataset.shown = shown ? `${shown.step.pass}:${shown.step.k}` : "";
  root.dataset.link = link;
}

function leftPanel(context: Context, cell: HTMLElement): HTMLElement {
  const el = h("div", { class: "tl-left" }, cell, treePanel(context));
  const label = "Width of the cell and the stages";
  el.append(
    splitter(context.root, el, { label, side: "right", property: "--tl-left", least: 120 }),
  );
  return el;
}

function rewritesTab(context: Context, graph: GraphView): HTMLElement {
  const text = textView(context);
  const { view, signal } = context;
  view.watch(
    ["form"],
    () => {
      graph.el.hidden = view.now.form !== "graph";
      text.hidden = view.now.form === "graph";
    },
    signal,
  );
  return h(
    "div",
    { class: "tl-tab tl-rewrites" },
    h("div", { class: "tl-main" }, stepperBar(context), graph.el, text),
    rulePanel(context),
  );
}

function kernelsTab(context: Context, code: HTMLElement, bench: HTMLElement): HTMLElement {
  return h(
    "div",
    { class: "tl-tab tl-kernels-tab" },
    h("div", { class: "tl-main" }, kernelTable(context), code),
    bench,
  );
}

function headBar(context: Context): HTMLElement {
  const { view, signal } = context;
  const tab = (id: Tab, label: string): HTMLElement => {
    const made = tabButton(id, label, () => view.set({ tab: id }));
    view.watch(
      ["tab"],
      () => made.setAttribute("aria-selected", String(view.now.tab === id)),
      signal,
    );
    return made;
  };
  return topBar(context, {
    first: tabList(tab("rewrites", "Rewrites"), tab("kernels", "Kernels")),
    factsOf,
    search: "Search ops, rules and labels (/)",
  });
}

function factsOf(overview: NonNullable<Session["state"]["now"]["overview"]>): string {
  const { totals, device } = overview;
  return [
    device,
    plural(totals.passes, "pass"),
    plural(totals.matches, "match"),
    plural(totals.kernels, "kernel"),
    duration(totals.elapsed_us),
  ]
    .filter(Boolean)
    .join(" · ");
}
