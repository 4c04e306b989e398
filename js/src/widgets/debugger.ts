/** The bundle that all debuggers of a page share. */
import { mountDebugger } from "../views/debugger.ts";
import { releaseUnseen, type Shared, sessionOf, type WidgetModel } from "./jupyter.ts";
import { type View, viewBundle } from "./view.ts";

/** Shows a debugger in an element. */
export const render = viewBundle((view: View) => {
  mountDebugger(view.el, sessionOf(view.shared), view.signal);
  return releaseUnseen;
});

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
