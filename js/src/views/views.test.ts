import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { type FakeRecord, matmulRecord, stepOf } from "../../dev/record.ts";
import { Session } from "../protocol/session.ts";
import { tidyAssembly } from "./code.ts";
import { commandsOf } from "./commands.ts";
import { mountDebugger } from "./debugger.ts";
import { fitTo, reveal, zoomAt } from "./graph/camera.ts";
import { ratioText } from "./history.ts";
import { statusOf } from "./status.ts";
import { brightness } from "./theme.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

interface Mounted {
  readonly host: FakeHost;
  readonly session: Session;
  readonly root: HTMLElement;
  readonly stop: AbortController;
}

function mount(record: FakeRecord = matmulRecord()): Mounted {
  const host = new FakeHost(record);
  const session = new Session(host, record.overview, stepOf(record, 1, 0, null));
  const { root, stop } = show(session);
  return { host, session, root, stop };
}

function show(session: Session): { root: HTMLElement; stop: AbortController } {
  const el = document.createElement("div");
  document.body.append(el);
  const stop = new AbortController();
  mountDebugger(el, session, stop.signal);
  return { root: el.querySelector<HTMLElement>(".tinylab")!, stop };
}

const settle = (ms = 50): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const press = (target: HTMLElement, key: string, more: KeyboardEventInit = {}): void => {
  target.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }),
  );
};
const named = (root: HTMLElement, name: string): HTMLElement =>
  root.querySelector<HTMLElement>(`[data-name="${name}"]`)!;

describe("keyboard", () => {
  it("steps through matches and passes, jumps, and changes the form", async () => {
    const { root, session } = mount();
    press(root, "ArrowRight");
    expect(session.state.now.at?.k).toBe(1);
    press(root, "p");
    expect(session.state.now.at?.k).toBe(0);
    press(root, "]");
    expect(session.state.now.at?.pass).toBe(3);
    press(root, "End");
    expect(session.state.now.at?.k).toBe(2);
    press(root, "Home");
    expect(session.state.now.at?.k).toBe(0);
    press(root, "t");
    await settle();
    expect(root.querySelector(".tl-text-line")?.textContent).toContain("BUFFER");
  });

  it("does nothing while one types, and Escape closes", async () => {
    const { root, session } = mount();
    press(root, "/");
    const input = named(root, "search") as HTMLInputElement;
    input.value = "reshape";
    input.dispatchEvent(new Event("input"));
    press(input, "n");
    await settle();
    expect(session.state.now.at?.k).toBe(0);
    expect(root.querySelectorAll(".tl-hit-row").length).toBeGreaterThan(1);
    press(input, "Enter");
    expect(session.state.now.node).not.toBeNull();
    expect(root.querySelector<HTMLElement>(".tl-search")?.hidden).toBe(true);
  });

  it("lets no plain key reach the notebook, and asks it not to listen", () => {
    const { root } = mount();
    expect(root.dataset.lmSuppressShortcuts).toBe("true");
    let heard = 0;
    document.body.addEventListener("keydown", () => (heard += 1));
    for (const key of ["a", "d", "ArrowRight", "Escape"]) press(root, key);
    expect(heard).toBe(0);
    press(root, "s", { ctrlKey: true });
    expect(heard).toBe(1);
  });

  it("shows every command in the help", () => {
    const { root } = mount();
    press(root, "?");
    const help = root.querySelector<HTMLElement>(".tl-help")!;
    expect(help.hidden).toBe(false);
    const { host, ...rest } = mount();
    const commands = commandsOf({
      ...rest,
      view: null,
      graph: null,
      bench: null,
      signal: rest.stop.signal,
    } as never);
    for (const command of commands) expect(help.textContent).toContain(command.what);
    expect(new Set(commands.flatMap((command) => command.keys)).size).toBe(
      commands.flatMap((command) => command.keys).length,
    );
    press(root, "Escape");
    expect(help.hidden).toBe(true);
    expect(host.heard.length).toBe(0);
  });
});

