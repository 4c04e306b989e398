/** Pictures in the making: of the step that is wanted, and of those that may be wanted next. */
import { inSlices, type Steps } from "../../base/slices.ts";
import { LayoutCancelled, requestLayout } from "../../layout/client.ts";
import { type Scene, type SceneOptions, sceneSteps } from "../../layout/scene.ts";
import type { Shown } from "../../protocol/cache.ts";
import { Picture } from "./picture.ts";
import { oldPlaces } from "./places.ts";

/** A step and the picture of it. */
export interface Drawn {
  readonly shown: Shown;
  readonly picture: Picture;
}

/** What a picture is made from: the same three give the same picture. */
export interface Subject {
  readonly shown: Shown;
  /** The picture whose places are kept; null for a layout afresh. */
  readonly from: Drawn | null;
  readonly options: SceneOptions;
}

/** A picture with the number of slices that it took of the page's time. */
export interface Made extends Drawn {
  readonly slices: number;
}

interface Draft {
  readonly subject: Subject;
  readonly order: AbortController;
  /** Null if it was taken back. */
  readonly made: Promise<Made | null>;
}

/** Makes pictures, one after the other; what is no longer wanted is taken back. */
export class Drafts {
  #drafts: readonly Draft[] = [];

  /** The picture of a step: perhaps it was begun before it was wanted. Others are taken back. */
  wanted(subject: Subject): Promise<Made | null> {
    const begun = this.#find(subject);
    this.#keep(begun ? [begun] : []);
    return (begun ?? this.#begin(subject)).made;
  }

  /** Makes pictures that may be wanted soon. Those that were begun for another moment go. */
  async ahead(subjects: readonly Subject[]): Promise<void> {
    this.#keep(subjects.map((each) => this.#find(each)).filter((each) => each !== undefined));
    for (const subject of subjects) {
      const made = await (this.#find(subject) ?? this.#begin(subject)).made.catch(() => null);
      if (!made) return;
    }
  }

  /** Takes back all that is being made. */
  stop(): void {
    this.#keep([]);
  }

  #find(subject: Subject): Draft | undefined {
    return this.#drafts.find((draft) => isSame(draft.subject, subject));
  }

  #keep(kept: readonly Draft[]): void {
    for (const draft of this.#drafts) if (!kept.includes(draft)) draft.order.abort();
    this.#drafts = kept;
  }

  #begin(subject: Subject): Draft {
    const order = new AbortController();
    const draft = { subject, order, made: make(subject, order.signal) };
    this.#drafts = [...this.#drafts, draft];
    return draft;
  }
}

function isSame(one: Subject, other: Subject): boolean {
  return one.shown === other.shown && one.from === other.from && one.options === other.options;
}

async function make(subject: Subject, signal: AbortSignal): Promise<Made | null> {
  try {
    const built = await inSlices(sceneOf(subject), signal);
    if (!built) return null;
    const layout = await requestLayout(built.value.input, signal);
    const drawn = await inSlices(Picture.steps(built.value, layout), signal);
    if (!drawn) return null;
    return { shown: subject.shown, picture: drawn.value, slices: built.slices };
  } catch (error) {
    if (error instanceof LayoutCancelled) return null;
    throw error;
  }
}

function* sceneOf({ shown, from, options }: Subject): Steps<Scene> {
  const old = oldPlaces(from, shown);
  yield;
  return yield* sceneSteps(shown, options, old);
}
