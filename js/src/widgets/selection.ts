/** Where the views stand, as a trait that Python reads and sets. */
import { sameAt } from "../protocol/cache.ts";
import type { Reveal, Session } from "../protocol/session.ts";
import type { WidgetModel } from "./jupyter.ts";

interface Selection {
  readonly pass?: number | null;
  readonly k?: number | null;
  readonly node?: number | null;
  readonly kernel?: number | null;
  readonly lines?: readonly number[];
  /** Set by Python only: the views come into sight with this tab. */
  readonly reveal?: Reveal;
}

/** Only where the views come to rest is told: while they move, nobody needs to know. */
const REST_MS = 300;

export interface Ends<S> {
  /** Where the views stand; null while that is not to be told. */
  readonly read: () => S | null;
  /** Python set the trait. */
  readonly take: (selection: S) => void;
  readonly watch: (tell: () => void) => void;
  /** Whether what the trait holds at first is taken as well. */
  readonly takesFirst?: boolean;
}

/**
 * Keeps the trait `selection` and the views in step.
 *
 * What Python sets outdoes what views have to tell: a report that was due, or is on its way, does
 * not undo it, since the views tell once more where they rest after it.
 */
export function syncTrait<S extends object>(model: WidgetModel, ends: Ends<S>): void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  /** What the kernel is known to hold; null where a report may have crossed what Python set. */
  let known: string | null = JSON.stringify(model.get("selection") ?? {});

  const tell = (): void => {
    timer = null;
    const selection = ends.read();
    if (selection === null) return;
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
    const selection = (model.get("selection") ?? {}) as S;
    const text = JSON.stringify(selection);
    if (text === known) return;
    known = null;
    ends.take(selection);
    rest();
  };
  // Python may have said where to stand before anything was shown.
  if (ends.takesFirst && known !== "{}") ends.take(JSON.parse(known) as S);
  model.on("change:selection", take);
  ends.watch(rest);
}

export function syncSelection(session: Session, model: WidgetModel): void {
  if (session.state.now.link === "gone") {
    // What the notebook was saved with is all there is.
    const { kernel, node = null } = (model.get("selection") ?? {}) as Selection;
    session.state.set(kernel === undefined ? { node } : { node, kernel });
    return;
  }
  syncTrait<Selection>(model, {
    read: () => {
      const { at, shown, node, kernel, lines, link, overview } = session.state.now;
      // A kernel that is busy is told when it answers again.
      if (link !== "ready" || !overview || !sameAt(at, shown?.step ?? null)) return null;
      return { pass: at?.pass ?? null, k: at?.k ?? null, node, kernel, lines };
    },
    take: (selection) => takeSelection(session, selection),
    watch: (tell) =>
      session.state.watch(["at", "shown", "node", "kernel", "lines", "link"], tell, NEVER),
  });
}

function takeSelection(session: Session, selection: Selection): void {
  const { state } = session;
  if (selection.pass !== undefined && selection.pass !== null) {
    session.goTo({ pass: selection.pass, k: selection.k ?? 0 });
  }
  if (selection.kernel !== undefined) state.set({ kernel: selection.kernel });
  if (selection.lines !== undefined) void session.chooseLines(selection.lines);
  if (selection.node !== undefined) session.choose(selection.node);
  if (selection.reveal !== undefined) state.set({ reveal: selection.reveal });
}

/** A session lives as long as its model. */
export const NEVER = new AbortController().signal;
