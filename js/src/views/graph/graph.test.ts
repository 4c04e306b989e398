import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../../dev/host.ts";
import { type FakeRecord, largeRecord, matmulRecord, stepOf } from "../../../dev/record.ts";
import { atOnce } from "../../base/slices.ts";
import { layoutNow } from "../../layout/layered.ts";
import { buildScene, SCENE_OPTIONS } from "../../layout/scene.ts";
import { StepCache } from "../../protocol/cache.ts";
import { Session } from "../../protocol/session.ts";
import { mountDebugger } from "../debugger.ts";
import { type Box, type Camera, fitScale, READABLE, type Size } from "./camera.ts";
import { around, Picture } from "./picture.ts";
import { Sight } from "./sight.ts";

/** The same numbers for the same seed, from 0 to 1. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

function pictureOf(cache: StepCache, record: FakeRecord, pass: number, k: number): Picture {
  cache.put(stepOf(record, pass, k, null));
  const scene = buildScene(cache.get({ pass, k })!, SCENE_OPTIONS, () => undefined);
  return atOnce(Picture.steps(scene, layoutNow(scene.input)));
}

/** Whether a box is wholly on the canvas. */
function within(box: Box, camera: Camera, size: Size): boolean {
  const [dot, air] = [0.5, 1];
  const left = box.left * camera.scale + camera.x;
  const right = box.right * camera.scale + camera.x;
  const top = box.top * camera.scale + camera.y;
  const bottom = box.bottom * camera.scale + camera.y;
  return (
    left >= air - dot &&
    top >= air - dot &&
    right <= size.width - air + dot &&
    bottom <= size.height - air + dot
  );
}

/** Whether the end of the change is seen, and both ends of it; the latter null if they never fit. */
function seenEnds(picture: Picture, camera: Camera, size: Size): [boolean, boolean | null] {
  const before = picture.boxOf(picture.scene.before!);
  const end = picture.boxOf(picture.scene.after!) ?? before;
  if (!end) return [false, null];
  const both = before ? around([end, before]) : end;
  const fits = fitScale(both, size) >= READABLE;
  return [within(end, camera, size), fits ? within(both, camera, size) : null];
}

describe("what is in sight after a step", () => {
  /** Steps through a random record on a random canvas; sometimes the user looks elsewhere first. */
  function* walk(seed: number, random: () => number): Generator<[boolean, boolean | null]> {
    const record = largeRecord(120 + 60 * seed, seed);
    const cache = new StepCache();
    const sight = new Sight();
    sight.resize({ width: 300 + 900 * random(), height: 200 + 500 * random() });
    const far = (): number => 4000 * (random() - 0.5);
    for (let k = 0; k <= Math.min(5, record.passes[0]!.matches.length); k += 1) {
      const picture = pictureOf(cache, record, 1, k);
      if (random() < 0.4) sight.move({ x: far(), y: far(), scale: 0.05 + 2.5 * random() });
      sight.take(k > 0);
      const camera = sight.look(picture);
      if (k > 0) yield seenEnds(picture, camera, sight.size);
    }
  }

  it("is always the node after, and the node before where both can be read", () => {
    const random = randoms(7);
    const found = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].flatMap((n) => [...walk(n, random)]);
    expect(found.map(([end]) => end)).not.toContain(false);
    expect(found.map(([, both]) => both)).not.toContain(false);
    // Else the test would say little.
    expect(found.filter(([, both]) => both === null).length).toBeGreaterThan(3);
    expect(found.filter(([, both]) => both).length).toBeGreaterThan(10);
  });

  it("is the same after c, in the middle", () => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const record = largeRecord(700, seed);
      const picture = pictureOf(new StepCache(), record, 1, 3);
      const sight = new Sight();
      sight.resize({ width: 500, height: 400 });
      sight.move({ x: 9000, y: -7000, scale: 0.1 });
      sight.centre();
      const camera = sight.look(picture);
      const end = picture.boxOf(picture.scene.after!)!;
      expect(within(end, camera, sight.size)).toBe(true);
      expect(camera.scale).toBeGreaterThanOrEqual(READABLE);
    }
  });

  it("waits for a canvas that is hidden, and does not move what is in sight", () => {
    const picture = pictureOf(new StepCache(), largeRecord(700, 3), 1, 2);
    const sight = new Sight();
    sight.resize({ width: 600, height: 400 });
    sight.take(false);
    sight.look(picture);
    sight.resize({ width: 0, height: 0 });
    sight.take(true);
    sight.resize({ width: 400, height: 300 });
    const camera = sight.look(picture);
    expect(within(picture.boxOf(picture.scene.after!)!, camera, sight.size)).toBe(true);
    sight.seek([picture.scene.after!]);
    expect(sight.look(picture)).toEqual(camera);
  });

  it("is any node that is sought", () => {
    const random = randoms(3);
    const picture = pictureOf(new StepCache(), largeRecord(900, 5), 1, 1);
    const sight = new Sight();
    sight.resize({ width: 520, height: 380 });
    for (const node of picture.scene.nodes.slice(0, 60)) {
      sight.move({ x: 3000 * random(), y: 3000 * random(), scale: 0.3 + 2.5 * random() });
      sight.seek([node.id]);
      expect(within(picture.boxOf(node.id)!, sight.look(picture), sight.size)).toBe(true);
    }
  });
});

