/** A record of state whose readers are told when the parts that they read change. */
export class Store<T extends object> {
  #state: T;
  readonly #readers = new Set<{ keys: readonly (keyof T)[]; tell: () => void }>();

  constructor(initial: T) {
    this.#state = initial;
  }

  get now(): Readonly<T> {
    return this.#state;
  }

  /** Changes some parts, then tells each reader once if any part that it reads is another value. */
  set(patch: Partial<T>): void {
    const before = this.#state;
    const changed = (Object.keys(patch) as (keyof T)[]).filter((key) => before[key] !== patch[key]);
    if (changed.length === 0) return;
    this.#state = { ...before, ...patch };
    for (const reader of [...this.#readers]) {
      if (reader.keys.some((key) => changed.includes(key))) reader.tell();
    }
  }

  /** Calls `tell` now and after each change of `keys`, until `signal` aborts. */
  watch(keys: readonly (keyof T)[], tell: () => void, signal: AbortSignal): void {
    const reader = { keys, tell };
    this.#readers.add(reader);
    signal.addEventListener("abort", () => this.#readers.delete(reader), { once: true });
    tell();
  }

  get readers(): number {
    return this.#readers.size;
  }
}
