import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Drawn, stubCanvas } from "../../../dev/canvas.ts";
import { CaptureHost } from "../../../dev/capture_host.ts";
import { CaptureSession, type CaptureState } from "../../protocol/capture.ts";
import { captureStatus, mountCapture } from "./capture.ts";
import { contrastHelps, heatColour, heatScale, shortCount } from "./heat.ts";
import { changeText, ordered } from "./listing.ts";
import { streamName } from "./trace.ts";

/** The width and height of all views here. */
const [WIDTH, HEIGHT] = [900, 300];
let drawn: Drawn;

beforeEach(() => {
  vi.useFakeTimers();
  drawn = stubCanvas(WIDTH, HEIGHT);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

const settle = (ms = 400): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

async function mount(host = new CaptureHost()): Promise<{
  host: CaptureHost;
  session: CaptureSession;
  root: HTMLElement;
  stop: AbortController;
}> {
  const session = new CaptureSession(host, host.overview);
  const el = document.createElement("div");
  document.body.append(el);
  const stop = new AbortController();
  mountCapture(el, session, stop.signal);
  await settle();
  return { host, session, root: el.querySelector<HTMLElement>(".tinylab")!, stop };
}

const press = (target: HTMLElement, key: string, more: KeyboardEventInit = {}): void => {
  target.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }),
  );
};
const named = (root: HTMLElement, name: string): HTMLElement =>
  root.querySelector<HTMLElement>(`[data-name="${name}"]`)!;
const lines = (root: HTMLElement): HTMLElement[] => [
  ...root.querySelectorAll<HTMLElement>(".tl-listing .tl-listing-line"),
];

describe("the name of a stream", () => {
  it("says whether it has waves only, or none", () => {
    const { overview } = new CaptureHost();
    const streams = [true, false, false].map((instructions, n) => ({
      ...overview.streams[n]!,
      instructions,
      waves: n < 2,
    }));
    const state = { overview: { ...overview, streams } } as unknown as CaptureState;
    expect(streams.map((_, n) => streamName(state, n))).toEqual([
      "se0 · r_4",
      "se1 · r_4 · waves only",
      "se2 · r_4 · no waves",
    ]);
  });
});

