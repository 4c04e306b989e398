import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { stubCanvas } from "../../../dev/canvas.ts";
import type { Port, Push, Reply } from "../../protocol/client.ts";
import { TimelineSession } from "../../protocol/timeline_session.ts";
import type { EventInfo, LaneInfo, TimelineOverview } from "../../protocol/timeline_types.ts";
import { firstTab, tabsOf } from "./panel.ts";
import { rowsOf, sourceOf } from "./source.ts";
import { mountTimeline, statusOf } from "./timeline.ts";

const lane = (more: Partial<LaneInfo>): LaneInfo => ({
  key: 0,
  rows: 1,
  name: "CPU kernels",
  group: "device",
  levels: false,
  unit: "",
  events: 3,
  peak: null,
  overlapping: 0,
  ...more,
});
const overview: TimelineOverview = {
  name: "p",
  span: [0, 1000],
  events: 3,
  lanes: [lane({ rows: 2 }), lane({ key: 2, name: "CPU memory", group: "memory", levels: true })],
  markers: [],
  names: ["a", "b"],
  notices: [],
  colours: ["hue-0"],
  top: [],
  counted: false,
  recorded: false,
  other: null,
  running: false,
};

interface Question {
  readonly id: number;
  readonly ask: string;
}
type Hear = (message: Reply | Push, buffers?: readonly DataView[]) => void;

const NEVER = new AbortController().signal;

/** A session whose kernel answers with what a test says. */
function session(): { session: TimelineSession; sent: Question[]; hear: Hear } {
  let hear: Hear = () => undefined;
  const sent: Question[] = [];
  const port: Port = {
    send: (message) => sent.push(message as Question),
    listen: (to) => (hear = to),
    onGone: () => undefined,
  };
  const made = new TimelineSession(port, overview);
  return { session: made, sent, hear: (...args) => hear(...args) };
}

describe("rows of a timeline", () => {
  it("has a head for each group, a row for each depth, and the name once", () => {
    const rows = rowsOf(overview.lanes);
    expect(rows.map((row) => [row.kind, row.key, row.label])).toEqual([
      ["head", -1, "Devices"],
      ["spans", 0, "CPU kernels"],
      ["spans", 1, ""],
      ["head", -4, "Memory"],
      ["curve", 2, "CPU memory"],
    ]);
    expect(new Set(rows.map((row) => row.key)).size).toBe(rows.length);
  });
  it("draws lanes of very many rows low", () => {
    expect(rowsOf([lane({ rows: 60 })])[1]!.height).toBeLessThan(10);
  });
});

describe("windows", () => {
  const f64 = (...numbers: number[]): Float64Array => Float64Array.from(numbers);
  const columns = {
    lane: Uint16Array.from([0, 0]),
    start: f64(0, 500),
    end: f64(100, 900),
    colour: Uint8Array.from([0, 0]),
    count: Uint32Array.from([1, 7]),
    event: Uint32Array.from([3, 9]),
    name: Uint32Array.from([1, 0]),
    busy: Uint8Array.from([255, 51]),
    levels: Float32Array.from([1, 4, 2, 8]),
    low: Float32Array.from([0, 1, 2, 3]),
  };
  const answer = {
    start: 0,
    end: 1000,
    cut: 2,
    exact: false,
    curves: [2, 5],
    names: { "7": "told late" },
    columns,
  };

  it("bring bars, curves and names, and say what a bar stands for", async () => {
    const { session: made, hear } = session();
    const source = sourceOf(made, made.client.askerFor(NEVER), overview);
    const wanted = { range: { start: 0, end: 1000 }, columns: 2, step: 500, keys: [0, 2, 5] };
    const loading = source.load(wanted);
    hear({ id: 1, ok: answer });
    const { window, exact } = await loading;
    expect(exact).toBe(false);
    expect(Array.from(window.curves.get(5)!.layers[0]!.values as Float32Array)).toEqual([2, 8]);
    expect(source.label(window, 0)).toBe("b");
    expect(source.label(window, 1)).toBe("");
    expect(source.tip(window, 0)[0]).toBe("b");
    expect(source.tip(window, 1).join()).toMatch(/7 events.*the longest: a.*20.* %/);
    expect(made.nameOf(7)).toBe("told late");
  });
});