describe("the graph of a view", () => {
  /** Every canvas that was painted, by its size at the time. */
  let painted: [number, number][] = [];
  let resizes: ((width: number, height: number) => void)[] = [];

  beforeEach(() => {
    vi.useFakeTimers();
    painted = [];
    resizes = [];
    vi.stubGlobal(
      "ResizeObserver",
      class {
        constructor(tell: (entries: object[]) => void) {
          resizes.push((width, height) => tell([{ contentRect: { width, height } }]));
        }
        observe(): void {}
        disconnect(): void {}
      },
    );
    vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockImplementation(function (
      this: HTMLCanvasElement,
    ) {
      painted.push([this.width, this.height]);
      const measure = (): object => ({ width: 10 });
      return new Proxy({}, { get: () => measure, set: () => true }) as never;
    } as never);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    document.body.replaceChildren();
  });

  const settle = (ms = 600): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  const resize = (width: number, height: number): void => {
    for (const tell of resizes) tell(width, height);
  };

  async function mount(record: FakeRecord): Promise<{
    session: Session;
    root: HTMLElement;
    canvas: HTMLCanvasElement;
    press: (key: string) => void;
  }> {
    const el = document.createElement("div");
    document.body.append(el);
    const session = new Session(new FakeHost(record), record.overview, stepOf(record, 1, 0, null));
    mountDebugger(el, session, new AbortController().signal);
    const root = el.querySelector<HTMLElement>(".tinylab")!;
    const press = (key: string): void => {
      root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    };
    resize(420, 300);
    await settle();
    return { session, root, canvas: root.querySelector("canvas")!, press };
  }
  const sight = (canvas: HTMLElement): string[] => (canvas.dataset.sight ?? "").split(" ");

  it("shows the change at every step, by keys alone", async () => {
    const { canvas, press, session } = await mount(largeRecord(600, 2));
    for (let k = 1; k <= 12; k += 1) {
      press("ArrowRight");
      await settle();
      expect(canvas.dataset.painted).toBe(`1:${k}`);
      expect(sight(canvas)).toContain("after");
      press("c");
      await settle();
      expect(sight(canvas)).toContain("after");
    }
    expect(session.state.now.at?.k).toBe(12);
  });

  it("shows a node that is chosen in the rule panel, also for the second time", async () => {
    const { root, canvas, press, session } = await mount(largeRecord(600, 2));
    press("ArrowRight");
    await settle();
    for (let time = 0; time < 2; time += 1) {
      for (const link of root.querySelectorAll<HTMLButtonElement>(".tl-changes .tl-change")) {
        link.click();
        await settle();
        expect(sight(canvas)).toContain("node");
      }
    }
    // What the step removed is hidden: choosing the node before shows it again.
    press("b");
    await settle();
    session.choose(null);
    root.querySelector<HTMLButtonElement>(".tl-change.tl-is-gone")!.click();
    await settle();
    expect(sight(canvas)).toEqual(expect.arrayContaining(["before", "node"]));
  });

  it("shows a hit of a search: in this step, in another, folded away, or written in its users", async () => {
    const record = largeRecord(2700, 4);
    const { canvas, session } = await mount(record);
    const nodes = session.state.now.shown!.order;
    for (const id of [nodes[0]!, nodes[nodes.length >> 1]!, nodes[nodes.length - 2]!]) {
      session.goTo({ pass: 1, k: 0 });
      session.choose(id);
      await settle(1500);
      expect(sight(canvas)).toContain("node");
    }
    const small = await mount(matmulRecord());
    const constant = [...small.session.state.now.shown!.nodes.values()].find(
      (node) => node.op === "CONST",
    )!;
    small.session.choose(constant.id);
    await settle();
    expect(sight(small.canvas)).toContain("node");
    small.session.goTo({ pass: 3, k: 1 });
    small.session.choose(stepOf(matmulRecord(), 3, 1, null).root);
    await settle();
    expect(small.canvas.dataset.painted).toBe("3:1");
    expect(sight(small.canvas)).toContain("node");
  });

  it("shows something that descends from a chosen line", async () => {
    const { session, canvas, root } = await mount(largeRecord(900, 6));
    root.querySelectorAll<HTMLElement>(".tl-cell-line")[1]!.click();
    await settle();
    const marked = session.state.now.marks!.nodes["1"]!;
    expect(marked.length).toBeGreaterThan(0);
    expect(sight(canvas)).toContain("line");
  });

  it("is not drawn on a canvas of no size, and is there when it has one again", async () => {
    const { canvas, press } = await mount(matmulRecord());
    expect(painted.length).toBeGreaterThan(0);
    painted = [];
    resize(0, 0);
    press("ArrowRight");
    await settle();
    expect(painted).toEqual([]);
    resize(380, 260);
    await settle();
    expect(painted.length).toBeGreaterThan(0);
    expect(painted.every(([width, height]) => width === 380 && height === 260)).toBe(true);
    expect(canvas.dataset.painted).toBe("1:1");
    expect(sight(canvas)).toContain("after");
  });

  it("has its layout cancelled by Escape; keys work meanwhile, r lays it out", async () => {
    const { root, canvas, press, session } = await mount(largeRecord(2400, 8));
    const note = root.querySelector<HTMLElement>(".tl-graph .tl-graph-note")!;
    const before = canvas.dataset.painted;
    press("r");
    press("Escape");
    await settle();
    expect(note.textContent).toContain("cancelled");
    expect(note.hidden).toBe(false);
    expect(canvas.dataset.painted).toBe(before);
    press("ArrowRight");
    expect(session.state.now.at?.k).toBe(1);
    press("Escape");
    await settle();
    press("r");
    await settle(2000);
    expect(canvas.dataset.painted).toBe("1:1");
    expect(note.hidden).toBe(true);
  });
});