describe("keys of the notebook", () => {
  /** Whether JupyterLab would take a key: the event gets out, and nothing asks to leave it alone. */
  const reaches = (root: HTMLElement, key: string, more: KeyboardEventInit = {}): boolean => {
    let heard = false;
    const early = (event: Event): void => {
      heard = !(event.target as Element).closest("[data-lm-suppress-shortcuts]");
    };
    let late = false;
    const bubbled = (): void => {
      late = true;
    };
    document.addEventListener("keydown", early, { capture: true, once: true });
    document.addEventListener("keydown", bubbled);
    press(root, key, more);
    document.removeEventListener("keydown", bubbled);
    expect(late).toBe(heard);
    return heard;
  };
  const control = { ctrlKey: true };

  it("reach it while the focus is in the widget, in a field too", () => {
    const { root } = mount();
    for (const at of [root, named(root, "jump")]) {
      expect(reaches(at, "s", control)).toBe(true);
      expect(reaches(at, "C", { ...control, shiftKey: true })).toBe(true);
      expect(reaches(at, "b", { metaKey: true })).toBe(true);
      expect(reaches(at, "F11")).toBe(true);
      expect(reaches(at, "Enter", { shiftKey: true })).toBe(true);
      expect(reaches(at, "Tab")).toBe(true);
    }
  });

  it("do not when they are the widget's, or would edit the notebook", () => {
    const { root } = mount();
    for (const key of ["d", "a", "Enter", "ArrowRight", "k", "Escape"]) {
      expect(reaches(root, key)).toBe(false);
    }
    expect(reaches(root, "Enter", control)).toBe(false);
    expect(reaches(root, "ArrowUp", { altKey: true })).toBe(false);
    expect(reaches(named(root, "jump"), "Enter", control)).toBe(false);
  });
});

describe("text of a record", () => {
  it("is never markup", async () => {
    const evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
    const record = matmulRecord();
    const overview = {
      ...record.overview,
      name: evil,
      cell: { text: evil, lines: 1 },
      error: { type: evil, message: evil, pass_id: 1, match: 0 },
      stages: record.overview.stages.map((stage) => ({
        ...stage,
        name: evil,
        passes: stage.passes.map((pass) => ({ ...pass, name: evil })),
      })),
      kernels: record.overview.kernels.map((kernel) => ({
        ...kernel,
        display: evil,
        reason: evil,
        opts: [evil],
      })),
    };
    const kernels = record.kernels.map((kernel) => ({
      ...kernel,
      name: evil,
      reason: evil,
      source: [{ text: evil, node: null, lines: [] }],
      assembly: [{ text: evil, source_line: 0 }],
    }));
    const { root, session } = mount({ ...record, overview, kernels });
    press(root, "ArrowRight");
    session.choose(session.state.now.shown!.step.root);
    press(root, "k");
    await settle();
    expect(root.querySelectorAll("img, script")).toHaveLength(0);
    expect(root.textContent).toContain("<img src=x");
  });
});

describe("several views", () => {
  it("share the step, take one key press for one step, and go without breaking the rest", async () => {
    const { root, session, stop, host } = mount();
    const second = show(session);
    press(second.root, "]");
    press(second.root, "ArrowRight");
    expect(session.state.now.at?.k).toBe(1);
    await settle();
    expect([root.dataset.at, second.root.dataset.at]).toEqual(["3:1", "3:1"]);
    stop.abort();
    expect(session.views.size).toBe(1);
    press(second.root, "ArrowRight");
    expect(session.state.now.at?.k).toBe(2);
    expect(host.heard.length).toBeLessThan(6);
  });

  it("leave nothing behind", async () => {
    const record = matmulRecord();
    const own = new Session(new FakeHost(record), record.overview, null).state.readers;
    const { root, session, stop } = mount();
    const el = root.parentElement!;
    const before = session.state.readers - own;
    const more = show(session);
    expect(session.state.readers).toBe(2 * before + own);
    more.stop.abort();
    stop.abort();
    await settle();
    expect(session.state.readers).toBe(own);
    expect(session.views.size).toBe(0);
    expect(el.childNodes).toHaveLength(0);
  });
});

