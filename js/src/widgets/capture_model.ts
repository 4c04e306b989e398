/** Sessions of captures over Jupyter widgets' models. */
import { CaptureSession, type CaptureTab } from "../protocol/capture.ts";
import type { CaptureOverview } from "../protocol/capture_types.ts";
import { sessionsOf } from "./overview_model.ts";
import { NEVER } from "./selection.ts";

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

/** The sessions of models of captures. */
export const captureSessions = sessionsOf<CaptureOverview, CaptureSession, Selection>(
  (port, overview) => new CaptureSession(port, overview),
  (session) => ({
    read: () => selectionOf(session),
    take: (selection) => applySelection(session, selection),
    watch: (tell) => session.state.watch(WATCHED, tell, NEVER),
    takesFirst: true,
  }),
);

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
