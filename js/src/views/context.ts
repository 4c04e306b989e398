/** What the parts of one view share: the record's session, and what only this view knows. */
import type { Store } from "../base/store.ts";
import type { Asker } from "../protocol/client.ts";
import type { Session } from "../protocol/session.ts";
import type { Answers } from "../protocol/types.ts";

export type Tab = "rewrites" | "kernels";
export type Form = "graph" | "text" | "diff";

/** A column by its heading, and whether the largest comes first. */
export interface Sort {
  readonly column: string;
  readonly down: boolean;
}

export interface ViewState {
  readonly tab: Tab;
  readonly form: Form;
  /** Show passes that changed nothing. */
  readonly allPasses: boolean;
  readonly help: boolean;
  readonly search: boolean;
  /** How the table of kernels is sorted. */
  readonly sort: Sort;
}

export interface Context {
  readonly session: Session;
  /** The questions of this view. */
  readonly asker: Asker<Answers>;
  readonly view: Store<ViewState>;
  readonly root: HTMLElement;
  readonly signal: AbortSignal;
}
