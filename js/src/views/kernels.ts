/** The table of kernels. */
import { count, duration, rate, work } from "../base/text.ts";
import type { KernelInfo } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { scrollWithin, walk } from "./tree.ts";

/** Heading, what it means, and its look. Numbers are as wide as they are; the name has the rest. */
const COLUMNS: readonly (readonly [string, string, string])[] = [
  ["#", "Position in the schedule", "tl-num"],
  ["Kernel", "Its name; under it its opts, and why it is a kernel of its own", "tl-col-name"],
  ["Time", "Median of its runs in the cell", "tl-num"],
  ["Runs", "How often it ran in the cell", "tl-num"],
  [
    "GFLOP/s",
    "Useful float operations by measured time; of a kernel without any, integer operations: Gop/s",
    "tl-num",
  ],
  ["GB/s", "Estimated bytes by measured time", "tl-num"],
  ["Lines", "Lines of the cell that it computes", ""],
];

/** Each kernel is a body of two rows: its figures, and why it exists. */
export function kernelTable({ session, signal }: Context): HTMLElement {
  const heads = COLUMNS.map(([name, title, look]) => h("th", { class: look, title }, name));
  const head = h("thead", {}, h("tr", {}, ...heads));
  const table = h("table", { class: "tl-table tl-kernel-table", "aria-label": "kernels" }, head);
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
  const reason = kernel.error ?? kernel.reason;
  const why = [kernel.method.join(", "), reason].filter(Boolean).join(" · ");
  const lines = kernel.lines.join(", ");
  const opts = kernel.opts.join(" ") || "no opts";
  return h(
    "tbody",
    { class: "tl-kernel", tabindex: "-1", "data-kernel": kernel.id, on: { click: go, focus: go } },
    h(
      "tr",
      {},
      h("td", { class: "tl-num tl-faint" }, String(i)),
      h("td", { class: "tl-kernel-name", title: kernel.display }, kernel.display),
      h("td", { class: "tl-num" }, duration(kernel.elapsed_us)),
      h("td", { class: "tl-num tl-faint" }, count(kernel.runs)),
      h("td", { class: "tl-num" }, work(kernel)),
      h("td", { class: "tl-num" }, rate(kernel.gbs)),
      h("td", { class: "tl-lines-of", title: lines }, lines || "–"),
    ),
    h(
      "tr",
      { class: "tl-reason-row" },
      h("td"),
      h(
        "td",
        { colspan: String(COLUMNS.length - 1), class: "tl-reason", title: `${opts}\n${why}` },
        h("span", { class: "tl-opts" }, opts),
        ` · ${why}`,
      ),
    ),
  );
}
