/** Sessions of timelines over Jupyter widgets' models. */
import { TimelineSession } from "../protocol/timeline_session.ts";
import type { TimelineOverview } from "../protocol/timeline_types.ts";
import { sessionsOf } from "./overview_model.ts";
import { NEVER } from "./selection.ts";

interface Selection {
  readonly event?: number | null;
  readonly stretch?: readonly number[] | null;
}

/** The sessions of models of timelines. */
export const timelineSessions = sessionsOf<TimelineOverview, TimelineSession, Selection>(
  (port, overview) => new TimelineSession(port, overview),
  (session) => ({
    read: () => selectionOf(session),
    take: (selection) => applySelection(session, selection),
    watch: (tell) => session.state.watch(["event", "stretch", "link"], tell, NEVER),
    takesFirst: true,
  }),
);

function selectionOf(session: TimelineSession): Selection | null {
  const { event, stretch, link, overview } = session.state.now;
  if (link !== "ready" || !overview) return null;
  return {
    event: event?.event ?? null,
    stretch: stretch && [stretch.start, stretch.end],
  };
}

function applySelection(session: TimelineSession, { event, stretch }: Selection): void {
  if (event !== undefined) void session.choose(event, true);
  if (stretch === undefined) return;
  const [start, end] = stretch ?? [];
  void session.mark(start === undefined ? null : { start, end: end ?? start + 1 });
}
