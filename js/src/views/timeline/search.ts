/** Searching for events by name: hits by time, each one click from where it stands. */
import { lengthText, timeText } from "../../base/ruler.ts";
import { count } from "../../base/text.ts";
import type { EventInfo } from "../../protocol/timeline_types.ts";
import { h, highlighted, setText } from "../dom.ts";
import { walk } from "../tree.ts";
import type { TimelineContext } from "./panel.ts";

const REST_MS = 180;

export function timelineSearch(
  { session, view, root, signal }: TimelineContext,
  go: (event: EventInfo) => void,
): HTMLElement {
  const input = h("input", {
    type: "search",
    class: "tl-search-input",
    placeholder: "part of a name",
    "aria-label": "search events",
    "data-name": "search",
  });
  const note = h("span", { class: "tl-quiet-text", role: "status" });
  const list = h("div", { class: "tl-hits", role: "listbox", "aria-label": "hits" });
  const el = h(
    "div",
    { class: "tl-search", hidden: true },
    h("div", { class: "tl-search-row" }, input, note),
    list,
  );
  let timer: ReturnType<typeof setTimeout> | null = null;

  const open = (hit: EventInfo): void => {
    go(hit);
    view.set({ search: false });
    root.focus();
  };
  const rowOf = (hit: EventInfo, i: number): HTMLElement =>
    h(
      "div",
      {
        class: "tl-hit-row",
        role: "option",
        tabindex: i === 0 ? "0" : "-1",
        on: {
          click: () => open(hit),
          keydown: (event: KeyboardEvent) => event.key === "Enter" && open(hit),
        },
      },
      h("span", { class: "tl-hit-label" }, ...highlighted(hit.name, session.state.now.query)),
      h(
        "span",
        { class: "tl-faint" },
        `${hit.lane} · ${lengthText(hit.duration_ns, "ns")} at ${timeText(hit.start_ns, "ns")}`,
      ),
    );
  session.state.watch(
    ["hits", "query"],
    () => {
      const { hits, query } = session.state.now;
      if (input.value !== query && root.ownerDocument.activeElement !== input) input.value = query;
      list.replaceChildren(...(hits?.hits ?? []).map(rowOf));
      setText(note, hits ? foundText(hits.hits.length, hits.count) : "");
    },
    signal,
  );
  input.addEventListener(
    "input",
    () => {
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(() => void session.search(input.value), REST_MS);
    },
    { signal },
  );
  input.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "ArrowDown") list.querySelector<HTMLElement>("[tabindex]")?.focus();
      if (event.key !== "Enter") return;
      const first = session.state.now.hits?.hits[0];
      if (first && session.state.now.query === input.value) open(first);
      else void session.search(input.value);
    },
    { signal },
  );
  list.addEventListener("keydown", (event) => walk(list, event), { signal });
  view.watch(
    ["search"],
    () => {
      el.hidden = !view.now.search;
      if (view.now.search) input.select();
    },
    signal,
  );
  return el;
}

function foundText(shown: number, found: number): string {
  if (found === 0) return "nothing found";
  return shown < found ? `the first ${count(shown)} of ${count(found)}` : count(found);
}
