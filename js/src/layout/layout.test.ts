import { describe, expect, it } from "vitest";
import { doublingRecord, largeRecord, matmulRecord, stepOf } from "../../dev/record.ts";
import { ROWS_A_STEP } from "../base/slices.ts";
import { type Shown, StepCache } from "../protocol/cache.ts";
import { near } from "./fold.ts";
import { layered, layoutNow } from "./layered.ts";
import { pairRebuilt } from "./pair.ts";
import { buildScene, SCENE_OPTIONS, type Scene, sceneSteps } from "./scene.ts";
import type { Layout, LayoutInput } from "./types.ts";
import { type LayoutDone, type LayoutOrder, serve } from "./worker.ts";

const ALL = { ...SCENE_OPTIONS, foldAbove: Number.POSITIVE_INFINITY };

function shownAt(record: ReturnType<typeof matmulRecord>, pass: number, k: number): Shown {
  const cache = new StepCache();
  cache.put(stepOf(record, pass, k, null));
  return cache.get({ pass, k })!;
}

/** A layout input from sources per node, sources first. */
function inputOf(sources: readonly (readonly number[])[]): LayoutInput {
  const count = sources.length;
  const srcStart = new Int32Array(count + 1);
  sources.forEach((src, i) => {
    srcStart[i + 1] = srcStart[i]! + src.length;
  });
  return {
    count,
    widths: new Float32Array(count).fill(60),
    heights: new Float32Array(count).fill(30),
    srcStart,
    src: Int32Array.from(sources.flat()),
    oldX: new Float32Array(count).fill(Number.NaN),
    oldRank: new Int32Array(count).fill(-1),
  };
}

function expectNoOverlap(input: LayoutInput, layout: Layout): void {
  const rows = new Map<number, number[]>();
  for (let i = 0; i < input.count; i += 1) {
    rows.set(layout.rank[i]!, [...(rows.get(layout.rank[i]!) ?? []), i]);
  }
  for (const row of rows.values()) {
    row.sort((a, b) => layout.x[a]! - layout.x[b]!);
    for (let i = 1; i < row.length; i += 1) {
      const [a, b] = [row[i - 1]!, row[i]!];
      expect(layout.x[b]! - layout.x[a]!).toBeGreaterThanOrEqual(
        (input.widths[a]! + input.widths[b]!) / 2,
      );
    }
  }
}

function expectSourcesAbove(input: LayoutInput, layout: Layout): void {
  for (let node = 0; node < input.count; node += 1) {
    for (let e = input.srcStart[node]!; e < input.srcStart[node + 1]!; e += 1) {
      expect(layout.rank[input.src[e]!]!).toBeGreaterThan(layout.rank[node]!);
      expect(layout.y[input.src[e]!]!).toBeLessThan(layout.y[node]!);
    }
  }
}

describe("layered layout", () => {
  it.each([
    ["matmul", matmulRecord(), 1],
    ["kernel", matmulRecord(), 5],
    ["doubling", doublingRecord(100), 1],
    ["large", largeRecord(1500), 1],
  ])("puts sources above users, without overlap: %s", (_, record, pass) => {
    const { input } = buildScene(shownAt(record, pass, 0), ALL, () => undefined);
    const layout = layoutNow(input);
    expectSourcesAbove(input, layout);
    expectNoOverlap(input, layout);
  });

  it("draws a tree without crossings, and a chain as a straight line", () => {
    const tree = inputOf([[], [], [0, 1], [], [], [3, 4], [2, 5]]);
    expect(layoutNow(tree).crossings).toBe(0);
    const chain = layoutNow(inputOf([[], [0], [1], [2], [3]]));
    for (const x of chain.x) expect(x).toBeCloseTo(chain.x[0]!, 3);
  });

  it("leads every edge from the foot of its source to the head of its user", () => {
    const input = inputOf([[], [0], [1], [2, 0]]);
    const layout = layoutNow(input);
    for (let e = 0; e < input.src.length; e += 1) {
      const [first, last] = [layout.pointStart[e]!, layout.pointStart[e + 1]! - 1];
      const source = input.src[e]!;
      expect(layout.points[2 * first]).toBeCloseTo(layout.x[source]!, 3);
      expect(layout.points[2 * first + 1]).toBeCloseTo(layout.y[source]! + 15, 3);
      expect(last).toBeGreaterThan(first);
    }
    // The long edge has a bend in each row that it passes: two points a row, and its ends.
    const long = input.src.length - 1;
    expect(layout.pointStart[long + 1]! - layout.pointStart[long]!).toBe(2 + 2 * 2);
  });

  it("is not recursive, and makes no more bends than its budget: 20,000 deep, all used at the end", () => {
    const sources = Array.from({ length: 20_000 }, (_, i) =>
      i === 0 ? [] : i === 19_999 ? [19_998, 5, 50, 500] : [i - 1],
    );
    const layout = layoutNow(inputOf(sources));
    expect(layout.dummies).toBeLessThanOrEqual(6 * 20_000);
  });

  it("handles nothing, and one node", () => {
    expect(layoutNow(inputOf([])).x).toHaveLength(0);
    expect(layoutNow(inputOf([[]])).y[0]).toBe(-15);
  });
});

