/** The bundle that all debuggers of a page share. */
import { mountDebugger } from "../views/debugger.ts";
import { h } from "../views/dom.ts";
import { releaseUnseen, type Shared, sessionOf, type WidgetModel } from "./jupyter.ts";
import { hideStatic } from "./static.ts";

interface View {
  readonly el: HTMLElement;
  readonly signal: AbortSignal;
  readonly shared: Shared;
}

/** Shows a debugger in an element; what goes wrong is shown there, not lost. */
export function render({ el, signal, shared }: View): void {
  try {
    mountDebugger(el, sessionOf(shared), signal);
    hideStatic(el, signal);
    signal.addEventListener("abort", () => releaseUnseen(shared), { once: true });
  } catch (error) {
    el.replaceChildren(errorPanel(error));
    throw error;
  }
}

const known = new WeakMap<WidgetModel, Shared>();

/** The widget as one module, for pages that have no loader: a report brings its own model. */
export default {
  render({
    model,
    el,
    signal,
  }: {
    model: WidgetModel;
    el: HTMLElement;
    signal: AbortSignal;
  }): void {
    let shared = known.get(model);
    if (!shared) {
      shared = { model };
      known.set(model, shared);
    }
    render({ el, signal, shared });
  },
};

function errorPanel(error: unknown): HTMLElement {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return h(
    "div",
    { style: "padding: 8px 12px; border-left: 3px solid #cf222e; font: 12px/1.5 sans-serif" },
    `The debugger could not be drawn. ${text}`,
  );
}
