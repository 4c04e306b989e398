/** Borders between the parts of a view that one can move, with the pointer or with arrow keys. */
import { h } from "./dom.ts";

export interface Split {
  /** What it resizes, in words. */
  readonly label: string;
  /** On which side of the panel it lies; dragging away from the panel makes that larger. */
  readonly side: "left" | "right" | "bottom";
  /** The custom property of the root that holds the size. */
  readonly property: string;
  readonly least: number;
}

const KEY_PIXELS = 16;
/** How much of the view a panel may take. */
const MOST = 0.7;
const STEPS = {
  left: { ArrowLeft: 1, ArrowRight: -1 },
  right: { ArrowRight: 1, ArrowLeft: -1 },
  bottom: { ArrowDown: 1, ArrowUp: -1 },
} as const;

const KEY = Symbol.for("tinylab.splits.v1");

/** The sizes that were chosen on this page: a cell that runs again makes a new view. */
function sizes(): Map<string, number> {
  const page = globalThis as { [KEY]?: Map<string, number> };
  page[KEY] ??= new Map();
  return page[KEY];
}

/** A border of a panel. It lies in the panel, which must be positioned. */
export function splitter(root: HTMLElement, panel: HTMLElement, split: Split): HTMLElement {
  const { side, property, least, label } = split;
  const tall = side === "bottom";
  const size = (box: Element): number =>
    tall ? box.getBoundingClientRect().height : box.getBoundingClientRect().width;
  const set = (wanted: number): void => {
    const most = Math.max(least, MOST * size(root));
    const now = Math.round(Math.min(most, Math.max(least, wanted)));
    root.style.setProperty(property, `${now}px`);
    bar.setAttribute("aria-valuenow", String(now));
    bar.setAttribute("aria-valuemax", String(Math.round(most)));
    sizes().set(property, now);
  };
  const reset = (): void => {
    root.style.removeProperty(property);
    sizes().delete(property);
    bar.setAttribute("aria-valuenow", String(Math.round(size(panel))));
  };
  const drag = (down: PointerEvent): void => {
    if (down.button !== 0) return;
    down.preventDefault();
    bar.focus({ preventScroll: true });
    bar.setPointerCapture(down.pointerId);
    const start = size(panel);
    const move = (event: PointerEvent): void => {
      const [right, below] = [event.clientX - down.clientX, event.clientY - down.clientY];
      set(start + (tall ? below : side === "right" ? right : -right));
    };
    const end = new AbortController();
    bar.addEventListener("pointermove", move, { signal: end.signal });
    for (const over of ["pointerup", "pointercancel"]) {
      bar.addEventListener(over, () => end.abort(), { signal: end.signal });
    }
  };
  const key = (event: KeyboardEvent): void => {
    const steps: { readonly [key: string]: number } = STEPS[side];
    const step = steps[event.key];
    const plain = !(event.altKey || event.ctrlKey || event.metaKey);
    if (event.key === "Enter") reset();
    else if (step !== undefined && plain) set(size(panel) + step * KEY_PIXELS);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const known = sizes().get(property);
  if (known !== undefined) root.style.setProperty(property, `${known}px`);
  const bar = h("div", {
    class: `tl-split tl-split-${side}`,
    role: "separator",
    tabindex: "0",
    "aria-label": label,
    "aria-orientation": tall ? "horizontal" : "vertical",
    "aria-valuemin": least,
    "aria-valuenow": least,
    "data-name": `split${property.slice("--tl".length)}`,
    title: `${label}: drag, or arrow keys; a double click, or Enter, gives it its own size back`,
    on: { pointerdown: drag, keydown: key, dblclick: reset },
  });
  return bar;
}

/** A panel at the side, which scrolls, with a border that moves. */
export function sidePanel(
  root: HTMLElement,
  look: string,
  split: Split,
  ...children: HTMLElement[]
): { readonly el: HTMLElement; readonly scroller: HTMLElement } {
  const scroller = h("div", { class: "tl-side-scroll" }, ...children);
  const el = h("div", { class: `tl-side ${look}`.trim() }, scroller);
  el.append(splitter(root, el, split));
  return { el, scroller };
}
