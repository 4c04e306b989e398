/** What the bundles share: one view shown in an element, with what goes wrong said there. */
import { h } from "../views/dom.ts";
import type { Shared } from "./jupyter.ts";
import { hideStatic } from "./static.ts";

export interface View {
  readonly el: HTMLElement;
  readonly signal: AbortSignal;
  readonly shared: Shared;
}

/** `show` mounts a view, and gives what is to be done when the view goes. */
export function viewBundle(show: (view: View) => (shared: Shared) => void): (view: View) => void {
  return (view) => {
    const { el, signal, shared } = view;
    try {
      const release = show(view);
      hideStatic(el, signal);
      signal.addEventListener("abort", () => release(shared), { once: true });
    } catch (error) {
      el.replaceChildren(errorPanel(error));
      throw error;
    }
  };
}

function errorPanel(error: unknown): HTMLElement {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return h(
    "div",
    { style: "padding: 8px 12px; border-left: 3px solid #cf222e; font: 12px/1.5 sans-serif" },
    `This could not be drawn. ${text}`,
  );
}
