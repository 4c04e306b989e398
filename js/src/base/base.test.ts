import { describe, expect, it } from "vitest";
import { consumersOf, reach } from "./graph.ts";
import { chord, keyLabel } from "./keys.ts";
import { Lane, Superseded } from "./lanes.ts";
import { atOnce, inSlices, type Steps } from "./slices.ts";
import { Store } from "./store.ts";
import { bytes, clip, digits, duration, matches, plural, tail, visible, work } from "./text.ts";

const never = new AbortController().signal;

describe("names of strangers", () => {
  it("are not turned around by what is in them", () => {
    expect(visible("a\u202eb")).toBe("a\\u202eb");
    expect(visible("\u2066x\u2069")).toBe("\\u2066x\\u2069");
    expect(visible("größe שלום")).toBe("größe שלום");
  });
});

describe("store", () => {
  it("tells a reader once per change of what it reads, and not of the rest", () => {
    const store = new Store({ a: 1, b: 1, c: 1 });
    let told = 0;
    store.watch(["a", "b"], () => (told += 1), never);
    expect(told).toBe(1);
    store.set({ a: 2, b: 2 });
    store.set({ c: 2 });
    store.set({ a: 2 });
    expect(told).toBe(2);
  });

  it("forgets a reader whose signal aborts", () => {
    const store = new Store({ a: 1 });
    const stop = new AbortController();
    let told = 0;
    store.watch(["a"], () => (told += 1), stop.signal);
    stop.abort();
    store.set({ a: 2 });
    expect([told, store.readers]).toEqual([1, 0]);
  });
});

describe("lane", () => {
  it("sends one request at a time and keeps only the newest that waits", async () => {
    const sent: number[] = [];
    let answer: (value: number) => void = () => {};
    const lane = new Lane<number, number>((request) => {
      sent.push(request);
      return new Promise((resolve) => (answer = resolve));
    });
    const first = lane.ask(1);
    const second = lane.ask(2);
    const third = lane.ask(3);
    answer(10);
    expect(await first).toBe(10);
    await expect(second).rejects.toBeInstanceOf(Superseded);
    answer(30);
    expect(await third).toBe(30);
    expect(sent).toEqual([1, 3]);
  });

  it("goes on after a request that failed", async () => {
    const lane = new Lane<boolean, string>((fail) =>
      fail ? Promise.reject(new Error("no")) : Promise.resolve("yes"),
    );
    await expect(lane.ask(true)).rejects.toThrow("no");
    expect(await lane.ask(false)).toBe("yes");
    expect(lane.busy).toBe(false);
  });
});

describe("graph", () => {
  const table = new Map([
    [1, { id: 1, src: [] }],
    [2, { id: 2, src: [1, 1] }],
    [3, { id: 3, src: [1, 2, 9] }],
  ]);

  it("puts sources before users and names what is missing", () => {
    expect(reach(table, [3])).toEqual({ order: [1, 2, 3], missing: [9] });
  });

  it("counts a user once, however often it uses a source", () => {
    expect(consumersOf(table, [1, 2, 3]).get(1)).toEqual([2, 3]);
  });

  it("does not recurse: 200,000 nodes deep", () => {
    const chain = new Map(
      Array.from(
        { length: 200_000 },
        (_, id) => [id, { id, src: id > 0 ? [id - 1] : [] }] as const,
      ),
    );
    expect(reach(chain, [199_999]).order).toHaveLength(200_000);
  });
});

describe("text", () => {
  it("tells integer work in a unit that suits it", () => {
    const told = [12, 0.0123, 0.000644, 5e-9, null].map((gops) => work({ gflops: null, gops }));
    expect(told).toEqual([
      "12.0\u202fGop/s",
      "12.3\u202fMop/s",
      "644\u202fkop/s",
      "5.00\u202fop/s",
      "–",
    ]);
    expect(work({ gflops: 1470, gops: 3 })).toBe("1,470");
  });

  it("writes durations in the unit that suits them", () => {
    const written = [0.5, 12.34, 1250, 2_500_000, null].map((us) =>
      duration(us).replace("\u202f", " "),
    );
    expect(written).toEqual(["500 ns", "12.3 µs", "1.25 ms", "2.50 s", "–"]);
  });

  it("writes numbers, plurals, paths and sizes", () => {
    expect([digits(0), digits(0.0123), digits(5.678), digits(12345)]).toEqual([
      "0",
      "0.012",
      "5.68",
      "12,345",
    ]);
    expect([plural(1, "match"), plural(3, "match"), plural(2, "pass"), plural(2, "node")]).toEqual([
      "1 match",
      "3 matches",
      "2 passes",
      "2 nodes",
    ]);
    expect(tail("/a/b/c/d.py")).toBe("c/d.py");
    expect(clip("abcdef", 4)).toBe("abc…");
    expect(bytes(4096).replace("\u202f", " ")).toBe("4.00 KiB");
    expect([matches("RANGE 0 REDUCE", "red ran"), matches("RANGE", "x")]).toEqual([true, false]);
  });
});

describe("keys", () => {
  const press = (key: string, more: object = {}): string =>
    chord({ key, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...more });

  it("names presses as the commands do", () => {
    expect(press("ArrowRight", { shiftKey: true })).toBe("Shift+ArrowRight");
    expect(press("?", { shiftKey: true })).toBe("?");
    expect(press("Enter", { metaKey: true })).toBe("Ctrl+Enter");
  });

  it("shows them as people read them", () => {
    expect([keyLabel("Shift+ArrowRight"), keyLabel("+"), keyLabel("Ctrl+Enter")]).toEqual([
      "Shift →",
      "+",
      "Ctrl Enter",
    ]);
  });
});

describe("work in slices", () => {
  function* work(rows: number): Steps<number> {
    for (let row = 0; row < rows; row += 1) yield;
    return rows;
  }
  const never = new AbortController().signal;

  it("lets other tasks run between slices, and is not delayed where one is enough", async () => {
    let clock = 0;
    const slow = (): number => {
      clock += 1;
      return clock;
    };
    const log: string[] = [];
    setTimeout(() => log.push("a key"), 0);
    const long = inSlices(work(50), never, slow).then((made) => log.push(`${made?.slices} slices`));
    const short = inSlices(work(3), never, slow).then((made) => log.push(`${made?.slices} slice`));
    await Promise.all([long, short]);
    expect(log[0]).toBe("1 slice");
    expect(log[1]).toBe("a key");
    expect(Number.parseInt(log[2]!, 10)).toBeGreaterThan(3);
  });

  it("ends when it is taken back", async () => {
    const stop = new AbortController();
    let done = 0;
    function* counted(): Steps<void> {
      for (; done < 1000; done += 1) yield;
    }
    const running = inSlices(counted(), stop.signal, () => 10 * done);
    setTimeout(() => stop.abort(), 0);
    expect(await running).toBeNull();
    expect(done).toBeLessThan(1000);
    expect(atOnce(work(7))).toBe(7);
  });
});