describe("a thread trace", () => {
  it("is read to its end, slice by slice, and drawn with its lanes", async () => {
    const { host, root } = await mount();
    expect(host.count("advance")).toBe(3);
    expect(root.dataset.done).toBe("true");
    expect(drawn.texts).toContain("slot 1");
    expect(drawn.texts).toContain("Wave slots · sa0 wgp0 simd0");
    expect(drawn.texts.some((text) => text.startsWith("Waves · sa0"))).toBe(true);
    expect(host.asked.find(({ ask }) => ask === "window")?.args.stream).toBe(0);
    for (let i = 0; i < 4; i += 1) press(root, "+");
    await settle();
    expect(drawn.texts).toContain("s_waitcnt");
  });

  it("stops reading when told to, and goes on", async () => {
    const host = new CaptureHost();
    host.slices = 1_000_000;
    host.delayMs = 30;
    const { root, session } = await mount(host);
    const reading = root.querySelector<HTMLElement>(".tl-reading")!;
    expect(reading.hidden).toBe(false);
    named(root, "reading").click();
    await settle();
    const asked = host.count("advance");
    expect(host.asked.some(({ args }) => args.seconds === 0)).toBe(true);
    await settle();
    expect(host.count("advance")).toBe(asked);
    expect(reading.textContent).toContain("stopped at");
    session.setReading(true);
    await settle();
    expect(host.count("advance")).toBeGreaterThan(asked);
    session.setReading(false);
    await settle();
  });

  it("asks again while what was read is being sorted, until one reads on", async () => {
    const host = new CaptureHost();
    host.slices = 1_000_000;
    const { session } = await mount(host);
    const looks = (): number => host.asked.filter(({ args }) => args.seconds === 0).length;
    host.unready = 3;
    session.setReading(false);
    await settle();
    expect([host.unready, looks()]).toEqual([0, 4]);
    session.setReading(true);
    await settle(10);
    host.unready = 1_000_000;
    session.setReading(false);
    await settle(50);
    host.unready = 1_000_000;
    session.setReading(true);
    await settle(50);
    const asked = looks();
    await settle();
    expect(looks()).toBe(asked);
    session.setReading(false);
    host.unready = 0;
    await settle();
  });

  it("begins with a short slice, so that something is seen soon", async () => {
    const { host } = await mount();
    const slices = host.asked
      .filter(({ ask }) => ask === "advance")
      .map(({ args }) => args.seconds);
    expect(Number(slices[0])).toBeLessThan(0.1);
    expect(Number(slices[1])).toBeGreaterThan(Number(slices[0]));
  });

  it("marks the events of a line that is clicked, and finds the line of an event", async () => {
    const { host, root, session } = await mount();
    lines(root)[3]!.click();
    await settle();
    expect(session.state.now.instruction).toBe(3);
    expect(host.asked.findLast(({ ask }) => ask === "window")?.args.mark).toBe(3);
    expect(root.querySelector(".tl-mark-text")?.textContent).toBe("s_barrier · 12 hits");
    press(root, "n");
    await settle();
    const first = session.state.now.span!;
    expect(first.number).toBe(3);
    press(root, "n");
    await settle();
    expect(session.state.now.span!.start).toBeGreaterThan(first.start);
    press(root, "p");
    await settle();
    expect(session.state.now.span!.start).toBe(first.start);
    session.chooseSpan({ ...first, number: 1 });
    await settle();
    expect(root.querySelector(".tl-listing .tl-chosen")?.textContent).toContain("s_waitcnt");
    press(root, "Escape");
    expect(session.state.now.instruction).toBeNull();
  });

  it("steps from event to event, and from lane to lane", async () => {
    const { root, session } = await mount();
    press(root, "ArrowRight", { shiftKey: true });
    const first = session.state.now.span!;
    press(root, "ArrowRight", { shiftKey: true });
    expect(session.state.now.span!.start).toBe(first.start + 300);
    press(root, "ArrowDown", { shiftKey: true });
    expect(session.state.now.span!.lane).toBe(first.lane + 1);
    expect(named(root, "event").textContent).toContain("slot 1");
  });

  it("zooms from all to a few cycles, and back", async () => {
    const { root } = await mount();
    const view = (): number[] =>
      root.querySelector<HTMLElement>(".tl-lane-canvas")!.dataset.view!.split(":").map(Number);
    const home = view();
    for (let i = 0; i < 40; i += 1) press(root, "+");
    await settle();
    expect(view()[1]! - view()[0]!).toBeCloseTo(12);
    press(root, "z");
    await settle();
    expect(view()).toEqual(home);
    press(root, "z");
    await settle();
    expect(view()).toEqual([0, 12_001]);
  });

  it("draws nothing that is out of sight", async () => {
    const { root } = await mount();
    const canvas = root.querySelector<HTMLElement>(".tl-lane-canvas")!;
    const all = Number(canvas.dataset.drawn);
    expect(all).toBeGreaterThan(40);
    for (let i = 0; i < 12; i += 1) press(root, "+");
    await settle();
    expect(Number(canvas.dataset.drawn)).toBeLessThan(10);
    expect(drawn.rectangles).toBeGreaterThan(0);
  });

  it("counts what was lost, always, and says in words what is wrong", async () => {
    const host = new CaptureHost();
    host.problems = { lost: 2, undecoded_nibbles: 0 };
    host.notes = ["byte 96, clock 1204: the stream ends inside a packet INST"];
    const { root, session } = await mount(host);
    const chips = [...root.querySelectorAll<HTMLElement>(".tl-chip")].map((chip) => [
      chip.textContent,
      chip.classList.contains("tl-bad"),
    ]);
    expect(chips.slice(0, 3)).toEqual([
      ["2 lost", true],
      ["0 dropped", false],
      ["0 undecoded", false],
    ]);
    expect(named(root, "stream-info").textContent).toContain("byte 96, clock 1204");
    expect(captureStatus(session)[1]).toContain("byte 96");
  });

  it("sorts the listing, and takes that back", async () => {
    const { root } = await mount();
    const codes = (): (string | null | undefined)[] =>
      lines(root).map((line) => line.querySelector(".tl-instruction")?.textContent);
    const program = codes();
    named(root, "sort-stall").click();
    expect(codes()[0]).toContain("s_waitcnt");
    named(root, "sort-stall").click();
    expect(codes()).toEqual(program);
    expect(lines(root)[1]!.classList.contains("tl-hot")).toBe(true);
    expect(lines(root)[2]!.classList.contains("tl-hot")).toBe(false);
  });

  it("shows a second stream under the first, moved with it, and the changes", async () => {
    const { host, root, session } = await mount();
    session.chooseSecond(1);
    await settle();
    expect(host.count("compare")).toBe(1);
    const canvases = [...root.querySelectorAll<HTMLElement>(".tl-lane-canvas")];
    expect(canvases).toHaveLength(2);
    press(root, "+");
    await settle();
    expect(canvases[0]!.dataset.view).toBe(canvases[1]!.dataset.view);
    expect(lines(root)[1]!.textContent).toContain("2.00×");
    session.chooseSecond(null);
    await settle();
    expect(root.querySelectorAll(".tl-stage-box:not([hidden])")).toHaveLength(1);
    expect(session.state.now.compared).toBeNull();
  });

  it("tells about a stretch that is marked", async () => {
    const { host, root, session } = await mount();
    session.state.set({ stretch: { start: 1100, end: 1150 } });
    await settle();
    expect(host.asked.findLast(({ ask }) => ask === "selection")?.args).toMatchObject({
      start: 1100,
      end: 1150,
    });
    expect(named(root, "stretch").textContent).toContain("50");
    press(root, "Escape");
    expect(session.state.now.stretch).toBeNull();
  });

  it("finds lines and events, page by page", async () => {
    const { root, session, host } = await mount();
    press(root, "/");
    const input = named(root, "search") as HTMLInputElement;
    input.value = "s_";
    input.dispatchEvent(new Event("input"));
    await settle();
    expect(host.count("search")).toBe(2);
    const rows = [...root.querySelectorAll<HTMLElement>(".tl-hit-row")];
    expect(rows).toHaveLength(4 + 2);
    rows[4]!.click();
    expect(session.state.now.span?.start).toBe(1000);
    expect(session.state.now.instruction).toBe(0);
  });

  it("goes to another stream with its own state", async () => {
    const { root, session } = await mount();
    session.chooseInstruction(2);
    press(root, "]");
    await settle();
    expect(session.state.now.stream).toBe(1);
    expect(session.state.now.instruction).toBeNull();
    press(root, "]");
    press(root, "]");
    await settle();
    expect(session.state.now.stream).toBe(2);
    expect(root.dataset.stream).toBe("2");
  });

  it("shows an error in its line, and what it had when the kernel goes", async () => {
    const host = new CaptureHost();
    host.refuse = "classes";
    const { root, session } = await mount(host);
    expect(root.querySelector(".tl-status")?.textContent).toContain("classes was refused");
    press(root, "Escape");
    host.go();
    expect(root.dataset.link).toBe("gone");
    expect(captureStatus(session)[0]).toBe("gone");
    expect(lines(root)).toHaveLength(5);
    press(root, "ArrowRight");
    await settle();
  });

  it("leaves nothing behind", async () => {
    const { root, session, stop } = await mount();
    const el = root.parentElement!;
    stop.abort();
    expect(el.children).toHaveLength(0);
    expect(session.views.size).toBe(0);
    expect(session.state.readers).toBe(0);
  });
});