describe("cell lines", () => {
  it("mark kernels and passes, and a kernel marks its lines", async () => {
    const { root, session } = mount();
    const lines = root.querySelectorAll<HTMLElement>(".tl-cell-line");
    expect(lines[2]?.classList.contains("tl-related")).toBe(true);
    lines[2]!.click();
    await settle();
    expect(root.querySelector(".tl-kernel")?.classList.contains("tl-lined")).toBe(true);
    expect(session.state.now.marks?.nodes["1"]?.length).toBeGreaterThan(3);
    lines[0]!.click();
    await settle();
    expect(root.querySelector(".tl-kernel")?.classList.contains("tl-lined")).toBe(false);
    lines[0]!.click();
    expect(session.state.now.lines).toEqual([]);
  });
});

describe("bench", () => {
  async function bench(): Promise<Mounted> {
    const mounted = mount();
    press(mounted.root, "k");
    await settle();
    return mounted;
  }
  const opts = (root: HTMLElement): string[] =>
    [...root.querySelectorAll<HTMLElement>(".tl-opt")].map((row) =>
      [...row.querySelectorAll<HTMLInputElement>("select, input")]
        .map((field) => field.value)
        .join(" "),
    );

  it("shows the kernel's opts, axes, source and assembly", async () => {
    const { root } = await bench();
    expect(opts(root)).toEqual(["UPCAST 1 8", "UNROLL 0 4"]);
    expect(root.querySelectorAll(".tl-axis")).toHaveLength(5);
    expect(root.querySelectorAll(".tl-code")[0]?.textContent).toContain("define void");
    expect(root.querySelectorAll(".tl-code")[1]?.textContent).toContain("vfmadd231ps");
  });

  it("links source lines to assembly lines", async () => {
    const { root } = await bench();
    const [source, assembly] = root.querySelectorAll<HTMLElement>(".tl-code");
    source!.querySelectorAll<HTMLElement>(".tl-code-line")[8]!.click();
    const linked = [...assembly!.querySelectorAll(".tl-chosen")].map((line) => line.textContent);
    expect(linked).toHaveLength(1);
    expect(linked[0]).toContain("vfmadd231ps");
  });

  it("adds, reorders, edits and removes opts, asking whether they can be applied", async () => {
    const { root, host } = await bench();
    named(root.querySelector('[data-opt="1"]')!, "up").click();
    expect(opts(root)).toEqual(["UNROLL 0 4", "UPCAST 1 8"]);
    [...root.querySelectorAll("button")].find((each) => each.textContent === "+ Add opt")!.click();
    const axis = named(root.querySelector('[data-opt="2"]')!, "axis") as HTMLInputElement;
    axis.value = "0";
    axis.dispatchEvent(new Event("input"));
    named(root.querySelector('[data-opt="0"]')!, "remove").click();
    expect(opts(root)).toEqual(["UPCAST 1 8", "UPCAST 0 4"]);
    await settle();
    expect(host.heard.filter(({ ask }) => ask === "actions").pop()?.args.opts).toHaveLength(2);
  });

  it("counts on request: figures by where they come from, roofline, heat, advice", async () => {
    const { root, host } = await bench();
    expect(host.count("count")).toBe(0);
    expect(root.querySelector<HTMLElement>(".tl-sheet-tabs")?.hidden).toBe(true);
    named(root, "count").click();
    await settle();
    expect(host.heard.filter(({ ask }) => ask === "count").pop()?.args.opts).toHaveLength(2);
    const figures = root.querySelector("table[aria-label=figures]")!;
    expect(figures.textContent).toContain("524,288");
    expect(figures.textContent).not.toContain("L1 misses"); // the table of caches has them
    expect(
      [...figures.querySelectorAll(".tl-figure-kind")].map((each) => each.textContent),
    ).toEqual(["counted", "measured"]);
    expect(root.querySelector("table[aria-label=caches]")?.textContent).toContain("7.68%");
    expect(root.querySelector("table[aria-label=caches]")?.textContent).toContain("100%");
    // No byte came from memory: it has a share, and no point.
    expect(root.querySelectorAll(".tl-point")).toHaveLength(1);
    expect(root.querySelectorAll(".tl-roof")).toHaveLength(3);
    expect(root.querySelector(".tl-shares dt")?.textContent).toBe("arithmetic");
    expect(root.querySelector(".tl-shares")?.textContent).toContain("50.0%");
    expect(root.querySelector(".tl-counters")?.textContent).toContain("16 of each 64 sets");
    // Counted again: the count before stands beside it.
    expect(figures.textContent).not.toContain("Before");
    named(root, "count").click();
    await settle();
    const again = root.querySelector("table[aria-label=figures]")!;
    expect(again.querySelector("thead")?.textContent).toBe("FigureBeforeValue");
    expect(root.querySelector("table[aria-label=caches] thead")?.textContent).toContain("Before");
    // A uop leads to its line; heat can stand for something else.
    root.querySelector<HTMLElement>(".tl-uop-row")!.click();
    expect(root.querySelector<HTMLElement>(".tl-counters")?.hidden).toBe(true);
    expect(root.querySelector(".tl-code-line.tl-chosen")?.textContent).toContain("%alu0");
    const marks = (): (string | null)[] =>
      [...root.querySelectorAll(".tl-code .tl-heat-mark")].map((each) => each.textContent);
    expect(marks()).toEqual(["", "", "16.0 k"]);
    const metric = named(root, "metric") as HTMLSelectElement;
    metric.value = "L1 misses";
    metric.dispatchEvent(new Event("change"));
    expect(marks()).toEqual(["", "768", ""]);
    const cell = (): (string | null)[] =>
      [...root.querySelectorAll(".tl-cell-line")].map(
        (each) => each.querySelector(".tl-heat-mark")?.textContent ?? null,
      );
    expect(cell().filter(Boolean)).toEqual(["768"]);
    expect(cell()[2]).toBe("768");
    // The advice's opts take the place of those in the editor; other code has no heat.
    named(root, "advice").click();
    expect(opts(root)).toEqual(["UPCAST 1 16"]);
    [...root.querySelectorAll("button")].find((each) => each.textContent === "Reset")!.click();
    expect(root.querySelectorAll(".tl-code .tl-heat-mark")).toHaveLength(0);
  });

  it("says why a kernel cannot be counted, and keeps what is shown", async () => {
    const { root } = await bench();
    const arg = named(root.querySelector('[data-opt="0"]')!, "arg") as HTMLInputElement;
    arg.value = "7";
    arg.dispatchEvent(new Event("input"));
    press(root, "C", { shiftKey: true });
    await settle();
    expect(root.querySelector(".tl-run-status")?.textContent).toBe("refused: 7 can't divide 64");
    expect(root.querySelector<HTMLElement>(".tl-sheet-tabs")?.hidden).toBe(true);
    expect(root.querySelectorAll(".tl-code")[0]?.textContent).toContain("define void");
  });

  it("runs the edited opts and adds a row; a refusal names the opt and keeps the code", async () => {
    const { root, host } = await bench();
    press(root, "Enter", { ctrlKey: true });
    await settle();
    const ratios = [...root.querySelectorAll(".tl-ratio")].map((cell) => cell.textContent);
    expect(ratios).toEqual(["1.80×faster", "unedited"]);
    const arg = named(root.querySelector('[data-opt="0"]')!, "arg") as HTMLInputElement;
    arg.value = "7";
    arg.dispatchEvent(new Event("input"));
    await settle();
    expect(root.querySelector(".tl-opt-error:not([hidden])")?.textContent).toContain(
      "which 7 does not divide",
    );
    press(root, "Enter", { ctrlKey: true });
    await settle();
    const rows = [...root.querySelectorAll<HTMLElement>(".tl-run")];
    expect(rows.map((row) => row.dataset.status)).toEqual(["refused", "ok", "ok"]);
    expect(rows.map((row) => row.dataset.row)).toEqual(["2", "1", "0"]);
    expect(rows[0]!.textContent).toContain("refused: UPCAST(1, 7): axis 1 has size 64");
    expect(rows[2]!.textContent).toContain("as run");
    expect(root.querySelectorAll(".tl-code")[0]?.textContent).toContain("define void");
    expect(host.count("run")).toBe(2);
  });

  it("shows an earlier run's opts, and asks for its source", async () => {
    const { root, host } = await bench();
    press(root, "Enter", { ctrlKey: true });
    await settle();
    named(root.querySelector('[data-opt="1"]')!, "remove").click();
    press(root, "Enter", { ctrlKey: true });
    await settle();
    const older = root.querySelectorAll<HTMLElement>(".tl-run")[1]!;
    expect(root.querySelectorAll(".tl-run")).toHaveLength(3);
    expect(older.dataset.row).toBe("1");
    older.click();
    await settle();
    expect(opts(root)).toHaveLength(2);
    expect(host.heard.filter(({ ask }) => ask === "row").map(({ args }) => args.row)).toEqual([1]);
    expect(root.querySelectorAll(".tl-code")[0]?.textContent).toContain("run 1");
    expect(root.querySelector(".tl-run.tl-here")?.getAttribute("data-row")).toBe("1");
  });

  it("offers Stop while a kernel runs, and one run at a time", async () => {
    const { root, host } = await bench();
    host.busy = true;
    named(root, "run").click();
    named(root, "run").click();
    expect(named(root, "stop").hidden).toBe(false);
    named(root, "stop").click();
    expect(host.heard.filter(({ ask }) => ask === "run")).toHaveLength(1);
    expect(host.count("stop")).toBe(1);
    host.resume();
    await settle();
    expect(named(root, "stop").hidden).toBe(true);
  });

  it("cannot run without a kernel", async () => {
    const { root, host } = await bench();
    host.go();
    expect((named(root, "run") as HTMLButtonElement).disabled).toBe(true);
    expect(root.querySelector(".tl-status")?.textContent).toContain("has gone");
  });
});

