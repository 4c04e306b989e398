/** What is shown of a kernel: its code, and once it was counted its counters. */
import type { Counts } from "../protocol/types.ts";
import type { CellPanel } from "./cell.ts";
import type { CodeView } from "./code.ts";
import type { Context } from "./context.ts";
import { countersView } from "./counters.ts";
import { button, h } from "./dom.ts";

export interface Sheets {
  readonly el: HTMLElement;
  /** Shows counters, or takes them away. */
  show(counts: Counts | null): void;
}

type Sheet = "code" | "counters";

export function kernelSheets(context: Context, code: CodeView, cell: CellPanel): Sheets {
  let counts: Counts | null = null;
  /** What was counted before of the same kernel, on the same machine. */
  let before: Counts | null = null;
  const counters = countersView(context, (uop) => {
    if (!counts?.source?.length) return; // estimated for a GPU: there is no text of it
    open("code");
    code.chooseUop(uop);
  });
  const tabs = (["code", "counters"] as const).map((sheet) => {
    const label = sheet === "code" ? "Code" : "Counters";
    const made = button(label, `${label} of the kernel`, () => open(sheet), {
      class: "tl-tab-button",
      name: `sheet-${sheet}`,
    });
    made.setAttribute("role", "tab");
    return made;
  });
  const strip = h("div", { class: "tl-tabs tl-sheet-tabs", role: "tablist", hidden: "" }, ...tabs);
  const open = (sheet: Sheet): void => {
    code.el.hidden = sheet !== "code";
    counters.el.hidden = sheet !== "counters";
    for (const [i, name] of (["code", "counters"] as const).entries()) {
      tabs[i]!.setAttribute("aria-selected", String(name === sheet));
    }
  };
  const draw = (): void => {
    counters.show(counts, code.metric, before);
    cell.heat(counts?.cells ?? [], code.metric);
  };
  code.onMetric = draw;
  open("code");
  return {
    el: h("div", { class: "tl-sheets" }, strip, code.el, counters.el),
    show(next) {
      const isSame = next?.kernel === counts?.kernel && next?.target === counts?.target;
      before = isSame ? counts : null;
      counts = next;
      strip.hidden = next === null;
      draw();
      open(next === null ? "code" : "counters");
    },
  };
}
