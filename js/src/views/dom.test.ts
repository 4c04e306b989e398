import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { guardFocus, h } from "./dom.ts";

describe("the focus of a view", () => {
  const stop = new AbortController();
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    document.body.replaceChildren();
  });
  function mount() {
    const field = h("button", {}, "row");
    const pane = h("div", {}, field);
    const root = h("div", { tabindex: "0" }, pane);
    document.body.append(root);
    guardFocus(root, stop.signal);
    field.focus();
    return { root, pane, field };
  }
  const frame = (): Promise<unknown> => vi.advanceTimersByTimeAsync(50);

  it("goes to the view when a key hides the pane that has it", async () => {
    const { root, pane, field } = mount();
    root.addEventListener("keydown", () => (pane.style.display = "none"));
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "k", bubbles: true }));
    await frame();
    expect(document.activeElement).toBe(root);
  });
  it("goes to the view when a pane is hidden later, and the page drops the focus", async () => {
    const { root, pane, field } = mount();
    pane.style.display = "none";
    field.blur();
    await frame();
    expect(document.activeElement).toBe(root);
  });
  it("is left where it went, and where it is seen", async () => {
    const { field } = mount();
    const other = h("button", {}, "elsewhere");
    document.body.append(other);
    other.focus();
    await frame();
    expect(document.activeElement).toBe(other);
    field.focus();
    field.blur();
    await frame();
    expect(document.activeElement).toBe(document.body);
  });
});
