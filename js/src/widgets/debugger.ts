/** The bundle that all debuggers of a page share. */
import type { Session } from "../protocol/session.ts";
import { mountDebugger } from "../views/debugger.ts";
import { releaseUnseen, type Shared, sessionOf, type WidgetModel } from "./jupyter.ts";
import { type Kind, show, type View } from "./view.ts";

const debuggers: Kind<Session> = {
  of: sessionOf,
  mount: mountDebugger,
  // The step that was shown last: without one there is no graph, and nothing to go to.
  standsAlone: (session) => session.state.now.shown !== null,
  release: releaseUnseen,
};

/** Shows a debugger in an element. */
export const render = (view: View): void => show(debuggers, view);

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
