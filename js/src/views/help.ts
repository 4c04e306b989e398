/** The help: every key, and what the colours and the views mean. */
import { type Command, keysText } from "./commands.ts";
import type { Context } from "./context.ts";
import { button, h } from "./dom.ts";

const NOTES: readonly (readonly [string, string])[] = [
  [
    "Views",
    "All views of one record stand at the same step and share what is chosen. Zoom, form and tab are each view's own.",
  ],
  [
    "Colours",
    "The bar at the left of a node is its kind. Green: made by this step. Red, dashed: removed by it. The green arrow leads from the node before to the node after. Ochre frames descend from the chosen lines of the cell.",
  ],
  [
    "Pointer",
    "Drag to move. With the focus in the widget the wheel zooms; elsewhere it scrolls the notebook, and Ctrl with the wheel zooms. A double click opens the surroundings in a folded graph.",
  ],
  [
    "Counters",
    "Count runs the kernel with the opts of the editor once more, built to count itself. Measured: by the processor and the system. Counted: by the kernel, the same on every machine; misses are those of a model of the caches. Estimated: from the graph, for a GPU that is not here. Heat is a line's share of the largest figure.",
  ],
  [
    "Times",
    "Times of passes include recording. Kernel times are measured; GFLOP/s counts the kernel's useful float operations, whatever its opts add, and GB/s estimated bytes, by measured time.",
  ],
];

export function helpPanel(
  { view, root, signal }: Context,
  commands: readonly Command[],
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
        ...NOTES.map(([name, text]) => h("p", {}, h("b", {}, name), ` ${text}`)),
      ),
    ),
  );
  let returnTo: HTMLElement | null = null;
  view.watch(
    ["help"],
    () => {
      const opens = view.now.help && el.hidden;
      el.hidden = !view.now.help;
      if (opens) {
        returnTo = (root.getRootNode() as Document | ShadowRoot)
          .activeElement as HTMLElement | null;
        close.focus({ preventScroll: true });
      } else if (returnTo) {
        returnTo.focus({ preventScroll: true });
        returnTo = null;
      }
    },
    signal,
  );
  return el;
}
