/** The help: every key, and what the colours and the views mean. */
import { type Command, keysText } from "./bind.ts";
import { button, h } from "./dom.ts";
import type { Framed } from "./frame.ts";

/** Remarks of a help: a name, and what is to be said about it. */
export type Notes = readonly (readonly [string, string])[];

export function helpPanel(
  { root, view, signal }: Framed,
  commands: readonly Command[],
  notes: Notes,
): HTMLElement {
  const groups = [...new Set(commands.map((command) => command.group))];
  const close = button("×", "Close the help (Esc)", () => view.set({ help: false }), {
    name: "close-help",
  });
  const el = h(
    "div",
    { class: "tl-help", role: "dialog", "aria-label": "help", hidden: true },
    h("header", { class: "tl-head" }, h("h3", {}, "Keys and meanings"), close),
    h(
      "div",
      { class: "tl-help-body" },
      ...groups.map((group) =>
        h(
          "section",
          {},
          h("h4", {}, group),
          h(
            "dl",
            { class: "tl-keys" },
            ...commands
              .filter((command) => command.group === group)
              .flatMap((command) => [
                h("dt", {}, ...keysText(command).map((key) => h("span", { class: "tl-key" }, key))),
                h("dd", {}, command.what),
              ]),
          ),
        ),
      ),
      h(
        "section",
        { class: "tl-notes" },
        ...notes.map(([name, text]) => h("p", {}, h("b", {}, name), ` ${text}`)),
      ),
    ),
  );
  let returnTo: HTMLElement | null = null;
  const look = (): void => {
    const opens = view.now.help && el.hidden;
    el.hidden = !view.now.help;
    if (opens) {
      returnTo = (root.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
      close.focus({ preventScroll: true });
    } else if (returnTo) {
      returnTo.focus({ preventScroll: true });
      returnTo = null;
    }
  };
  view.watch(["help"], look, signal);
  return el;
}
