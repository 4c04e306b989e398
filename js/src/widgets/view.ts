/** What the bundles share: one view shown in an element, with what goes wrong said there. */
import type { Link } from "../protocol/client.ts";
import { h } from "../views/dom.ts";
import type { Shared } from "./jupyter.ts";
import { hideStatic } from "./static.ts";

export interface View {
  readonly el: HTMLElement;
  readonly signal: AbortSignal;
  readonly shared: Shared;
}

/** A kind of view: what is shown of it, and what it leaves. */
export interface Kind<S> {
  /** The session of a model: the same for all its views. */
  readonly of: (shared: Shared) => S;
  readonly mount: (el: HTMLElement, session: S, signal: AbortSignal) => void;
  /** Whether what is here without a kernel is worth a view. */
  readonly standsAlone: (session: S) => boolean;
  /** When no view is left, what the model holds is let go. */
  readonly release: (shared: Shared) => void;
}

/** A session, as far as its way to the kernel goes. */
interface Linked {
  readonly state: {
    readonly now: { readonly link: Link };
    watch(keys: readonly "link"[], tell: () => void, signal: AbortSignal): void;
  };
}

/** Shows one view of a kind. */
export function show<S extends Linked>(kind: Kind<S>, { el, signal, shared }: View): void {
  try {
    const session = kind.of(shared);
    if (session.state.now.link === "gone" && !kind.standsAlone(session)) {
      el.replaceChildren(note("var(--jp-border-color1, #8c959f)", KEPT));
      return;
    }
    kind.mount(el, session, signal);
    hideStatic(el, whileLive(session, signal));
    signal.addEventListener("abort", () => kind.release(shared), { once: true });
  } catch (error) {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    el.replaceChildren(note("#cf222e", `This could not be drawn. ${text}`));
    throw error;
  }
}

const KEPT =
  "The kernel of this view has gone: what the notebook keeps of it follows. Run the cell again for a live view.";

/** A signal that aborts when a view goes, or the kernel behind it. */
function whileLive({ state }: Linked, signal: AbortSignal): AbortSignal {
  const end = new AbortController();
  signal.addEventListener("abort", () => end.abort(), { once: true });
  const look = (): void => {
    if (state.now.link === "gone") end.abort();
  };
  state.watch(["link"], look, end.signal);
  return end.signal;
}

function note(colour: string, text: string): HTMLElement {
  const look = `padding: 4px 10px; border-left: 3px solid ${colour}; font: 12px/1.5 var(--jp-ui-font-family, sans-serif)`;
  return h("div", { class: "tinylab-note", style: look }, text);
}
