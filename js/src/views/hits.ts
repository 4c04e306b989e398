/** What the searches share: a field, a list of hits under it, the keys in both. */
import { h } from "./dom.ts";
import type { Framed } from "./frame.ts";
import { walk } from "./tree.ts";

export interface SearchBox {
  readonly el: HTMLElement;
  readonly input: HTMLInputElement;
  readonly note: HTMLElement;
  readonly list: HTMLElement;
}

interface About {
  readonly placeholder: string;
  readonly label: string;
  /** What stands beside the field; else only the note. */
  readonly beside?: (note: HTMLElement) => readonly HTMLElement[];
  /** Enter in the field; else it opens the first hit. */
  readonly enter?: () => void;
  readonly closed?: () => void;
}

/** A search that is there while the view's `search` is on. */
export function searchBox(
  { view, signal }: Pick<Framed, "view" | "signal">,
  about: About,
): SearchBox {
  const input = h("input", {
    type: "search",
    class: "tl-search-input",
    placeholder: about.placeholder,
    "aria-label": about.label,
    "data-name": "search",
  });
  const note = h("span", { class: "tl-quiet-text", role: "status" });
  const list = h("div", { class: "tl-hits", role: "listbox", "aria-label": "hits" });
  const row = h("div", { class: "tl-search-row" }, input, ...(about.beside?.(note) ?? [note]));
  const el = h("div", { class: "tl-search", hidden: true }, row, list);
  const first = (): HTMLElement | null => list.querySelector<HTMLElement>("[tabindex]");
  const enter = about.enter ?? (() => first()?.click());
  input.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "ArrowDown") first()?.focus();
      else if (event.key === "Enter") enter();
      else return;
      event.preventDefault();
    },
    { signal },
  );
  list.addEventListener("keydown", (event) => walk(list, event), { signal });
  view.watch(
    ["search"],
    () => {
      el.hidden = !view.now.search;
      if (view.now.search) input.select();
      else about.closed?.();
    },
    signal,
  );
  return { el, input, note, list };
}

interface Hit {
  readonly label: readonly (Node | string)[];
  readonly title?: string;
  readonly where: string;
  /** Whether Tab stops here; the arrow keys come to all hits. */
  readonly stop: boolean;
  readonly choose: () => void;
}

export function hitRow({ label, title, where, stop, choose }: Hit): HTMLElement {
  return h(
    "div",
    {
      class: "tl-hit-row",
      role: "option",
      tabindex: stop ? "0" : "-1",
      on: { click: choose, keydown: (event: KeyboardEvent) => event.key === "Enter" && choose() },
    },
    h("span", { class: "tl-hit-label", title }, ...label),
    h("span", { class: "tl-faint" }, where),
  );
}
