import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { settle } from "../../dev/mounted.ts";
import { matmulRecord, stepOf } from "../../dev/record.ts";
import type { Step } from "../protocol/types.ts";
import { h } from "../views/dom.ts";
import { render as renderDebugger } from "./debugger.ts";
import type { Shared, WidgetModel } from "./jupyter.ts";
import { sessionOf } from "./jupyter.ts";
import { render as renderProfile } from "./profile.ts";

type Hear<T> = (sender: unknown, value: T) => void;

class Signal<T> {
  readonly ears = new Set<Hear<T>>();
  connect(hear: Hear<T>): void {
    this.ears.add(hear);
  }
  disconnect(hear: Hear<T>): void {
    this.ears.delete(hear);
  }
  emit(value: T): void {
    for (const hear of [...this.ears]) hear(this, value);
  }
}

class Kernel {
  readonly status = "idle";
  readonly statusChanged = new Signal<string>();
  readonly disposed = new Signal<unknown>();
}

/** A model as JupyterLab has it: live, or restored from a notebook's file. */
class Model {
  readonly sent: unknown[] = [];
  readonly saved: string[] = [];
  readonly kernel: Kernel | null = new Kernel();
  readonly layout = { comm_live: true };
  readonly #events = new Map<string, ((...args: never[]) => void)[]>();
  readonly #host: FakeHost;
  readonly values: Record<string, unknown>;

  constructor(values: Record<string, unknown> = {}) {
    const record = matmulRecord();
    this.#host = new FakeHost(record);
    const overview = record.overview;
    this.values = { overview, first: stepOf(record, 1, 0, null), selection: {}, ...values };
    this.#host.listen((message) => this.emit("msg:custom", message));
  }