describe("counters", () => {
  async function counters() {
    const mounted = await mount();
    press(mounted.root, "k");
    await settle();
    return mounted;
  }
  it("show totals, ratios with formula and numbers, and values by place", async () => {
    const { root } = await counters();
    expect(root.dataset.tab).toBe("counters");
    expect(root.querySelector(".tl-derived")?.textContent).toBe(
      "L2 hit rate75.0 %100 * sum(HIT) / (sum(HIT) + sum(MISS))= 100 * 3 / (3 + 1)",
    );
    expect(root.querySelectorAll(".tl-counter")).toHaveLength(2);
    expect(root.textContent).toContain("8 values, the largest 30 at se1 wgp3; 1 are zero");
    expect(drawn.texts).toContain("wgp3");
    expect(drawn.texts).toContain("se1");
  });
  it("say what a cut file lacks", async () => {
    const host = new CaptureHost();
    host.note = "the counters need 520 bytes, there are 40";
    const { root } = await mount(host);
    press(root, "k");
    await settle();
    expect(root.querySelector(".tl-readout-table .tl-error")?.textContent).toBe(host.note);
    expect(root.querySelectorAll(".tl-counter")).toHaveLength(2);
  });
  it("turn axes, and choose another counter", async () => {
    const { host, root } = await counters();
    named(root, "axis-se").click();
    await settle();
    expect(host.asked.findLast(({ ask }) => ask === "grid")?.args).toMatchObject({
      rows: [],
      columns: ["se", "wgp"],
    });
    root.querySelectorAll<HTMLElement>(".tl-counter")[1]!.click();
    await settle();
    expect(host.asked.findLast(({ ask }) => ask === "grid")?.args.counter).toBe("GL2C_HIT");
    expect(root.querySelectorAll(".tl-counter.tl-here")).toHaveLength(1);
  });
  it("stand beside each other", async () => {
    const { root, session } = await counters();
    root.querySelectorAll<HTMLInputElement>(".tl-readout input")[1]!.click();
    await settle();
    expect(session.state.now.readouts).toEqual([0, 1]);
    const head = [...root.querySelectorAll(".tl-readout-table th")].map((th) => th.textContent);
    expect(head).toEqual(["counter", "block", "r_4 · run 1", "r_4 · run 2", "change"]);
    expect(root.querySelector(".tl-counter")?.textContent).toContain("2.00×");
  });
  it("offer more contrast only where it changes colours", () => {
    expect(contrastHelps(0, 1000)).toBe(false);
    expect(contrastHelps(1, 1000)).toBe(false);
    expect(contrastHelps(900, 1000)).toBe(false);
    expect(contrastHelps(7, 7)).toBe(false);
    expect(contrastHelps(400, 1000)).toBe(true);
  });
});

