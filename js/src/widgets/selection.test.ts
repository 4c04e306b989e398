import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { WidgetModel } from "./jupyter.ts";
import { syncTrait } from "./selection.ts";

interface At {
  readonly at?: number;
}

/** A model with a kernel behind it, and views that stand at `at`. */
class Bench {
  at = 0;
  /** What each report told the kernel. */
  readonly told: unknown[] = [];
  #held: unknown = {};
  #changed: () => void = () => undefined;
  #moved: () => void = () => undefined;
  readonly model = {
    get: () => this.#held,
    set: (_: string, value: unknown) => this.#hold(value),
    save_changes: () => this.told.push(this.#held),
    on: (_: string, changed: () => void) => {
      this.#changed = changed;
    },
  } as unknown as WidgetModel;

  constructor(readonly slow = false) {
    syncTrait<At>(this.model, {
      read: () => ({ at: this.at }),
      take: ({ at }) => at !== undefined && this.move(at),
      watch: (tell) => {
        this.#moved = tell;
      },
    });
  }

  move(at: number): void {
    this.at = at;
    this.#moved();
  }

  /** Python sets the trait. */
  python(value: At): void {
    this.#hold(value);
  }

  #hold(value: unknown): void {
    if (JSON.stringify(value) === JSON.stringify(this.#held)) return;
    this.#held = value;
    this.#changed();
  }
}

describe("a selection", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const rest = (): unknown => vi.advanceTimersByTime(1000);

  it("is told once the views rest, once", () => {
    const bench = new Bench();
    for (let at = 1; at < 9; at += 1) bench.move(at);
    expect(bench.told).toEqual([]);
    rest();
    expect(bench.told).toEqual([{ at: 8 }]);
    rest();
    expect(bench.told).toHaveLength(1);
  });

  it("set by Python outdoes a report that was due", () => {
    const bench = new Bench();
    bench.move(1);
    vi.advanceTimersByTime(200);
    bench.python({ at: 7 });
    rest();
    expect(bench.at).toBe(7);
    expect(bench.told).toEqual([{ at: 7 }]);
  });

  it("set by Python is confirmed, since a report may have crossed it on its way", () => {
    const bench = new Bench();
    bench.move(1);
    rest();
    // The kernel takes the report over what was set: it has to hear where the views stand now.
    bench.python({ at: 2 });
    rest();
    expect(bench.told).toEqual([{ at: 1 }, { at: 2 }]);
  });

  it("set by Python moves the views even where they already told the same", () => {
    const bench = new Bench();
    bench.move(3);
    rest();
    bench.python({});
    bench.move(4);
    bench.python({ at: 3 });
    expect(bench.at).toBe(3);
    rest();
    expect(bench.told.at(-1)).toEqual({ at: 3 });
  });
});
