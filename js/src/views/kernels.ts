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
  ["Time", "Median of its runs in the cell", "tl-num tl-col-time"],
  ["Runs", "How often it ran", "tl-num tl-col-few"],
  ["GFLOP/s", "Estimated operations by measured time", "tl-num tl-col-rate"],
  ["GB/s", "Estimated bytes by measured time", "tl-num tl-col-few"],
  ["Lines", "Lines of the cell that it computes", "tl-col-lines"],
];

export function kernelTable({ session, signal }: Context): HTMLElement {
  const body = h("tbody");
  const table = h(
    "table",
    { class: "tl-table", "aria-label": "kernels" },
    h(
      "thead",
      {},
      h("tr", {}, ...COLUMNS.map(([name, title, look]) => h("th", { class: look, title }, name))),
    ),
    body,
  );
  const scroller = h("div", { class: "tl-table-scroll" }, table);
  let rows = new Map<number, HTMLElement>();

  const build = (): void => {
    const kernels = session.state.now.overview?.kernels ?? [];
    rows = new Map(
      kernels.map((kernel, i) => [
        kernel.id,
        kernelRow(kernel, i, session.chooseKernel.bind(session)),
      ]),
    );
    const empty = h(
      "tr",
      {},
      h("td", { colspan: String(COLUMNS.length), class: "tl-hint" }, "No kernel was made."),
    );
    body.replaceChildren(...(rows.size > 0 ? rows.values() : [empty]));
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
  body.addEventListener("keydown", (event) => walk(body, event), { signal });
  session.state.watch(["overview"], build, signal);
  session.state.watch(["kernel", "marks", "lines"], mark, signal);
  return h("section", { class: "tl-panel tl-kernels" }, scroller);
}

function kernelRow(kernel: KernelInfo, i: number, choose: (id: number) => void): HTMLElement {
  const go = (): void => choose(kernel.id);
  return h(
    "tr",
    {
      class: "tl-kernel",
      tabindex: "-1",
      "data-kernel": kernel.id,
      on: {
        click: go,
        focus: go,
      },
    },
    h("td", { class: "tl-num tl-faint" }, String(i)),
    h(
      "td",
      { title: kernel.reason },
      h("div", { class: "tl-kernel-name" }, kernel.display),
      h("div", { class: "tl-reason" }, kernel.error ?? kernel.reason),
    ),
    h("td", { class: "tl-opts", title: kernel.opts.join(" ") }, kernel.opts.join(" ") || "none"),
    h("td", { class: "tl-num" }, duration(kernel.elapsed_us)),
    h("td", { class: "tl-num" }, count(kernel.runs)),
    h("td", { class: "tl-num" }, rate(kernel.gflops)),
    h("td", { class: "tl-num" }, rate(kernel.gbs)),
    h("td", { class: "tl-lines-cell" }, kernel.lines.join(", ") || "–"),
  );
}