describe("a pass that failed", () => {
  const failing = (): { host: FakeHost; session: Session; root: HTMLElement; node: number } => {
    const record = matmulRecord();
    const step = stepOf(record, 3, 0, null);
    const node = step.nodes.find((each) => each.op === "REDUCE")!.id;
    const rule = { name: "split", law: "a -> b", source: "lambda", file: "f.py", line: 3 };
    const error = { type: "ValueError", message: "no luck", pass_id: 3, match: 0 };
    const host = new FakeHost(record);
    const session = new Session(
      host,
      { ...record.overview, error: { ...error, rule: "split", node } },
      { ...step, failed: { message: "ValueError: no luck", rule, node } },
    );
    return { host, session, root: show(session).root, node };
  };

  it("shows the rule that raised, its source, the error, and chooses the node", async () => {
    const { root, session, node } = failing();
    const panel = root.querySelector<HTMLElement>(".tl-failure")!;
    expect(panel.textContent).toContain("split raised ValueError: no luck");
    expect(panel.querySelector(".tl-source")?.textContent).toBe("lambda");
    expect(panel.querySelector(".tl-change")?.textContent).toContain("REDUCE");
    expect(session.state.now.node).toBe(node);
    expect(root.querySelector(".tl-status")?.textContent).toContain("raised by the rule split");
    press(root, "ArrowRight");
    await settle();
    expect(root.querySelector(".tl-failure")).toBeNull();
  });
});

