/** Searching for ops, rules and labels, in this pass or in all. */
import { Superseded } from "../base/lanes.ts";
import { count, plural } from "../base/text.ts";
import type { Session } from "../protocol/session.ts";
import type { SearchHit } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h, highlighted, setText } from "./dom.ts";
import { hitRow, searchBox } from "./hits.ts";
import { stageTitle } from "./names.ts";

export function searchPanel(context: Context): HTMLElement {
  const { session, asker, view, signal } = context;
  const everywhere = h("input", { type: "checkbox", checked: true });
  const { el, input, note, list } = searchBox(context, {
    placeholder: "op, rule or label",
    label: "search the record",
    beside: (own) => [h("label", {}, everywhere, " all passes"), own],
  });

  const open = (hit: SearchHit): void => {
    session.goTo({ pass: hit.pass, k: hit.k });
    session.choose(hit.node);
    view.set({ tab: "rewrites", search: false });
    el.closest<HTMLElement>(".tinylab")?.focus();
  };
  const rowOf = (hit: SearchHit, query: string, i: number): HTMLElement =>
    hitRow({
      label: [
        ...highlighted(hit.label, query),
        h("span", { class: "tl-faint" }, hit.detail ? ` ${hit.detail}` : ""),
      ],
      title: `${hit.label} ${hit.detail ?? ""}`.trim(),
      where: placeText(session, hit),
      stop: i === 0,
      choose: () => open(hit),
    });
  const show = (hits: readonly SearchHit[], text: string, query: string): void => {
    list.replaceChildren(...hits.map((hit, i) => rowOf(hit, query, i)));
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
      const { hits, more } = await asker.ask("search", { query, pass });
      show(hits, countText(hits.length, more), query);
    } catch (error) {
      if (error instanceof Superseded) return;
      setText(note, error instanceof Error ? error.message : String(error));
    }
  };

  input.addEventListener("input", () => void search(), { signal });
  everywhere.addEventListener("change", () => void search(), { signal });
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
