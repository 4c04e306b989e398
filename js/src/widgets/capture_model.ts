/** A session of captures over a Jupyter widget's model. */
import { CaptureSession, type CaptureTab } from "../protocol/capture.ts";
import type { CaptureOverview } from "../protocol/capture_types.ts";
import { portOf, releaseWhenUnseen, type Shared, tellRefill } from "./jupyter.ts";
import { syncTrait } from "./selection.ts";

interface Selection {
  readonly tab?: CaptureTab;
  readonly stream?: number | null;
  readonly second?: number | null;
  readonly view?: readonly [number, number] | null;
  readonly instruction?: number | null;
  readonly stretch?: readonly [number, number] | null;
  readonly readouts?: readonly number[];
  readonly counter?: string | null;
}

const sessions = new WeakMap<Shared, CaptureSession>();

/** The session of a model: the same for all its views. */
export function captureSessionOf(shared: Shared): CaptureSession {
  const { model } = shared;
  let session = sessions.get(shared);
  if (!session) {
    const overview = (): CaptureOverview | null =>
      (model.get("overview") as CaptureOverview | null | undefined) ?? null;
    const made = new CaptureSession(portOf(model, shared.signal), overview());
    session = made;
    sessions.set(shared, made);
    shared.setUps = (shared.setUps ?? 0) + 1;
    model.on("change:overview", () => {
      const now = overview();
      if (now) made.load(now);
    });
    syncTrait<Selection>(model, {
      read: () => selectionOf(made),
      take: (selection) => applySelection(made, selection),
      watch: (tell) => made.state.watch(WATCHED, tell, NEVER),
      takesFirst: true,
    });
  }
  if (session.state.now.overview === null) tellRefill(session.client);
  return session;
}

const WATCHED = [
  "tab",
  "stream",
  "second",
  "view",
  "instruction",
  "stretch",
  "readouts",
  "counter",
  "link",
] as const;
/** A session lives as long as its model. */
const NEVER = new AbortController().signal;

function selectionOf(session: CaptureSession): Selection | null {
  const { link, overview, tab, stream, second, view, instruction, stretch, readouts, counter } =
    session.state.now;
  if (link !== "ready" || !overview) return null;
  return {
    tab,
    stream,
    second,
    view: view && [view.start, view.end],
    instruction,
    stretch: stretch && [stretch.start, stretch.end],
    readouts,
    counter,
  };
}

function applySelection(session: CaptureSession, wanted: Selection): void {
  const { state } = session;
  if (wanted.tab === "trace" || wanted.tab === "counters") state.set({ tab: wanted.tab });
  if (typeof wanted.stream === "number") session.chooseStream(wanted.stream);
  if (wanted.second !== undefined) session.chooseSecond(wanted.second);
  if (wanted.view) state.set({ wanted: { start: wanted.view[0], end: wanted.view[1] } });
  if (wanted.instruction !== undefined) session.chooseInstruction(wanted.instruction);
  if (wanted.stretch !== undefined) {
    state.set({ stretch: wanted.stretch && { start: wanted.stretch[0], end: wanted.stretch[1] } });
  }
  if (wanted.readouts) state.set({ readouts: wanted.readouts });
  if (wanted.counter !== undefined) state.set({ counter: wanted.counter });
}

/** When no view is left, what the model holds is let go. */
export function releaseCapture(shared: Shared): void {
  const session = sessions.get(shared);
  if (session) releaseWhenUnseen(shared, session, ["overview"], () => session.load(null));
}
