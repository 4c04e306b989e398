/** The bundle of the viewers of profiles. */
import { mountCapture } from "../views/capture/capture.ts";
import { captureSessionOf, releaseCapture } from "./capture_model.ts";
import type { Shared } from "./jupyter.ts";
import { type View, viewBundle } from "./view.ts";

/** Shows captures in an element. */
export const render = viewBundle((view: View) => {
  mountCapture(view.el, captureSessionOf(view.shared), view.signal);
  return (shared: Shared) => releaseCapture(shared);
});
