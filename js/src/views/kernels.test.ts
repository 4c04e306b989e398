import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { type Mounted, mounted, named, press, settle, texts } from "../../dev/mounted.ts";
import { type FakeRecord, matmulRecord } from "../../dev/record.ts";
import type { KernelInfo, PassInfo } from "../protocol/types.ts";
import { sortedKernels } from "./kernels.ts";
import { kernelTitle, stageTitle } from "./names.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

/** A record with many kernels, every third of which has the name of the first. */
function manyKernels(count: number): FakeRecord {
  const record = matmulRecord();
  const [detail, row] = [record.kernels[0]!, record.overview.kernels[0]!];
  const ids = Array.from({ length: count }, (_, id) => id);
  const name = (id: number): string => (id % 3 === 0 ? detail.name : `E_${id}`);
  const kernels = ids.map((id) => ({ ...detail, id, name: name(id) }));
  const rows: KernelInfo[] = ids.map((id) => ({
    ...row,
    id,
    name: name(id),
    display: name(id),
    elapsed_us: id === 2 ? null : ((id * 37) % 11) + 1,
    gflops: id % 4 === 0 ? null : id,
    lines: [1 + (id % 4)],
  }));
  return { ...record, kernels, overview: { ...record.overview, kernels: rows } };
}

function kernels(record: FakeRecord, host = new FakeHost(record)): Mounted {
  const made = mounted(record, host);
  press(made.root, "k");
  return made;
}

const shownIds = (root: HTMLElement): number[] =>
  [...root.querySelectorAll<HTMLElement>(".tl-kernel")].map((row) => Number(row.dataset.kernel));
const sortBy = (root: HTMLElement, column: string): void =>
  root.querySelector<HTMLElement>(`[data-sort="${column}"]`)!.click();

