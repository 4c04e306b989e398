import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { type Mounted, mounted, named, press, settle, texts } from "../../dev/mounted.ts";
import { matmulRecord } from "../../dev/record.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

/** A host of which some questions are answered otherwise. */
class OtherHost extends FakeHost {
  readonly other: { [ask: string]: (args: never) => unknown } = {};

  override answer(ask: string, args: never): unknown {
    return this.other[ask]?.(args) ?? super.answer(ask, args);
  }
}

async function bench(host = new OtherHost(matmulRecord())): Promise<Mounted> {
  const made = mounted(host.record, host);
  press(made.root, "k");
  await settle();
  return made;
}

async function run(root: HTMLElement): Promise<void> {
  press(root, "Enter", { ctrlKey: true });
  await settle();
}

function type(root: HTMLElement, opt: number, field: string, value: string): void {
  const input = named(root.querySelector(`[data-opt="${opt}"]`)!, field) as HTMLInputElement;
  input.value = value;
  input.dispatchEvent(new Event("input"));
}

const raise = (message: string) => (): never => {
  throw new Error(message);
};

describe("a run", () => {
  it("that ends in an error says so in the bench, until the next run", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    host.other.run = raise("CUDA does not open: libcuda.so is not there; try DEV=CPU");
    await run(root);
    const error = root.querySelector<HTMLElement>(".tl-run-error")!;
    expect(error.hidden).toBe(false);
    expect(error.textContent).toBe("CUDA does not open: libcuda.so is not there; try DEV=CPU");
    expect(named(root, "run").hasAttribute("disabled")).toBe(false);
    expect(root.querySelector(".tl-run-status")?.textContent).toBe("");
    delete host.other.run;
    await run(root);
    expect(error.hidden).toBe(true);
    expect(root.querySelectorAll(".tl-run")).toHaveLength(2);
  });

  it("whose opts are edited afterwards takes back what was said of them", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    host.other.run = raise("UPCAST(0, 2.5): an amount is a whole number");
    await run(root);
    const error = root.querySelector<HTMLElement>(".tl-run-error")!;
    expect(error.hidden).toBe(false);
    type(root, 0, "arg", "2");
    expect(error.hidden).toBe(true);
    await settle();
    await run(root);
    expect(error.hidden).toBe(false);
    named(root.querySelector('[data-opt="0"]')!, "remove").click();
    expect(error.hidden).toBe(true);
  });

  it("begins with Enter in a field, once, and not with Enter in a list", async () => {
    const { root, host } = await bench();
    const runs = (): number => host.heard.filter(({ ask }) => ask === "run").length;
    const press = (el: Element, ctrlKey = false): void => {
      el.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, ctrlKey }));
    };
    const opt = root.querySelector('[data-opt="0"]')!;
    press(named(opt, "arg"));
    await settle();
    expect(runs()).toBe(1);
    press(named(opt, "op"));
    await settle();
    expect(runs()).toBe(1);
    press(named(opt, "arg"), true);
    await settle();
    expect(runs()).toBe(2);
  });

  it("says how many runs its median rests on, and what was only compiled", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    await run(root);
    expect(root.querySelector(".tl-run")?.textContent).toMatch(/of [\d,]+ runs?/);
    const bare = { median_us: null, p10_us: null, p90_us: null, runs: 0, ratio: null };
    const shown = {
      id: 9,
      opts: [],
      status: "compiled",
      message: "compiled, not run: NULL",
      ...bare,
    };
    host.other.run = () => ({ row: { ...shown, gflops: null, max_error: null } });
    await run(root);
    const row = root.querySelector<HTMLElement>(".tl-run")!;
    expect(row.classList.contains("tl-run-bad")).toBe(false);
    expect(row.textContent).toContain("compiled, not run: NULL");
    expect(row.textContent).not.toContain("same result");
  });

  it("that counts, and fails, says so too", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    host.other.count = raise("there is no such target");
    named(root, "count").click();
    await settle();
    expect(root.querySelector(".tl-run-error")?.textContent).toBe("there is no such target");
  });

  it("ends with its kernel, in a sentence", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    host.busy = true;
    await run(root);
    const stop = named(root, "stop");
    expect(stop.hidden).toBe(false);
    host.go();
    await settle();
    expect(stop.hidden).toBe(true);
    expect(root.querySelector(".tl-run-status")?.textContent).toBe("");
    expect(root.querySelector(".tl-run-error")?.textContent).toContain(
      "The notebook's kernel went while this ran",
    );
    expect(named(root, "run").hasAttribute("disabled")).toBe(true);
  });

  it("that was compiled and not run shows why", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    host.other.run = () => ({
      row: {
        ...{ id: 1, opts: [], status: "ok", message: "compiled, not run: NULL runs nothing" },
        ...{ median_us: null, p10_us: null, p90_us: null, runs: 0, ratio: null },
        ...{ gflops: null, max_error: null },
      },
    });
    await run(root);
    expect(texts(root, ".tl-run-note")).toEqual(["compiled, not run: NULL runs nothing"]);
    expect(root.querySelector(".tl-run .tl-num")?.textContent).toBe("–");
  });

  it("shows the unedited kernel's row at once", async () => {
    const { root } = await bench();
    await run(root);
    const rows = [...root.querySelectorAll<HTMLElement>(".tl-run")];
    expect(rows.map((row) => row.dataset.row)).toEqual(["1", "0"]);
    expect(rows[1]!.querySelector(".tl-ratio")?.textContent).toBe("unedited");
    rows[1]!.click();
    await settle();
    expect(root.querySelector(".tl-code")?.textContent).toContain("define void");
  });
});