describe("several views of one capture", () => {
  it("each get what they ask for, however many ask at the same time", async () => {
    const host = new CaptureHost();
    host.delayMs = 500; // all views ask before anything is answered
    const session = new CaptureSession(host, host.overview);
    const roots = [0, 1, 2, 3].map(() => {
      const el = document.createElement("div");
      document.body.append(el);
      mountCapture(el, session, new AbortController().signal);
      return el.querySelector<HTMLElement>(".tinylab")!;
    });
    await settle(20_000);
    session.state.set({ stretch: { start: 2000, end: 4000 } });
    session.state.set({ tab: "counters", counter: "TEST_B" });
    await settle(20_000);
    for (const root of roots) {
      const lanes = root.querySelector<HTMLElement>(".tl-stage-box canvas")!;
      expect(Number(lanes.dataset.loaded)).toBeGreaterThan(0);
      for (const cell of ["classes td", "stretch dd"])
        expect(root.querySelector(`[data-name=${cell.replace(" ", "] ")}`), cell).not.toBeNull();
      expect(root.querySelectorAll(".tl-counter").length).toBeGreaterThan(0);
    }
    expect(new Set(roots.map((root) => root.textContent)).size).toBe(1);
  });
});

describe("small parts", () => {
  it("colours go from the ground to the strongest", () => {
    expect(heatColour(0, false)).toBe("#f1f5f9");
    expect(heatColour(1, false)).toBe("#0b3f6b");
    expect(heatColour(7, true)).toBe(heatColour(1, true));
    const light = (hex: string): number => Number.parseInt(hex.slice(3, 5), 16);
    const steps = Array.from({ length: 11 }, (_, i) => light(heatColour(i / 10, false)));
    expect(steps).toEqual([...steps].sort((a, b) => b - a));
  });
  it("near-equal values have a middle colour, and those that differ begin at zero", () => {
    const share = (value: number, least: number, most: number, fromLeast = false): number => {
      const { from, to } = heatScale(least, most, fromLeast);
      return (value - from) / (to - from);
    };
    for (const value of [4082, 4132]) {
      expect(share(value, 4082, 4132)).toBeGreaterThan(0.4);
      expect(share(value, 4082, 4132)).toBeLessThan(0.6);
    }
    expect([share(60, 60, 100), share(100, 60, 100)]).toEqual([0, 1]);
    expect([share(0, 10, 100), share(100, 10, 100)]).toEqual([0, 1]);
    expect([share(4082, 4082, 4132, true), share(4132, 4082, 4132, true)]).toEqual([0, 1]);
    expect(share(7, 7, 7)).toBe(0.5);
    expect(share(7, 7, 7, true)).toBe(0.5);
    expect(share(0, 0, 0)).toBe(0);
  });
  it("numbers fit small cells", () => {
    expect([7, 1234, 123456, 12345678, 3e12].map(shortCount)).toEqual([
      "7",
      "1.2k",
      "123k",
      "12.3M",
      "3.0T",
    ]);
    expect([null, 1, 12.34].map(changeText)).toEqual(["", "1.00×", "12×"]);
  });
  it("instructions with equal figures stay in their order", () => {
    const figures = Object.fromEntries(
      ["hits", "total", "mean", "longest", "stall", "time"].map((name) => [
        name,
        Float64Array.of(1, 3, 1, 3),
      ]),
    ) as never;
    const all = Array.from({ length: 4 }, () => ({ pc: 0, text: "", target: -1 }));
    expect(ordered({ lines: all, figures, note: "" }, "hits")).toEqual([1, 3, 0, 2]);
  });
});
