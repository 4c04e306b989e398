/** The bundle of the viewers of profiles: timelines, and captures of counters and thread traces. */
import { mountCapture } from "../views/capture/capture.ts";
import { mountTimeline } from "../views/timeline/timeline.ts";
import { captureSessions } from "./capture_model.ts";
import { timelineSessions } from "./timeline_model.ts";
import { type View, viewBundle } from "./view.ts";

/** Shows a timeline or captures in an element, whichever the model is of. */
export const render = viewBundle(({ el, shared, signal }: View) => {
  if (shared.model.get("kind") === "timeline") {
    mountTimeline(el, timelineSessions.of(shared), signal);
    return timelineSessions.release;
  }
  mountCapture(el, captureSessions.of(shared), signal);
  return captureSessions.release;
});
