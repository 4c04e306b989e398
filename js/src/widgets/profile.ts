/** The bundle of the viewers of profiles: timelines, and captures of counters and thread traces. */
import type { CaptureSession } from "../protocol/capture.ts";
import type { TimelineSession } from "../protocol/timeline_session.ts";
import { mountCapture } from "../views/capture/capture.ts";
import { mountTimeline } from "../views/timeline/timeline.ts";
import { captureSessions } from "./capture_model.ts";
import { timelineSessions } from "./timeline_model.ts";
import { type Kind, show, type View } from "./view.ts";

// Bars, curves and traces come from the kernel: without it there would be empty lanes.
const standsAlone = (): boolean => false;
const timelines: Kind<TimelineSession> = { ...timelineSessions, mount: mountTimeline, standsAlone };
const captures: Kind<CaptureSession> = { ...captureSessions, mount: mountCapture, standsAlone };

/** Shows a timeline or captures in an element, whichever the model is of. */
export const render = (view: View): void => {
  if (view.shared.model.get("kind") === "timeline") show(timelines, view);
  else show(captures, view);
};
