/** The bundle of the viewers of profiles: timelines, and captures of counters and thread traces. */
import { mountCapture } from "../views/capture/capture.ts";
import { mountTimeline } from "../views/timeline/timeline.ts";
import { captureSessionOf, releaseCapture } from "./capture_model.ts";
import { releaseTimeline, timelineSessionOf } from "./timeline_model.ts";
import { type View, viewBundle } from "./view.ts";

/** Shows a timeline or captures in an element, whichever the model is of. */
export const render = viewBundle(({ el, shared, signal }: View) => {
  if (shared.model.get("kind") === "timeline") {
    mountTimeline(el, timelineSessionOf(shared), signal);
    return releaseTimeline;
  }
  mountCapture(el, captureSessionOf(shared), signal);
  return releaseCapture;
});
