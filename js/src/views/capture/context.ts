/** What the parts of one view of captures share. */
import type { Store } from "../../base/store.ts";
import type { CaptureSession, Figure } from "../../protocol/capture.ts";
import type { CaptureAnswers } from "../../protocol/capture_types.ts";
import type { Asker } from "../../protocol/client.ts";

export interface CaptureViewState {
  readonly help: boolean;
  readonly search: boolean;
  /** The column that the listing is sorted by; null is the order of the program. */
  readonly sort: Figure | null;
}

export interface CaptureContext {
  readonly session: CaptureSession;
  /** The questions of this view. */
  readonly asker: Asker<CaptureAnswers>;
  readonly view: Store<CaptureViewState>;
  readonly root: HTMLElement;
  readonly signal: AbortSignal;
}