describe("a kernel that was just chosen", () => {
  it("is run by the keys that come before its opts were looked at", async () => {
    const { root, host } = mounted(matmulRecord());
    press(root, "k");
    await settle(1); // the kernel is here, and the question about its opts is on its way
    await vi.advanceTimersByTimeAsync(0);
    press(root, "Enter", { ctrlKey: true });
    await settle();
    expect(host.count("run")).toBe(1);
    expect(root.querySelectorAll(".tl-run")).toHaveLength(2);
  });
});

describe("an earlier run", () => {
  it("brings its opts, though those of the kernel are still looked at", async () => {
    const host = new OtherHost(matmulRecord());
    const { row } = host.answer("run", { kernel: 0, opts: [] } as never) as { row: object };
    host.other.kernel = () => {
      host.busy = true; // what is asked next waits
      return { ...host.record.kernels[0], history: [{ ...row, id: 1, opts: [] }] };
    };
    const { root } = await bench(host);
    expect(root.querySelectorAll(".tl-opt").length).toBeGreaterThan(0);
    root.querySelector<HTMLElement>('.tl-run[data-row="1"]')!.click();
    expect(root.querySelectorAll(".tl-opt")).toHaveLength(0);
    host.resume();
    await settle();
    expect(root.querySelectorAll(".tl-opt")).toHaveLength(0);
  });
});

describe("a kernel that was not loaded before the notebook's went", () => {
  it("is not shown with what is another's", async () => {
    const { host, root, session } = await bench();
    expect(texts(root, ".tl-code-line").length).toBeGreaterThan(0);
    host.go();
    session.chooseKernel(7);
    await settle();
    expect(texts(root, ".tl-code-line")).toEqual([]);
    expect(root.querySelector<HTMLElement>(".tl-opts-form")?.hidden).toBe(true);
    expect(root.querySelector(".tl-run-error")?.textContent).toContain("before this was loaded");
    session.chooseKernel(0);
    await settle();
    expect(texts(root, ".tl-code-line").length).toBeGreaterThan(0);
    expect(root.querySelector<HTMLElement>(".tl-opts-form")?.hidden).toBe(false);
    expect(root.querySelector<HTMLElement>(".tl-run-error")?.hidden).toBe(true);
  });
});

