/** Orders layouts from the worker that all views of a page share. */

import workerText from "inline-worker:../layout/worker_entry.ts";
import { inSlices } from "../base/slices.ts";
import { layered } from "./layered.ts";
import type { Layout, LayoutInput } from "./types.ts";
import type { LayoutDone, LayoutOrder } from "./worker.ts";

/** A layout was taken back before it was done. */
export class LayoutCancelled extends Error {
  constructor() {
    super("the layout was cancelled");
  }
}

interface Pool {
  worker: Worker | null;
  lastId: number;
  readonly waiting: Map<number, (layout: Layout) => void>;
}

const KEY = Symbol.for("tinylab.layout.v1");

/** One worker for the page: modules of widgets are loaded more than once, so it hangs there. */
function pool(): Pool {
  const page = globalThis as { [KEY]?: Pool };
  if (page[KEY]) return page[KEY];
  const made: Pool = { worker: null, lastId: 0, waiting: new Map() };
  page[KEY] = made;
  try {
    const url = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
    made.worker = new Worker(url);
    URL.revokeObjectURL(url);
    made.worker.onmessage = ({ data }: MessageEvent<LayoutDone>) => {
      made.waiting.get(data.id)?.(data.layout);
      made.waiting.delete(data.id);
    };
    // A page may forbid workers from blobs: then layouts are made here, a slice at a time.
    made.worker.onerror = () => {
      made.worker = null;
    };
  } catch {
    made.worker = null;
  }
  return made;
}

/** The layout of a graph; aborting the signal takes the order back. */
export function requestLayout(input: LayoutInput, signal: AbortSignal): Promise<Layout> {
  const shared = pool();
  if (!shared.worker) return layoutInSlices(input, signal);
  const worker = shared.worker;
  shared.lastId += 1;
  const id = shared.lastId;
  const post = (order: LayoutOrder): void => worker.postMessage(order);
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new LayoutCancelled());
      return;
    }
    const stop = (): void => {
      shared.waiting.delete(id);
      post({ id, input: null });
      reject(new LayoutCancelled());
    };
    signal.addEventListener("abort", stop, { once: true });
    shared.waiting.set(id, (layout) => {
      signal.removeEventListener("abort", stop);
      resolve(layout);
    });
    post({ id, input });
  });
}

async function layoutInSlices(input: LayoutInput, signal: AbortSignal): Promise<Layout> {
  const made = await inSlices(layered(input), signal);
  if (!made) throw new LayoutCancelled();
  return made.value;
}
