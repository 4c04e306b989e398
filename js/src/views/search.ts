/** Searching for ops, rules and labels, in this pass or in all. */
import { Superseded } from "../base/lanes.ts";
import { count, plural } from "../base/text.ts";
import type { Session } from "../protocol/session.ts";
import type { SearchHit } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h, highlighted, setText } from "./dom.ts";
import { stageTitle } from "./names.ts";
import { walk } from "./tree.ts";

export function searchPanel({ session, view, signal }: Context): HTMLElement {
  const input = h("input", {
    type: "search",
    class: "tl-search-input",
    placeholder: "op, rule or label",
    "aria-label": "search the record",
    "data-name": "search",
  });
  const everywhere = h("input", { type: "checkbox", checked: true });
  const note = h("span", { class: "tl-quiet-text", role: "status" });
  const list = h("div", { class: "tl-hits", role: "listbox", "aria-label": "hits" });
  const el = h(
    "div",
    { class: "tl-search", hidden: true },
    h("div", { class: "tl-search-row" }, input, h("label", {}, everywhere, " all passes"), note),
    list,
  );

  const open = (hit: SearchHit): void => {
    session.goTo({ pass: hit.pass, k: hit.k });
    session.choose(hit.node);
    view.set({ tab: "rewrites", search: false });
    el.closest<HTMLElement>(".tinylab")?.focus();
  };
  const hitRow = (hit: SearchHit, query: string, i: number): HTMLElement => {
    return h(
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
      h(
        "span",
        { class: "tl-hit-label", title: `${hit.label} ${hit.detail ?? ""}`.trim() },
        ...highlighted(hit.label, query),
        h("span", { class: "tl-faint" }, hit.detail ? ` ${hit.detail}` : ""),
      ),
      h("span", { class: "tl-faint" }, placeText(session, hit)),
    );
  };
  const show = (hits: readonly SearchHit[], text: string, query: string): void => {
    list.replaceChildren(...hits.map((hit, i) => hitRow(hit, query, i)));
    setText(note, text);
  };
  const search = async (): Promise<void> => {
    const query = input.value.trim();
    if (query === "") {
      show([], "", query);
      return;
    }
    const pass = everywhere.checked ? null : (session.state.now.at?.pass ?? null);
    try {
      const { hits, more } = await session.client.ask("search", { query, pass });
      show(hits, countText(hits.length, more), query);
    } catch (error) {
      if (error instanceof Superseded) return;
      setText(note, error instanceof Error ? error.message : String(error));
    }
  };

  input.addEventListener("input", () => void search(), { signal });
  everywhere.addEventListener("change", () => void search(), { signal });
  input.addEventListener(
    "keydown",
    (event) => {
      const first = list.querySelector<HTMLElement>("[tabindex]");
      if (event.key === "ArrowDown" && first) first.focus();
      else if (event.key === "Enter" && first) first.click();
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
    },
    signal,
  );
  return el;
}

function countText(found: number, more: boolean): string {
  if (found === 0) return "nothing found";
  return more ? `the first ${found}` : String(found);
}

/** "schedule › assign_ranges · match 7 · in 3 passes" */
function placeText(session: Session, hit: SearchHit): string {
  const place = session.place(hit.pass);
  if (!place) return "";
  const { passes = 1, matches = 1 } = hit;
  return [
    `${stageTitle(session.state.now.overview, place.stage)} › ${place.pass.name}`,
    hit.k === 0 ? "start" : `match ${count(hit.k)}`,
    passes > 1 ? `in ${count(passes)} passes` : "",
    matches > 1 ? plural(matches, "match") : "",
  ]
    .filter(Boolean)
    .join(" · ");
}