describe("stability", () => {
  const record = matmulRecord();

  const sceneAt = (
    shown: Shown,
    before: { scene: Scene; layout: Layout; shown: Shown } | null,
  ): { scene: Scene; layout: Layout } => {
    const isOld = (id: number): boolean => before?.scene.index.has(id) ?? false;
    const pairs = before
      ? pairRebuilt(shown.nodes, shown.step.root, before.shown.step.root, isOld)
      : new Map();
    const scene = buildScene(shown, SCENE_OPTIONS, (id) => {
      const at = before?.scene.index.get(id) ?? before?.scene.index.get(pairs.get(id));
      return at === undefined
        ? undefined
        : { x: before!.layout.x[at]!, rank: before!.layout.rank[at]! };
    });
    return { scene, layout: layoutNow(scene.input) };
  };

  it("keeps the nodes of a step where they were, also those that were rebuilt", () => {
    const cache = new StepCache();
    cache.put(stepOf(record, 5, 0, null));
    cache.put(stepOf(record, 5, 1, { pass: 5, k: 0 }));
    const first = cache.get({ pass: 5, k: 0 })!;
    const old = { ...sceneAt(first, null), shown: first };
    const next = cache.get({ pass: 5, k: 1 })!;
    const now = sceneAt(next, old);
    let moved = 0;
    let kept = 0;
    now.scene.nodes.forEach((node, i) => {
      if (node.mark === "gone" || node.mark === "added") return;
      const wished = now.scene.input.oldX[i]!;
      if (Number.isNaN(wished)) return;
      kept += 1;
      if (Math.abs(wished - now.layout.x[i]!) > 45) moved += 1;
    });
    expect(kept).toBeGreaterThan(15);
    // Those beside a node that came in make room for it.
    expect(moved).toBeLessThanOrEqual(kept / 4);
  });

  it("gives the same layout for the same input", () => {
    const scene = buildScene(shownAt(largeRecord(600), 1, 0), ALL, () => undefined);
    expect(layoutNow(scene.input).x).toEqual(layoutNow(scene.input).x);
  });
});

describe("scene", () => {
  it("writes constants into their users, and a shape as a tuple", () => {
    const scene = buildScene(shownAt(matmulRecord(), 1, 0), SCENE_OPTIONS, () => undefined);
    expect(scene.nodes.find((node) => node.title === "RESHAPE")?.detail).toBe("• (64, 1, 64)");
    expect(scene.nodes.some((node) => node.title === "CONST")).toBe(false);
    const whole = buildScene(
      shownAt(matmulRecord(), 1, 0),
      { ...SCENE_OPTIONS, inline: false },
      () => undefined,
    );
    expect(whole.nodes.some((node) => node.title === "CONST")).toBe(true);
  });

  it("marks the node before as gone and the node after, and sets them side by side", () => {
    const shown = shownAt(matmulRecord(), 1, 1);
    const scene = buildScene(shown, SCENE_OPTIONS, () => undefined);
    const before = scene.nodes.find((node) => node.role === "before")!;
    expect([before.title, before.mark]).toEqual(["MUL", "gone"]);
    expect(scene.nodes.find((node) => node.role === "after")?.title).toBe("REDUCE");
    const without = buildScene(shown, { ...SCENE_OPTIONS, ghosts: false }, () => undefined);
    expect(without.nodes.some((node) => node.mark === "gone")).toBe(false);
  });

  it("folds a huge graph around its change and says how much is hidden", () => {
    const scene = buildScene(shownAt(largeRecord(4000), 1, 1), SCENE_OPTIONS, () => undefined);
    expect(scene.folded).toBe(true);
    expect(scene.nodes.length).toBeLessThanOrEqual(600);
    expect(scene.nodes.some((node) => node.role === "after")).toBe(true);
    expect(scene.nodes.some((node) => node.hiddenSources + node.hiddenUses > 0)).toBe(true);
  });

  it("never lets one value that is used everywhere fill the folded graph", () => {
    const sources = new Map([[0, { src: [] as number[] }]]);
    const uses = new Map<number, number[]>([[0, []]]);
    for (let id = 1; id < 1000; id += 1) {
      sources.set(id, { src: [0] });
      uses.set(id, []);
      uses.get(0)!.push(id);
    }
    expect(near(sources, uses, [5], 600).size).toBeLessThan(12);
  });
});