  get widget_manager() {
    return { kernel: this.kernel };
  }
  get(name: string): unknown {
    return name === "layout" ? this.layout : this.values[name];
  }
  set(name: string, value: unknown): void {
    this.values[name] = value;
    this.saved.push(name);
  }
  save_changes(): void {}
  send(message: unknown): void {
    this.sent.push(message);
    this.#host.send(message);
  }
  on(event: string, hear: (...args: never[]) => void): void {
    this.#events.set(event, [...(this.#events.get(event) ?? []), hear]);
  }
  emit(event: string, ...args: unknown[]): void {
    for (const hear of this.#events.get(event) ?? []) hear(...(args as never[]));
  }
}

function shared(model: Model, signal?: AbortSignal): Shared {
  return { model: model as unknown as WidgetModel, ...(signal && { signal }) };
}

/** A cell's outputs: a view's own, and under it the static form. */
function outputs(): { el: HTMLElement; under: HTMLElement } {
  const el = h("div", {});
  const under = h("div", { class: "jp-OutputArea-child" }, h("div", { class: "tinylab-static" }));
  document.body.append(h("div", {}, h("div", { class: "jp-OutputArea-child" }, el), under));
  return { el, under };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe("the way to the kernel", () => {
  const linkOf = (model: Model): string => sessionOf(shared(model)).state.now.link;

  it("is closed from the start for a model that was restored from a file", () => {
    const model = new Model();
    expect(linkOf(model)).toBe("ready");
    const restored = new Model({ overview: null });
    restored.layout.comm_live = false;
    expect(linkOf(restored)).toBe("gone");
    expect(restored.sent).toEqual([]);
    const alone = Object.assign(new Model(), { kernel: null });
    expect(linkOf(alone)).toBe("gone");
  });

  it.each(["restarting", "autorestarting", "terminating", "dead"])(
    "ends when the kernel is %s",
    (status) => {
      const model = new Model();
      const session = sessionOf(shared(model));
      model.kernel?.statusChanged.emit("busy");
      expect(session.state.now.link).toBe("ready");
      model.kernel?.statusChanged.emit(status);
      expect(session.state.now.link).toBe("gone");
    },
  );

  it("ends when the connection does, and when the comms are lost", async () => {
    const model = new Model();
    const session = sessionOf(shared(model));
    model.kernel?.disposed.emit(undefined);
    expect(session.state.now.link).toBe("gone");

    const other = new Model();
    const cut = sessionOf(shared(other));
    other.emit("comm_live_update"); // its layout is told after it
    other.layout.comm_live = false;
    await settle();
    expect(cut.state.now.link).toBe("gone");
  });

  it("stays when a host says that the comm lives", async () => {
    const model = new Model();
    const session = sessionOf(shared(model));
    model.emit("comm_live_update");
    await settle();
    expect(session.state.now.link).toBe("ready");
  });

  it("holds nothing of a model that was closed", () => {
    const model = new Model();
    const stop = new AbortController();
    sessionOf(shared(model, stop.signal));
    expect(model.kernel?.statusChanged.ears.size).toBe(1);
    stop.abort();
    expect(model.kernel?.statusChanged.ears.size).toBe(0);
    expect(model.kernel?.disposed.ears.size).toBe(0);
  });
});

describe("what the file keeps", () => {
  it("is the step that is shown, whole, and nothing is sent for it", async () => {
    const model = new Model();
    const session = sessionOf(shared(model));
    session.goTo({ pass: 5, k: 0 });
    await settle(500);
    session.stepBy(2);
    await settle(500);
    const kept = model.values.first as Step;
    const whole = stepOf(matmulRecord(), 5, 2, null);
    expect([kept.pass, kept.k, kept.root]).toEqual([5, 2, whole.root]);
    expect(kept.nodes.map(({ id }) => id).sort()).toEqual(whole.nodes.map(({ id }) => id).sort());
    expect(model.saved).not.toContain("first");

    // Opened again without a kernel, it is shown, with the kernel that was chosen.
    const saved = JSON.parse(JSON.stringify(kept)) as Step;
    const again = new Model({ first: saved, selection: { pass: 5, k: 2, kernel: 0, node: null } });
    again.layout.comm_live = false;
    const reopened = sessionOf(shared(again));
    expect(reopened.state.now.at).toEqual({ pass: 5, k: 2 });
    expect(reopened.state.now.shown?.added).toEqual(session.state.now.shown?.added);
    expect(reopened.state.now.kernel).toBe(0);
    reopened.walk(1);
    expect(reopened.state.now.at).toEqual({ pass: 5, k: 2 });
    await settle(500);
    expect(again.sent).toEqual([]);
  });

  it("is nothing where the first step was too large for it", async () => {
    const model = new Model({ first: null });
    const session = sessionOf(shared(model));
    session.goTo({ pass: 5, k: 1 });
    await settle(500);
    expect(model.values.first).toBeNull();
  });
});

describe("a view", () => {
  const signal = (): AbortSignal => new AbortController().signal;

  it("hides the static form while its kernel lives", () => {
    const model = new Model();
    const { el, under } = outputs();
    const stop = new AbortController();
    const known = shared(model);
    renderDebugger({ el, signal: stop.signal, shared: known });
    expect(under.style.display).toBe("none");
    model.kernel?.statusChanged.emit("restarting");
    expect(under.style.display).toBe("");
    expect(el.querySelector<HTMLElement>(".tinylab")?.dataset.link).toBe("gone");
    // Another view of it is shown in time to know.
    const late = outputs();
    renderDebugger({ el: late.el, signal: signal(), shared: known });
    expect(late.under.style.display).toBe("");
    stop.abort();
    expect(under.style.display).toBe("");
  });

  it("shows the form again when it goes", () => {
    const { el, under } = outputs();
    const stop = new AbortController();
    renderDebugger({ el, signal: stop.signal, shared: shared(new Model()) });
    stop.abort();
    expect(under.style.display).toBe("");
  });

  it.each([
    ["timeline", renderProfile, {}],
    ["capture", renderProfile, {}],
    ["debugger", renderDebugger, { first: null }],
  ])("of a %s with nothing to show is a line over it", (kind, render, values) => {
    const model = new Model({ kind, overview: null, ...values });
    model.layout.comm_live = false;
    const { el, under } = outputs();
    render({ el, signal: signal(), shared: shared(model) });
    expect(el.querySelector(".tinylab")).toBeNull();
    expect(el.textContent).toContain("The kernel of this view has gone");
    expect(under.style.display).toBe("");
  });
});