describe("an interrupt", () => {
  const page = matmulRecord().overview;
  const error = {
    type: "KeyboardInterrupt",
    message: "",
    pass_id: 3,
    match: 2,
    rule: null,
    node: null,
  };

  it("is shown where it came, blames no rule, and is no failure of its pass", async () => {
    const stages = page.stages.map((stage) => ({
      ...stage,
      passes: stage.passes.map((pass) => ({ ...pass, failed: pass.id === 3 })),
    }));
    const session = new Session(new FakeHost(matmulRecord()), { ...page, stages, error }, null);
    const { root } = show(session);
    await settle();
    const pass = stages.flatMap((stage) => stage.passes).find(({ id }) => id === 3)!;
    expect(session.state.now.at).toEqual({ pass: 3, k: 2 });
    const said = root.querySelector(".tl-status")?.textContent ?? "";
    expect(said).toContain(`The cell was interrupted in the pass ${pass.name} (`);
    expect(said).toContain("after match 2");
    expect(root.querySelector(".tl-flag")?.textContent).toBe("interrupted");
  });

  it("outside of all passes says that", () => {
    const state = { ...new Session(new FakeHost(matmulRecord()), page, null).state.now };
    const overview = { ...page, error: { ...error, pass_id: null, match: null } };
    expect(statusOf({ ...state, overview })[1]).toContain("interrupted, in no pass");
  });
});

