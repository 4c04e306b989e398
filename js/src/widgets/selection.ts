/** Where the views stand, as a trait that Python reads and sets. */
import { sameAt } from "../protocol/cache.ts";
import type { Session } from "../protocol/session.ts";
import type { WidgetModel } from "./jupyter.ts";

interface Selection {
  readonly pass?: number | null;
  readonly k?: number | null;
  readonly node?: number | null;
  readonly kernel?: number | null;
  readonly lines?: readonly number[];
}

/** Only where the views come to rest is told: while they move, nobody needs to know. */
const REST_MS = 300;

export function syncSelection(session: Session, model: WidgetModel): void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let known = JSON.stringify(model.get("selection") ?? {});

  const tell = (): void => {
    timer = null;
    const { at, shown, node, kernel, lines, link, overview } = session.state.now;
    // A kernel that is busy is told when it answers again.
    if (link !== "ready" || !overview || !sameAt(at, shown?.step ?? null)) return;
    const selection: Selection = { pass: at?.pass ?? null, k: at?.k ?? null, node, kernel, lines };
    const text = JSON.stringify(selection);
    if (text === known) return;
    known = text;
    model.set("selection", selection);
    model.save_changes();
  };
  const rest = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(tell, REST_MS);
  };

  const take = (): void => {
    const selection = (model.get("selection") ?? {}) as Selection;
    const text = JSON.stringify(selection);
    if (text === known) return;
    known = text;
    const { state } = session;
    if (selection.pass !== undefined && selection.pass !== null) {
      session.goTo({ pass: selection.pass, k: selection.k ?? 0 });
    }
    if (selection.kernel !== undefined) state.set({ kernel: selection.kernel });
    if (selection.lines !== undefined) void session.chooseLines(selection.lines);
    if (selection.node !== undefined) session.choose(selection.node);
  };

  model.on("change:selection", take);
  session.state.watch(["at", "shown", "node", "kernel", "lines", "link"], rest, NEVER);
}

/** A session lives as long as its model. */
const NEVER = new AbortController().signal;
