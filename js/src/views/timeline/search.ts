/** Searching for events by name: hits by time, each one click from where it stands. */
import { lengthText, timeText } from "../../base/ruler.ts";
import { count, visible } from "../../base/text.ts";
import type { EventInfo } from "../../protocol/timeline_types.ts";
import { highlighted, setText } from "../dom.ts";
import { hitRow, searchBox } from "../hits.ts";
import type { TimelineContext } from "./panel.ts";

const REST_MS = 180;

export function timelineSearch(
  context: TimelineContext,
  go: (event: EventInfo) => void,
): HTMLElement {
  const { session, view, root, signal } = context;
  const { el, input, note, list } = searchBox(context, {
    placeholder: "part of a name",
    label: "search events",
    enter: () => {
      const first = session.state.now.hits?.hits[0];
      if (first && session.state.now.query === input.value) open(first);
      else void session.search(input.value);
    },
  });
  let timer: ReturnType<typeof setTimeout> | null = null;

  const open = (hit: EventInfo): void => {
    go(hit);
    view.set({ search: false });
    root.focus();
  };
  const rowOf = (hit: EventInfo, i: number): HTMLElement =>
    hitRow({
      label: highlighted(visible(hit.name), session.state.now.query),
      where: `${hit.lane} · ${lengthText(hit.duration_ns, "ns")} at ${timeText(hit.start_ns, "ns")}`,
      stop: i === 0,
      choose: () => open(hit),
    });
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
  return el;
}

function foundText(shown: number, found: number): string {
  if (found === 0) return "nothing found";
  return shown < found ? `the first ${count(shown)} of ${count(found)}` : count(found);
}
