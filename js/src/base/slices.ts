/** Long work on the page's main thread, a slice at a time: keys are heard between slices. */

/** Work for no longer than this before others have their turn. */
export const SLICE_MS = 8;
/** How many rows a loop handles before it offers to pause. */
export const ROWS_A_STEP = 256;

/** Work that may pause at each `yield`, and what it comes to. */
export type Steps<T> = Generator<void, T>;

/** Runs work to its end at once. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

export interface Sliced<T> {
  readonly value: T;
  readonly slices: number;
}

/**
 * Runs work in slices, with a task of the page's own between any two of them. What takes less than
 * one slice is not delayed. Null if the signal aborted meanwhile.
 */
export async function inSlices<T>(
  steps: Steps<T>,
  signal: AbortSignal,
  now: () => number = () => performance.now(),
): Promise<Sliced<T> | null> {
  let since = now();
  for (let slices = 1; ; ) {
    if (signal.aborted) return null;
    const { done, value } = steps.next();
    if (done) return { value, slices };
    if (now() - since > SLICE_MS) {
      await nextTask();
      since = now();
      slices += 1;
    }
  }
}

const nextTask = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
