/** Making elements. Text only ever goes in as text: nothing here parses HTML. */

type Child = Node | string | null | undefined | false;

interface Attributes {
  readonly class?: string;
  readonly title?: string;
  readonly text?: string;
  readonly on?: { readonly [event: string]: (event: never) => void };
  readonly [attribute: string]: unknown;
}

/** h("button", { class: "tl-button", on: { click } }, "Run") */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = String(value);
    else if (name === "text") element.textContent = String(value);
    else if (name === "on") listen(element, value as Record<string, (event: never) => void>);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return element;
}

/** An SVG element: s("circle", { r: 4 }) */
export function s(
  tag: string,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: (Node | string)[]
): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function listen(element: HTMLElement, handlers: Record<string, (event: never) => void>): void {
  for (const [event, handler] of Object.entries(handlers)) {
    element.addEventListener(event, handler as EventListener);
  }
}

/** A button with a key hint in its tooltip. */
export function button(
  label: string,
  title: string,
  click: () => void,
  more: { readonly class?: string; readonly name?: string } = {},
): HTMLButtonElement {
  return h(
    "button",
    {
      type: "button",
      class: `tl-button ${more.class ?? ""}`.trim(),
      title,
      "aria-label": title,
      "data-name": more.name,
      on: { click },
    },
    label,
  );
}

/** Sets text only where it differs, so that screen readers are not told the same twice. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A text with the parts that match a query marked. */
export function highlighted(text: string, query: string): (Node | string)[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const low = text.toLowerCase();
  const word = words.find((each) => low.includes(each));
  if (!word) return [text];
  const at = low.indexOf(word);
  return [
    text.slice(0, at),
    h("mark", { class: "tl-hit" }, text.slice(at, at + word.length)),
    text.slice(at + word.length),
  ];
}

/** Calls back at the next frame, once however often it is asked for. */
export function perFrame(draw: () => void, signal: AbortSignal): () => void {
  let asked = 0;
  signal.addEventListener("abort", () => cancelAnimationFrame(asked), { once: true });
  return () => {
    if (asked || signal.aborted) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
}

/** Tells when an element's size changes; it starts with the size it has when it is attached. */
export function onResize(
  element: Element,
  tell: (width: number, height: number) => void,
  signal: AbortSignal,
): void {
  const observer = new ResizeObserver((entries) => {
    const box = entries[entries.length - 1]!.contentRect;
    tell(box.width, box.height);
  });
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

/** The focused element, also inside a shadow root. */
export function focusedIn(root: HTMLElement): HTMLElement | null {
  const focused = (root.getRootNode() as Document | ShadowRoot).activeElement;
  return focused && root.contains(focused) ? (focused as HTMLElement) : null;
}

/**
 * Keeps the focus in a view when the focused element is taken away, disabled, or hidden with all
 * that is around it.
 *
 * Without focus the next key would go to the notebook: "dd" would delete the cell.
 */
export function guardFocus(root: HTMLElement, signal: AbortSignal): void {
  const guard = (): void => {
    const had = focusedIn(root);
    if (had) watch(had);
  };
  const watch = (had: HTMLElement): void => {
    requestAnimationFrame(() => {
      const lost = !had.isConnected || had.matches(":disabled") || !had.checkVisibility();
      const nobody = document.activeElement === null || document.activeElement === document.body;
      if (lost && (nobody || focusedIn(root) === had)) root.focus({ preventScroll: true });
    });
  };
  root.addEventListener("click", guard, { signal, capture: true });
  root.addEventListener("keydown", guard, { signal, capture: true });
  // What an answer hides later, no key and no click tells of.
  root.addEventListener("focusout", (event) => watch(event.target as HTMLElement), { signal });
}
