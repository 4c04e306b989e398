/** Search: lines of the program at once, events page by page as they are found. */
import { Superseded } from "../../base/lanes.ts";
import { count, plural } from "../../base/text.ts";
import type { EventPlace, TraceHit, TraceHits } from "../../protocol/capture_types.ts";
import { button, highlighted, setText } from "../dom.ts";
import { hitRow, searchBox } from "../hits.ts";
import type { CaptureContext } from "./context.ts";
import type { TraceSource } from "./source.ts";

const MOST_LINES = 60;
const MOST_EVENTS = 400;

export function traceSearch(
  context: CaptureContext,
  show: (place: EventPlace, instruction: number | null) => void,
  source: () => TraceSource | null,
): HTMLElement {
  const { session, asker, view, signal } = context;
  /** Each search has a number; an older one stops when it sees a newer. */
  let round = 0;
  const stop = button("Stop", "Stop searching", () => halt(), { name: "search-stop" });
  stop.hidden = true;
  const halt = (): void => {
    round += 1;
    stop.hidden = true;
  };
  const { el, input, note, list } = searchBox(context, {
    placeholder: "an instruction, a class: s_waitcnt, LDS …",
    label: "search instructions and events",
    beside: (own) => [own, stop],
    closed: halt,
  });

  const lineRow = (number: number, text: string, pc: number, query: string): HTMLElement => {
    const hits = session.program?.figures.hits[number] ?? 0;
    return hitRow({
      label: highlighted(text.replace(/\s+/g, " "), query),
      where: `0x${pc.toString(16)} · ${count(hits)} hits`,
      stop: true,
      choose: () => {
        session.chooseInstruction(number);
        view.set({ search: false });
      },
    });
  };
  const eventRow = (hit: TraceHit): HTMLElement => {
    const { time, lane, op, pc } = hit;
    const name = source()?.laneName(lane) ?? `lane ${lane}`;
    const where = [name, `at ${count(time)}`, pc === null ? "" : `0x${pc.toString(16)}`];
    return hitRow({
      label: [op],
      where: where.filter(Boolean).join(" · "),
      stop: true,
      choose: () => {
        const found = session.program?.lines.findIndex((line) => line.pc === pc) ?? -1;
        show(hit, found >= 0 ? found : null);
      },
    });
  };
  const findLines = (query: string): number => {
    const low = query.toLowerCase();
    const found = (session.program?.lines ?? [])
      .map((line, number) => ({ ...line, number }))
      .filter((line) => line.text.toLowerCase().includes(low));
    const rows = found.slice(0, MOST_LINES);
    list.append(...rows.map((line) => lineRow(line.number, line.text, line.pc, query)));
    return found.length;
  };
  const search = async (): Promise<void> => {
    const mine = ++round;
    const query = input.value.trim();
    const { stream } = session.state.now;
    list.replaceChildren();
    setText(note, "");
    if (query === "" || stream === null) return;
    const lines = findLines(query);
    let events = 0;
    let chunk: number | null = 0;
    stop.hidden = false;
    while (chunk !== null && events < MOST_EVENTS) {
      const page: TraceHits = await asker.ask("search", { stream, query, chunk });
      if (mine !== round) return;
      list.append(...page.hits.slice(0, MOST_EVENTS - events).map(eventRow));
      events += page.hits.length;
      chunk = page.next;
      const more = chunk !== null;
      setText(
        note,
        `${plural(lines, "line")}, ${more ? `${count(events)}+ events` : plural(events, "event")}`,
      );
    }
    stop.hidden = true;
  };
  const start = (): void => {
    search().catch((error) => {
      if (!(error instanceof Superseded))
        setText(note, error instanceof Error ? error.message : String(error));
    });
  };

  input.addEventListener("input", start, { signal });
  return el;
}
