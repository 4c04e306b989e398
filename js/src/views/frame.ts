/** What frames a view of any kind: its root, the bars at the head and the foot, its end. */
import { bindKeys, type Command } from "./bind.ts";
import { button, guardFocus, h, setText } from "./dom.ts";

/** What is open over a view: a part of the store that each view has. */
export interface Panels {
  readonly now: { readonly help: boolean; readonly search: boolean };
  set(patch: { readonly help?: boolean; readonly search?: boolean }): void;
  watch(keys: readonly ("help" | "search")[], tell: () => void, signal: AbortSignal): void;
}

/** What of a view's context its frame needs. */
export interface Framed {
  readonly view: Panels;
  readonly root: HTMLElement;
  readonly signal: AbortSignal;
}

/** A session, as far as its overview goes. */
interface Overviewed<O> {
  readonly state: {
    readonly now: { readonly overview: O | null };
    watch(keys: readonly "overview"[], tell: () => void, signal: AbortSignal): void;
  };
}

/** The root of a view, in the element with its style sheets. */
export function viewRoot(
  el: HTMLElement,
  about: { readonly css: readonly string[]; readonly class: string; readonly label: string },
): HTMLElement {
  const root = h("div", {
    class: about.class,
    tabindex: "0",
    role: "application",
    "aria-label": `${about.label}; press ? for the keys`,
    "data-lm-suppress-shortcuts": "true",
  });
  el.append(h("style", {}, ...about.css), root);
  return root;
}

/** Binds the keys, and counts the view among those of its session until the signal aborts. */
export function openView(
  el: HTMLElement,
  root: HTMLElement,
  { views }: { readonly views: Set<object> },
  commands: readonly Command[],
  signal: AbortSignal,
): void {
  bindKeys(root, commands, signal);
  guardFocus(root, signal);
  views.add(root);
  signal.addEventListener(
    "abort",
    () => {
      views.delete(root);
      el.replaceChildren();
    },
    { once: true },
  );
}

/** The bar at the head: what comes first, name and facts of the overview, buttons. */
export function topBar<O extends { readonly name: string }>(
  { session, view, signal }: Pick<Framed, "view" | "signal"> & { readonly session: Overviewed<O> },
  parts: {
    readonly first: HTMLElement;
    readonly factsOf: (overview: O) => string;
    /** What the search button says of itself. */
    readonly search: string;
    readonly buttons?: readonly HTMLElement[];
    readonly class?: string;
  },
): HTMLElement {
  const name = h("span", { class: "tl-name" });
  const facts = h("span", { class: "tl-quiet-text tl-facts-line" });
  session.state.watch(
    ["overview"],
    () => {
      const { overview } = session.state.now;
      setText(name, overview?.name ?? "");
      setText(facts, overview ? parts.factsOf(overview) : "");
    },
    signal,
  );
  const quiet = { class: "tl-quiet" };
  return h(
    "div",
    { class: `tl-top ${parts.class ?? ""}`.trim() },
    parts.first,
    name,
    facts,
    h(
      "div",
      { class: "tl-buttons tl-right" },
      ...(parts.buttons ?? []),
      button("Search", parts.search, () => view.set({ search: !view.now.search }), quiet),
      button("?", "Keys and meanings (?)", () => view.set({ help: true }), {
        ...quiet,
        name: "help",
      }),
    ),
  );
}

/** Tabs in the bar at the head. */
export function tabList(...tabs: readonly HTMLElement[]): HTMLElement {
  return h("div", { class: "tl-tabs", role: "tablist" }, ...tabs);
}

export function tabButton(id: string, label: string, choose: () => void): HTMLButtonElement {
  const more = { class: "tl-tab-button", name: `tab-${id}` };
  const made = button(label, `${label} (k changes)`, choose, more);
  made.setAttribute("role", "tab");
  return made;
}

/** note: something that one should know of, and that keeps nobody from working. */
export type Look = "ready" | "note" | "waiting" | "busy" | "problem" | "gone";

/** The line at the foot; `watch` calls back now and whenever the status may be another. */
export function statusLine(
  watch: (tell: () => void) => void,
  status: () => readonly [Look, string],
): HTMLElement {
  const text = h("span", { class: "tl-status-text", role: "status", "aria-live": "polite" });
  const dot = h("i", { class: "tl-dot", "aria-hidden": "true" });
  const hint = h("span", { class: "tl-right tl-faint" }, "? help");
  const bar = h("div", { class: "tl-status" }, dot, text, hint);
  watch(() => {
    const [look, words] = status();
    bar.dataset.state = look;
    setText(text, words);
  });
  return bar;
}