describe("the table of kernels", () => {
  it("is sorted by a column, the largest first, then the other way; unknown times stay last", () => {
    const record = manyKernels(12);
    const { root } = kernels(record);
    expect(shownIds(root)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    sortBy(root, "Time");
    const time = (id: number): number => record.overview.kernels[id]!.elapsed_us ?? -1;
    const down = shownIds(root);
    expect(down.at(-1)).toBe(2);
    expect(down.map(time)).toEqual([...down.map(time)].sort((a, b) => b - a));
    sortBy(root, "Time");
    const up = shownIds(root);
    expect(up.at(-1)).toBe(2);
    expect(up.slice(0, -1).map(time)).toEqual([...up.slice(0, -1).map(time)].sort((a, b) => a - b));
    const heads = [...root.querySelectorAll(".tl-kernel-table th")];
    expect(heads.map((head) => head.getAttribute("aria-sort"))).toEqual([
      ...["none", "none", "ascending", "none", "none", "none", "none"],
    ]);
    sortBy(root, "#");
    expect(shownIds(root)[0]).toBe(0);
  });

  it("keeps the chosen kernel, and next and previous follow the table", () => {
    const { root, session } = kernels(manyKernels(12));
    sortBy(root, "GFLOP/s");
    const order = shownIds(root);
    session.chooseKernel(order[3]!);
    press(root, ".");
    expect(session.state.now.kernel).toBe(order[4]);
    press(root, ",");
    press(root, ",");
    expect(session.state.now.kernel).toBe(order[2]);
    expect(root.querySelectorAll(".tl-kernel.tl-here")).toHaveLength(1);
  });

  it("sorts the same kernels, and never loses one", () => {
    const { overview } = manyKernels(30);
    for (const column of ["#", "Kernel", "Time", "Runs", "GFLOP/s", "GB/s", "Lines", "none"]) {
      for (const down of [true, false]) {
        const sorted = sortedKernels(overview.kernels, { column, down });
        expect(new Set(sorted)).toEqual(new Set(overview.kernels));
      }
    }
  });

  it("brings the first kernel of a cell line into sight, and the chosen one", async () => {
    const record = manyKernels(40);
    const host = new FakeHost(record);
    const answer = host.answer.bind(host);
    host.answer = (ask, args) =>
      ask === "lines" ? { kernels: [30, 35], nodes: {} } : answer(ask, args);
    // Rows of 20 pixels in a list of 200, as a browser would lay them out.
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(200);
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockImplementation(function (
      this: HTMLElement,
    ) {
      const scroller = this.closest(".tl-table-scroll");
      const id = Number(this.dataset.kernel);
      const top = Number.isNaN(id) ? 0 : 24 + 20 * id - (scroller?.scrollTop ?? 0);
      const height = Number.isNaN(id) ? 200 : 20;
      return { top, bottom: top + height, left: 0, right: 100, width: 100, height } as DOMRect;
    });
    const { root, session } = kernels(record, host);
    const scroller = root.querySelector<HTMLElement>(".tl-table-scroll")!;
    const isSeen = (id: number): boolean => {
      const row = root.querySelector(`[data-kernel="${id}"]`)!.getBoundingClientRect();
      return row.top >= 24 && row.bottom <= 200;
    };
    expect(isSeen(30)).toBe(false);
    root.querySelectorAll<HTMLElement>(".tl-cell-line")[2]!.click();
    await settle();
    expect(isSeen(30)).toBe(true);
    const stays = scroller.scrollTop;
    session.chooseKernel(29);
    expect(scroller.scrollTop).toBe(stays);
    session.chooseKernel(0);
    expect(isSeen(0)).toBe(true);
    session.chooseKernel(39);
    expect(isSeen(39)).toBe(true);
  });
});

describe("names", () => {
  it("bear the kernel's number where they are equal", () => {
    const { overview } = manyKernels(5);
    const name = overview.kernels[0]!.name;
    expect(kernelTitle(overview, 0)).toBe(`${name} #0`);
    expect(kernelTitle(overview, 3)).toBe(`${name} #3`);
    expect(kernelTitle(overview, 1)).toBe("E_1");
    expect(kernelTitle(overview, 99)).toBe("kernel 99");
    const stage = overview.stages.find((each) => each.kernel === 0)!;
    expect(stageTitle(overview, stage)).toBe(`${stage.name} #0`);
    expect(stageTitle(matmulRecord().overview, stage)).toBe(stage.name);
  });

  it("of stages, of hits and of kernels in lists are told apart", async () => {
    const record = manyKernels(5);
    const { root, session } = mounted(record);
    expect(texts(root, ".tl-stage-name").at(-1)).toBe("r_64_64_64 #0");
    session.choose(session.state.now.shown!.step.root);
    await settle();
    expect(texts(root, ".tl-origin .tl-src")).toEqual(["r_64_64_64 #0"]);
    const input = named(root, "search") as HTMLInputElement;
    input.value = "sink";
    input.dispatchEvent(new Event("input"));
    await settle();
    expect(texts(root, ".tl-hit-row").join("\n")).toContain("r_64_64_64 #0 › ");
    press(root, "k");
    await settle();
    expect(root.querySelector(".tl-bench h3")?.textContent).toBe("Opts of r_64_64_64 #0");
  });

  it("of passes within passes say where they stand", () => {
    const record = matmulRecord();
    const inner = (id: number, line: number): PassInfo => ({
      ...record.overview.stages[0]!.passes[0]!,
      ...{ id, name: "simplify", matches: 0, changed: false, parent: 1 },
      place: { file: line > 40 ? "/a/codegen/__init__.py" : "/a/schedule/add_buffers.py", line },
    });
    const stages = record.overview.stages.map((stage, i) =>
      i === 0 ? { ...stage, passes: [...stage.passes, inner(90, 30), inner(91, 44)] } : stage,
    );
    const { root } = mounted({ ...record, overview: { ...record.overview, stages } });
    expect(texts(root, ".tl-pass-place")).toEqual([]);
    press(root, "u");
    expect(texts(root, ".tl-pass-place")).toEqual([...[" add_buffers:30", " codegen:44"]]);
  });
});

describe("hits of a search", () => {
  it("tell what distinguishes them", async () => {
    const record = matmulRecord();
    const host = new FakeHost(record);
    const answer = host.answer.bind(host);
    const hit = { pass: 1, k: 0, node: 1, label: "MUL" };
    const hits = ["%4 · float32 (64, 64)", "%9 · float32 (1, 64)"].map((detail) => ({
      ...hit,
      detail,
    }));
    host.answer = (ask, args) => (ask === "search" ? { hits, more: false } : answer(ask, args));
    const { root } = mounted(record, host);
    const input = named(root, "search") as HTMLInputElement;
    input.value = "mul";
    input.dispatchEvent(new Event("input"));
    await settle();
    expect(texts(root, ".tl-hit-label")).toEqual([
      ...["MUL %4 · float32 (64, 64)", "MUL %9 · float32 (1, 64)"],
    ]);
  });
});

describe("borders between parts", () => {
  it("move by arrow keys within bounds, and go back to their own place", () => {
    const { root } = kernels(matmulRecord());
    vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockImplementation(function (
      this: HTMLElement,
    ) {
      const own = /--tl-left: (\d+)px/.exec(root.getAttribute("style") ?? "")?.[1];
      const width = this === root ? 1000 : Number(own ?? 232);
      return { width, height: width, top: 0, bottom: width, left: 0, right: width } as DOMRect;
    });
    const bar = named(root, "split-left");
    const size = (): string => root.style.getPropertyValue("--tl-left");
    const at = root.dataset.at;
    press(bar, "ArrowRight");
    expect(size()).toBe("248px");
    expect(bar.getAttribute("aria-valuenow")).toBe("248");
    press(bar, "ArrowLeft");
    press(bar, "ArrowLeft");
    expect(size()).toBe("216px");
    for (let i = 0; i < 60; i += 1) press(bar, "ArrowRight");
    expect(size()).toBe("700px");
    for (let i = 0; i < 60; i += 1) press(bar, "ArrowLeft");
    expect(size()).toBe("120px");
    press(bar, "Enter");
    expect(size()).toBe("");
    expect(root.dataset.at).toBe(at); // the keys were the border's, not steps
    expect(
      ["split-left", "split-side", "split-bench", "split-table"].map((n) => named(root, n).role),
    ).toEqual(["separator", "separator", "separator", "separator"]);
  });

  it("stay where they are when the cell runs again, until they go back", () => {
    const property = "--tl-left";
    const bar = named(kernels(matmulRecord()).root, "split-left");
    press(bar, "ArrowRight");
    const { root: again } = kernels(matmulRecord());
    expect(again.style.getPropertyValue(property)).toBe("120px");
    press(named(again, "split-left"), "Enter");
    expect(kernels(matmulRecord()).root.style.getPropertyValue(property)).toBe("");
  });
});

describe("a kernel that goes while a step is on its way", () => {
  it("leaves stepper, rule panel and graph at the step that is shown", async () => {
    const { root, host } = mounted(matmulRecord());
    await settle();
    host.busy = true;
    press(root, "End");
    press(root, "]");
    press(root, "]");
    host.go();
    await settle();
    expect(root.dataset.at).toBe(root.dataset.shown);
    expect((named(root, "jump") as HTMLInputElement).value).toBe(root.dataset.shown!.split(":")[1]);
  });
});
