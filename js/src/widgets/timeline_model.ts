/** A session of a timeline over a Jupyter widget's model. */
import { TimelineSession } from "../protocol/timeline_session.ts";
import type { TimelineOverview } from "../protocol/timeline_types.ts";
import { portOf, releaseWhenUnseen, type Shared, tellRefill } from "./jupyter.ts";
import { syncTrait } from "./selection.ts";

interface Selection {
  readonly event?: number | null;
  readonly stretch?: readonly number[] | null;
}

const sessions = new WeakMap<Shared, TimelineSession>();

/** The session of a model: the same for all its views. */
export function timelineSessionOf(shared: Shared): TimelineSession {
  const { model } = shared;
  let session = sessions.get(shared);
  if (!session) {
    const overview = (): TimelineOverview | null =>
      (model.get("overview") as TimelineOverview | null | undefined) ?? null;
    const made = new TimelineSession(portOf(model, shared.signal), overview());
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
      watch: (tell) => made.state.watch(["event", "stretch", "link"], tell, NEVER),
      takesFirst: true,
    });
  }
  if (session.state.now.overview === null) tellRefill(session.client);
  return session;
}

function selectionOf(session: TimelineSession): Selection | null {
  const { event, stretch, link, overview } = session.state.now;
  if (link !== "ready" || !overview) return null;
  return {
    event: event?.event ?? null,
    stretch: stretch && [stretch.start, stretch.end],
  };
}

function applySelection(session: TimelineSession, { event, stretch }: Selection): void {
  if (event !== undefined) void session.choose(event);
  if (stretch === undefined) return;
  const [start, end] = stretch ?? [];
  void session.mark(start === undefined ? null : { start, end: end ?? start + 1 });
}

/** A session lives as long as its model. */
const NEVER = new AbortController().signal;

/** When no view is left, what the model holds is let go. */
export function releaseTimeline(shared: Shared): void {
  const session = sessions.get(shared);
  if (session) releaseWhenUnseen(shared, session, ["overview"], () => session.load(null));
}