describe("worker", () => {
  function harness(): { post: (order: LayoutOrder) => void; done: LayoutDone[] } {
    const done: LayoutDone[] = [];
    const scope: Parameters<typeof serve>[0] = {
      onmessage: null,
      postMessage: (message) => done.push(message),
    };
    serve(scope);
    return { done, post: (data) => scope.onmessage?.({ data } as MessageEvent<LayoutOrder>) };
  }

  it("answers orders in turn", async () => {
    const { post, done } = harness();
    post({ id: 1, input: inputOf([[], [0]]) });
    post({ id: 2, input: inputOf([[]]) });
    await expect.poll(() => done.map((each) => each.id)).toEqual([1, 2]);
  });

  it("drops an order that is taken back while it is worked on", async () => {
    const { post, done } = harness();
    const { input } = buildScene(shownAt(largeRecord(6000), 1, 0), ALL, () => undefined);
    post({ id: 1, input });
    post({ id: 1, input: null });
    post({ id: 2, input: inputOf([[]]) });
    await expect.poll(() => done.map((each) => each.id)).toEqual([2]);
  });

  it("can be stopped between any two of its steps", () => {
    const { input } = buildScene(shownAt(largeRecord(3000), 1, 0), ALL, () => undefined);
    let steps = 0;
    for (const _ of layered(input)) steps += 1;
    expect(steps).toBeGreaterThan(6);
  });
});

describe("a scene of ten thousand nodes", () => {
  it("is built in small steps, and as at once", () => {
    const shown = shownAt(largeRecord(10_000), 1, 0);
    const steps = sceneSteps(shown, ALL, () => undefined);
    let pauses = 0;
    let made = steps.next();
    for (; !made.done; made = steps.next()) pauses += 1;
    const { nodes, input } = made.value;
    expect(nodes.length).toBeGreaterThan(9_000);
    expect(pauses).toBeGreaterThan((2 * nodes.length) / ROWS_A_STEP);
    expect(input).toEqual(buildScene(shown, ALL, () => undefined).input);
  });
});

describe("a node on which a rule raised", () => {
  it("is drawn, marked, and the centre of a folded graph", () => {
    const shown = shownAt(largeRecord(3000), 1, 0);
    const node = shown.order.find((id) => shown.nodes.get(id)?.op === "CONST")!;
    const failed = { message: "ValueError: no", rule: null, node };
    const scene = buildScene(
      { ...shown, step: { ...shown.step, failed } },
      { ...SCENE_OPTIONS, foldAbove: 100, keep: 50 },
      () => undefined,
    );
    expect(scene.folded).toBe(true);
    expect(scene.failed).toBe(node);
    expect(scene.nodes.filter((each) => each.role === "failed").map((each) => each.id)).toEqual([
      node,
    ]);
  });
});

describe("places that a wide graph left", () => {
  it("are given up where they would pull a narrow graph apart", () => {
    const shown = shownAt(matmulRecord(), 1, 0);
    const far = new Map(shown.order.map((id, i) => [id, { x: 4000 * (i % 2), rank: 0 }]));
    const near = new Map(shown.order.map((id, i) => [id, { x: 200 * (i % 2), rank: 0 }]));
    const layout = (old: typeof far): Layout =>
      layoutNow(buildScene(shown, SCENE_OPTIONS, (id) => old.get(id)).input);
    expect(layout(far).width).toBeLessThan(1200);
    expect(layout(near)).not.toEqual(layout(far)); // close ones are kept
  });
});