describe("an opt that cannot be applied", () => {
  it("leaves code and axes of the last good kernel", async () => {
    const host = new OtherHost(matmulRecord());
    const own = host.record.kernels[0]!.axes;
    const axesOf = (sizes: string[]): unknown =>
      sizes.map((size) => ({ name: "i", letter: "i", size, kind: "LOOP" }));
    // Axes after two opts, after one, and partly applied where the last is refused.
    host.other.actions = ({ opts }: { opts: { arg: number }[] }) => {
      if (opts.at(-1)?.arg === 7) {
        return { axes: axesOf(["9", "9"]), problems: { index: opts.length - 1, message: "no 7" } };
      }
      return { axes: opts.length === 1 ? axesOf(["1", "64"]) : own, problems: null };
    };
    const source = [{ text: "edited source", node: null, lines: [] }];
    const run1 = host.answer("run", { kernel: 0, opts: [] } as never) as { row: object };
    host.other.run = ({ opts }: { opts: { arg: number }[] }) =>
      opts.at(-1)?.arg === 7
        ? { row: { ...run1.row, id: 2, opts, status: "refused", message: "no 7" } }
        : { row: { ...run1.row, id: 1, opts, source, assembly: [] } };
    const { root } = await bench(host);
    const sizes = (): string[] => texts(root, ".tl-axis b");

    named(root.querySelector('[data-opt="1"]')!, "remove").click();
    await settle();
    await run(root);
    expect(sizes()).toEqual(["1", "64"]);
    [...root.querySelectorAll("button")].find((each) => each.textContent === "+ Add opt")!.click();
    type(root, 1, "arg", "7");
    await settle();
    expect(sizes()).toEqual(["1", "64"]);
    await run(root);
    expect(root.querySelector(".tl-opt-error:not([hidden])")?.textContent).toBe("no 7");
    expect(sizes()).toEqual(["1", "64"]);
    expect(root.querySelector(".tl-code")?.textContent).toContain("edited source");
    // Its row chosen again: still the last good kernel.
    root.querySelector<HTMLElement>('[data-row="2"]')!.click();
    await settle();
    expect(root.querySelector(".tl-code")?.textContent).toContain("edited source");
    expect(sizes()).toEqual(["1", "64"]);
  });

  it("or cannot be understood, is told in the form", async () => {
    const host = new OtherHost(matmulRecord());
    const { root, session } = await bench(host);
    host.other.actions = raise("the amount of UPCAST is '2.5', not a whole number");
    type(root, 0, "arg", "2.5");
    await settle();
    expect(root.querySelector(".tl-opt-error:not([hidden])")?.textContent).toContain(
      "not a whole number",
    );
    expect(session.state.now.problem).toBeNull();
    expect(named(root, "run").hasAttribute("disabled")).toBe(false);
  });
});

describe("an amount that is typed", () => {
  it("stays in its field, with the caret, while errors come and go", async () => {
    const host = new OtherHost(matmulRecord());
    const { root } = await bench(host);
    const field = named(root.querySelector('[data-opt="0"]')!, "arg") as HTMLInputElement;
    field.focus();
    for (const [text, message] of [
      ["3", "does not divide"],
      ["32", ""],
      ["321", "is too much"],
    ] as const) {
      host.other.actions = () => ({ axes: [], problems: message ? { index: 0, message } : null });
      type(root, 0, "arg", text);
      await settle();
      expect(named(root.querySelector('[data-opt="0"]')!, "arg")).toBe(field);
      const error = root.querySelector('[data-opt="0"] .tl-opt-error:not([hidden])');
      expect(error?.textContent ?? "").toBe(message);
    }
    expect(field.value).toBe("321");
  });
});

describe("a kernel that cannot be tried here", () => {
  const WHY = "this is a report: open the notebook to change and run kernels";

  it("is shown, with a form that is visibly off and one quiet line", async () => {
    const host = new OtherHost(matmulRecord());
    host.other.actions = raise(WHY);
    const { root, session } = await bench(host);
    expect(session.state.now.problem).toBeNull();
    expect(root.querySelector<HTMLElement>(".tl-status")?.dataset.state).toBe("ready");
    expect(root.querySelector(".tl-blocked-text")?.textContent).toBe(WHY);
    expect(root.querySelector(".tl-blocked")?.getAttribute("title")).toBe(WHY);
    for (const name of ["run", "count"]) {
      expect(named(root, name).hasAttribute("disabled")).toBe(true);
      expect(named(root, name).title).toBe(WHY);
    }
    expect(root.querySelector<HTMLElement>(".tl-opts-form")!.inert).toBe(true);
    expect(root.querySelectorAll(".tl-axis")).toHaveLength(5);
    expect(root.querySelector(".tl-code")?.textContent).toContain("define void");
    const asked = host.heard.length;
    await run(root);
    expect(host.heard.length).toBe(asked);
  });

  it("does not hold up the next one that can", async () => {
    const host = new OtherHost(matmulRecord());
    host.other.actions = raise(WHY);
    const { root, session } = await bench(host);
    delete host.other.actions;
    session.load({ ...host.record.overview }, null);
    await settle();
    expect(root.querySelector<HTMLElement>(".tl-blocked-text")!.hidden).toBe(true);
    expect(named(root, "run").hasAttribute("disabled")).toBe(false);
    await run(root);
    expect(root.querySelectorAll(".tl-run")).toHaveLength(2);
  });
});