describe("several views of one profile", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    stubCanvas(900, 300);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    document.body.replaceChildren();
  });
  const settle = (ms = 400): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  const show = (shown: TimelineSession): { root: HTMLElement; stop: AbortController } => {
    const el = document.createElement("div");
    document.body.append(el);
    const stop = new AbortController();
    mountTimeline(el, shown, stop.signal);
    return { root: el.querySelector<HTMLElement>(".tinylab")!, stop };
  };
  const empty = {
    start: 0,
    end: 1000,
    cut: 1,
    exact: true,
    curves: [],
    names: {},
    columns: Object.fromEntries(
      ["lane", "start", "end", "colour", "count", "event", "name", "busy", "levels", "low"].map(
        (name) => [name, new Float64Array()],
      ),
    ),
  };

  it("each get their window, however many ask while the kernel is slow", async () => {
    const { session: made, sent, hear } = session();
    const views = [0, 1, 2, 3].map(() => show(made));
    await settle();
    for (let i = 0; i < sent.length; i += 1) {
      hear({ id: sent[i]!.id, ok: empty });
      await settle();
    }
    expect(sent.filter(({ ask }) => ask === "window")).toHaveLength(views.length);
    for (const { root } of views) {
      expect(root.querySelector("canvas")!.dataset.loaded).toBe("1");
      expect(root.dataset.loading).toBe("false");
    }
  });

  it("that went ask for nothing more", async () => {
    const { session: made, sent, hear } = session();
    const { root, stop } = show(made);
    await settle();
    root.querySelector<HTMLElement>("[title^='Zoom in']")!.click();
    await settle();
    const asked = sent.length;
    stop.abort();
    hear({ id: sent[0]!.id, ok: empty });
    await settle();
    expect(sent).toHaveLength(asked);
  });

  it("mark the event that was chosen in any of them, and show one that Python chose", async () => {
    const { session: made, sent, hear } = session();
    const roots = [show(made).root, show(made).root];
    await settle();
    for (const { id } of [...sent]) hear({ id, ok: empty });
    await settle();
    void made.choose(3, true);
    await settle();
    const late: EventInfo = { ...chosen, event: 3, start_ns: 700, end_ns: 720, duration_ns: 20 };
    hear({ id: sent.at(-1)!.id, ok: late });
    await settle();
    expect(roots.map((root) => root.dataset.event)).toEqual(["3", "3"]);
    for (const root of roots) {
      const [start, end] = root.querySelector("canvas")!.dataset.view!.split(":").map(Number);
      expect(start! <= 700 && 720 <= end!).toBe(true);
      root.dispatchEvent(new KeyboardEvent("keydown", { key: "e", bubbles: true }));
    }
    await settle();
    for (const root of roots) expect(root.querySelector("canvas")!.dataset.view).toBe("690:730");
  });
});

const chosen: EventInfo = {
  event: 0,
  name: "a",
  lane: "CPU kernels",
  kind: "run",
  key: 0,
  start_ns: 0,
  end_ns: 10,
  duration_ns: 10,
  value: 0,
  kernel: null,
  work: null,
  counters: null,
};