describe("ratios", () => {
  it("say which is faster, and fit their column", () => {
    const shown = [null, 0.5, 1, 0.998, 9.994, 39.24, 1234.5, 0.001, 0].map((ratio) =>
      ratioText({ ratio }),
    );
    const words = shown.map(([times, word]) => `${times} ${word}`.trim());
    expect(words.slice(0, 4)).toEqual(["–", "2.00× faster", "as fast", "as fast"]);
    expect(words.slice(4, 7)).toEqual(["9.99× slower", "39.2× slower", "1,235× slower"]);
    expect(words.slice(7)).toEqual(["1,000× faster", "–"]);
  });

  it("say nothing that the rounds do not agree on", () => {
    const told = (low: number, ratio: number, high: number): readonly string[] =>
      ratioText({ ratio, ratio_low: low, ratio_high: high });
    expect(told(0.4, 0.5, 0.6)).toEqual(["2.00×", "faster"]);
    expect(told(1.1, 1.5, 1.9)).toEqual(["1.50×", "slower"]);
    expect(told(0.38, 0.5, 1.04)).toEqual(["as fast", "0.38 … 1.04"]);
  });
});

describe("status line", () => {
  it("says the gravest thing first", () => {
    const { session } = mount();
    const state = session.state.now;
    expect(statusOf(state)[1]).toBe("before the first of 2 matches");
    expect(statusOf({ ...state, link: "busy", at: { pass: 1, k: 2 } })[1]).toBe(
      "The kernel is busy; match 2 follows.",
    );
    expect(statusOf({ ...state, link: "gone", problem: "x" })[0]).toBe("gone");
    expect(statusOf({ ...state, problem: "no such pass" })).toEqual(["problem", "no such pass"]);
  });
});

describe("small parts", () => {
  it("zooms about a point, fits, and reveals with the least movement", () => {
    const camera = { x: 10, y: 20, scale: 1 };
    const zoomed = zoomAt(camera, 2, 110, 120);
    expect(zoomed).toEqual({ scale: 2, x: -90, y: -80 });
    const box = { left: 0, top: 0, right: 400, bottom: 100 };
    expect(fitTo(box, { width: 248, height: 200 }).scale).toBe(0.5);
    expect(
      reveal(camera, { left: 30, top: 30, right: 60, bottom: 60 }, { width: 200, height: 200 }),
    ).toEqual(camera);
  });

  it("reads brightness, and tidies assembly", () => {
    expect(brightness("rgb(255, 255, 255)")).toBeCloseTo(1, 6);
    expect(brightness("rgba(0, 0, 0, 0)")).toBeNull();
    expect(tidyAssembly("        movq    (%rdx), %rdx")).toBe("  movq         (%rdx), %rdx");
    expect(tidyAssembly("loop:")).toBe("loop:");
  });
});
