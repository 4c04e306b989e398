/** The help: every key, and what the colours and the views mean. */
import { type Command, keysText } from "./bind.ts";
import { button, h } from "./dom.ts";

/** Remarks of a help: a name, and what is to be said about it. */
export type Notes = readonly (readonly [string, string])[];

/** Whether the help is open: the view's own state. */
export interface HelpSwitch {
  readonly isOpen: () => boolean;
  readonly close: () => void;
  /** Calls back now and after each change. */
  readonly watch: (tell: () => void) => void;
}

export function helpPanel(
  root: HTMLElement,
  help: HelpSwitch,
  commands: readonly Command[],
  notes: Notes,
): HTMLElement {
  const groups = [...new Set(commands.map((command) => command.group))];
  const close = button("×", "Close the help (Esc)", help.close, { name: "close-help" });
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
  help.watch(() => {
    const opens = help.isOpen() && el.hidden;
    el.hidden = !help.isOpen();
    if (opens) {
      returnTo = (root.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
      close.focus({ preventScroll: true });
    } else if (returnTo) {
      returnTo.focus({ preventScroll: true });
      returnTo = null;
    }
  });
  return el;
}