describe("a profile with counters", () => {
  const figure = (name: string, value: number, unit: string, kind = "counted") => ({
    name,
    value,
    unit,
    kind,
    note: "",
  });
  const row = {
    name: "r_4",
    runs: 2,
    programs: 1,
    total_ns: 10,
    mean_ns: 5,
    median_ns: 5,
    longest_ns: 6,
    share: 1,
  };
  const counted: TimelineOverview = {
    ...overview,
    counted: true,
    top: [
      {
        ...row,
        figures: [
          figure("flops", 2048, "operations"),
          figure("bytes loaded", 4096, "bytes"),
          figure("cycles", 99, "cycles", "measured"),
        ],
      },
      { ...row, name: "E_8" },
    ],
  };
  beforeEach(() => {
    stubCanvas(900, 300);
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    document.body.replaceChildren();
  });
  const cells = (root: Element, selector: string): string[] =>
    [...root.querySelectorAll(selector)].map((each) => each.textContent!.replace(/\s/g, " "));

  it("begins with their table, whose headings say where figures come from", () => {
    const { session: made } = session();
    made.load(counted);
    const el = document.createElement("div");
    document.body.append(el);
    mountTimeline(el, made, NEVER);
    const found = el.querySelector("table[aria-label='counters of kernels']")!;
    expect(cells(found, "th")).toEqual([
      "Kernel",
      "Flopscounted",
      "Loadedcounted",
      "Cyclesmeasured",
    ]);
    expect(cells(found, "td")).toEqual([
      ...["r_4", "2,048", "4.00 KiB", "99"],
      ...["E_8", "–", "–", "–"],
    ]);
  });

  it("says of a kernel what its counters are, and why it has none", () => {
    const { session: made } = session();
    made.load(counted);
    const el = document.createElement("div");
    document.body.append(el);
    mountTimeline(el, made, NEVER);
    const notes = ["the cache model starts empty"];
    const figures = [
      figure("flops", 2048, "operations"),
      figure("L1 hits", 7, "lines", "estimated"),
    ];
    made.take({ ...chosen, counters: { figures, message: "", notes } });
    const shown = el.querySelector(".tl-event-counters")!;
    expect(cells(shown, "tr")).toEqual(["flops2,048 operationscounted", "L1 hits7 linesestimated"]);
    expect(shown.textContent).toContain(notes[0]);
    made.take({ ...chosen, counters: { figures: [], message: "was not counted", notes: [] } });
    expect(el.querySelector(".tl-event")!.textContent).toContain("was not counted");
  });

  it("says how many programs bear a name", () => {
    const { session: made } = session();
    made.load({ ...overview, top: [{ ...row, programs: 3 }, row] });
    const el = document.createElement("div");
    document.body.append(el);
    mountTimeline(el, made, NEVER);
    expect(cells(el, "td.tl-kernel-name")).toEqual(["r_4 3 programs", "r_4"]);
  });
  it("gives way to the difference where two runs are shown", () => {
    expect(firstTab(counted)).toBe("counters");
    expect(firstTab(overview)).toBe("kernels");
    expect(firstTab({ ...counted, other: "b" })).toBe("compare");
  });
  it("has no tab for them where nothing was counted", () => {
    expect(tabsOf(overview)).toEqual(["kernels", "lanes"]);
    expect(tabsOf({ ...counted, other: "b" })).toEqual(["kernels", "counters", "lanes", "compare"]);
  });
});

describe("an event", () => {
  it("that was chosen before another, or before none, does not come back with a late answer", async () => {
    const { session: made, sent, hear } = session();
    for (const next of [null, { ...chosen, event: 5 }]) {
      const asked = made.choose(4);
      made.take(next);
      hear({ id: sent.at(-1)!.id, ok: { ...chosen, event: 4 } });
      await asked;
      expect(made.state.now.event?.event ?? null).toBe(next?.event ?? null);
    }
  });
});

describe("a stretch", () => {
  it("keeps the figures of the last one that was marked", async () => {
    const { session: made, sent, hear } = session();
    const first = made.mark({ start: 0, end: 10 });
    const second = made.mark({ start: 5, end: 20 });
    const sums = { start: 5, end: 20, all: {}, lanes: [], top: [] };
    hear({ id: 1, ok: { ...sums, start: 0, end: 10 } });
    await first;
    expect(made.state.now.sums).toBeNull();
    await Promise.resolve();
    hear({ id: 2, ok: sums });
    await second;
    expect(made.state.now.sums?.start).toBe(5);
    expect(sent.map(({ ask }) => ask)).toEqual(["select", "select"]);
    await made.mark(null);
    expect([made.state.now.stretch, made.state.now.sums]).toEqual([null, null]);
  });
  it("whose figures fail says why", async () => {
    const { session: made, hear } = session();
    const asked = made.mark({ start: 0, end: 10 });
    hear({ id: 1, error: "no such stretch" });
    await asked;
    expect(statusOf(made.state.now)).toEqual(["problem", "no such stretch"]);
  });
});

describe("the status line", () => {
  it("tells notices where nothing is graver", () => {
    const { session: made } = session();
    expect(statusOf(made.state.now)[0]).toBe("ready");
    made.load({ ...overview, notices: ["3 events were not kept"] });
    expect(statusOf(made.state.now)).toEqual(["note", "3 events were not kept"]);
    made.state.set({ link: "gone" });
    expect(statusOf(made.state.now)[0]).toBe("gone");
  });
});
