/** The table of kernels. */
import { count, duration, rate } from "../base/text.ts";
import type { KernelInfo } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { scrollWithin, walk } from "./tree.ts";

/** Heading, what it means, and how wide it is. */
const COLUMNS: readonly (readonly [string, string, string])[] = [
  ["#", "Position in the schedule", "tl-num tl-col-number"],
  ["Kernel", "Its name, and why it is a kernel of its own", ""],
  ["Opts", "The optimisations it was compiled with", "tl-col-opts"],
  ["Time", "Median of its runs in the cell, and how many there were", "tl-num tl-col-time"],
  ["GFLOP/s", "Estimated operations by measured time", "tl-num tl-col-rate"],
  ["GB/s", "Estimated bytes by measured time", "tl-num tl-col-few"],
  ["Lines", "Lines of the cell that it computes", "tl-col-lines"],
];

/** Each kernel is a body of two rows: its figures, and why it exists. */
export function kernelTable({ session, signal }: Context): HTMLElement {
  const heads = COLUMNS.map(([name, title, look]) => h("th", { class: look, title }, name));
  const head = h("thead", {}, h("tr", {}, ...heads));
  const table = h("table", { class: "tl-table", "aria-label": "kernels" }, head);
  const scroller = h("div", { class: "tl-table-scroll" }, table);
  let rows = new Map<number, HTMLElement>();

  const build = (): void => {
    const kernels = session.state.now.overview?.kernels ?? [];
    const choose = (id: number): void => session.chooseKernel(id);
    rows = new Map(kernels.map((kernel, i) => [kernel.id, kernelRows(kernel, i, choose)]));
    const none = h(
      "td",
      { colspan: String(COLUMNS.length), class: "tl-hint" },
      "No kernel was made.",
    );
    table.replaceChildren(
      head,
      ...(rows.size > 0 ? rows.values() : [h("tbody", {}, h("tr", {}, none))]),
    );
    mark();
  };
  const mark = (): void => {
    const { kernel, marks, lines } = session.state.now;
    const lined = new Set(lines.length > 0 ? marks?.kernels : []);
    for (const [id, row] of rows) {
      row.classList.toggle("tl-here", id === kernel);
      row.classList.toggle("tl-lined", lined.has(id));
      row.setAttribute("aria-selected", String(id === kernel));
      row.tabIndex = id === kernel ? 0 : -1;
      if (id === kernel) scrollWithin(scroller, row);
    }
  };
  table.addEventListener("keydown", (event) => walk(table, event), { signal });
  session.state.watch(["overview"], build, signal);
  session.state.watch(["kernel", "marks", "lines"], mark, signal);
  return h("section", { class: "tl-panel tl-kernels" }, scroller);
}

function kernelRows(kernel: KernelInfo, i: number, choose: (id: number) => void): HTMLElement {
  const go = (): void => choose(kernel.id);
  const runs = kernel.runs > 1 ? h("span", { class: "tl-runs" }, ` ×${count(kernel.runs)}`) : null;
  const reason = kernel.error ?? kernel.reason;
  return h(
    "tbody",
    { class: "tl-kernel", tabindex: "-1", "data-kernel": kernel.id, on: { click: go, focus: go } },
    h(
      "tr",
      {},
      h("td", { class: "tl-num tl-faint" }, String(i)),
      h("td", { class: "tl-kernel-name", title: kernel.display }, kernel.display),
      h("td", { class: "tl-opts", title: kernel.opts.join(" ") }, kernel.opts.join(" ") || "none"),
      h(
        "td",
        { class: "tl-num", title: `${count(kernel.runs)} runs` },
        duration(kernel.elapsed_us),
        runs,
      ),
      h("td", { class: "tl-num" }, rate(kernel.gflops)),
      h("td", { class: "tl-num" }, rate(kernel.gbs)),
      h("td", {}, kernel.lines.join(", ") || "–"),
    ),
    h(
      "tr",
      { class: "tl-reason-row" },
      h("td"),
      h(
        "td",
        { colspan: String(COLUMNS.length - 1), class: "tl-reason", title: reason },
        kernel.method.length > 0 ? `${kernel.method.join(", ")} · ${reason}` : reason,
      ),
    ),
  );
}
