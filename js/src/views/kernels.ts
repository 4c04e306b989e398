/** The table of kernels. */
import { count, duration, rate, work } from "../base/text.ts";
import type { KernelInfo } from "../protocol/types.ts";
import type { Context, Sort } from "./context.ts";
import { h, onResize } from "./dom.ts";
import { splitter } from "./split.ts";
import { scrollWithin, walk } from "./tree.ts";

interface Column {
  readonly name: string;
  readonly what: string;
  readonly look: string;
  /** What it is sorted by; null comes last. */
  readonly value: (kernel: KernelInfo) => number | string | null;
}

const perSecond = (kernel: KernelInfo): number | null => kernel.gflops ?? kernel.gops ?? null;

/** Numbers are as wide as they are; the name has the rest. */
const COLUMNS: readonly Column[] = [
  { name: "#", what: "Position in the schedule", look: "tl-num", value: (kernel) => kernel.id },
  {
    name: "Kernel",
    what: "Its name; under it its opts, and why it is a kernel of its own",
    look: "tl-col-name",
    value: (kernel) => kernel.display,
  },
  {
    name: "Time",
    what: "Median of its runs in the cell",
    look: "tl-num",
    value: (kernel) => kernel.elapsed_us,
  },
  {
    name: "Runs",
    what: "How often it ran in the cell",
    look: "tl-num",
    value: (kernel) => kernel.runs,
  },
  {
    name: "GFLOP/s",
    what: "Useful float operations by measured time; of a kernel without any, integer operations: Gop/s",
    look: "tl-num",
    value: perSecond,
  },
  {
    name: "GB/s",
    what: "Estimated bytes by measured time",
    look: "tl-num",
    value: (kernel) => kernel.gbs,
  },
  {
    name: "Lines",
    what: "Lines of the cell that it computes",
    look: "",
    value: (kernel) => kernel.lines[0] ?? null,
  },
];
/** With more kernels than this the table has a line for each, and two for the chosen one. */
const COMPACT_FROM = 8;
const HEAD = 24;

/** Kernels as the table shows them; equal ones, and those of which nothing is known, by number. */
export function sortedKernels(kernels: readonly KernelInfo[], sort: Sort): KernelInfo[] {
  const column = COLUMNS.find((each) => each.name === sort.column) ?? COLUMNS[0]!;
  const sign = sort.down ? -1 : 1;
  return [...kernels].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === y) return a.id - b.id;
    if (x === null || y === null) return x === null ? 1 : -1;
    return x < y ? -sign : sign;
  });
}

/** Each kernel is a body of two rows: its figures, and why it exists. */
export function kernelTable({ session, view, root, signal }: Context): HTMLElement {
  const heads = COLUMNS.map((column) => heading(column, () => sortBy(column)));
  const head = h("thead", {}, h("tr", {}, ...heads));
  const table = h("table", { class: "tl-table tl-kernel-table", "aria-label": "kernels" }, head);
  const scroller = h("div", { class: "tl-table-scroll" }, table);
  let rows = new Map<number, HTMLElement>();

  const sortBy = ({ name, look }: Column): void => {
    const { sort } = view.now;
    // Of numbers one mostly looks for the largest.
    const first = look === "tl-num" && name !== "#";
    view.set({ sort: { column: name, down: sort.column === name ? !sort.down : first } });
  };
  const build = (): void => {
    const kernels = session.state.now.overview?.kernels ?? [];
    const choose = (id: number): void => session.chooseKernel(id);
    rows = new Map(kernels.map((kernel) => [kernel.id, kernelRows(kernel, choose)]));
    table.classList.toggle("tl-compact", kernels.length > COMPACT_FROM);
    arrange();
    showChosen();
  };
  const arrange = (): void => {
    const { sort } = view.now;
    COLUMNS.forEach(({ name }, i) => {
      const state = name === sort.column ? (sort.down ? "descending" : "ascending") : "none";
      heads[i]!.setAttribute("aria-sort", state);
    });
    const none = h(
      "td",
      { colspan: String(COLUMNS.length), class: "tl-hint" },
      "No kernel was made.",
    );
    const kernels = sortedKernels(session.state.now.overview?.kernels ?? [], sort);
    const bodies = kernels.map((kernel) => rows.get(kernel.id)!);
    table.replaceChildren(
      head,
      ...(bodies.length > 0 ? bodies : [h("tbody", {}, h("tr", {}, none))]),
    );
    mark();
    scroller.scrollTop = 0;
  };
  const mark = (): void => {
    const { kernel, marks, lines } = session.state.now;
    const lined = new Set(lines.length > 0 ? marks?.kernels : []);
    for (const [id, row] of rows) {
      row.classList.toggle("tl-here", id === kernel);
      row.classList.toggle("tl-lined", lined.has(id));
      row.setAttribute("aria-selected", String(id === kernel));
      row.tabIndex = id === kernel ? 0 : -1;
    }
  };
  const showChosen = (): void => {
    const row = rows.get(session.state.now.kernel ?? -1);
    if (row) scrollWithin(scroller, row, HEAD);
  };
  /** The first kernel that lines of the cell mark, unless one of them is in sight. */
  const showLined = (): void => {
    const lined = [...table.querySelectorAll<HTMLElement>(".tl-kernel.tl-lined")];
    const box = scroller.getBoundingClientRect();
    const isSeen = (row: HTMLElement): boolean => {
      const { top, bottom } = row.getBoundingClientRect();
      return top >= box.top + HEAD - 1 && bottom <= box.bottom + 1;
    };
    if (lined[0] && !lined.some(isSeen)) scrollWithin(scroller, lined[0], HEAD);
  };
  table.addEventListener("keydown", (event) => walk(table, event), { signal });
  session.state.watch(["overview"], build, signal);
  view.watch(["sort"], arrange, signal);
  session.state.watch(["kernel", "marks", "lines"], mark, signal);
  session.state.watch(["kernel"], showChosen, signal);
  session.state.watch(["marks"], showLined, signal);
  // What changed while the table was hidden is shown when it is not.
  let isHidden = true;
  const appear = (_width: number, height: number): void => {
    if (isHidden && height > 0) {
      showChosen();
      showLined();
    }
    isHidden = height === 0;
  };
  onResize(scroller, appear, signal);
  const el = h("section", { class: "tl-panel tl-kernels" }, scroller);
  const label = "Height of the table of kernels";
  el.append(splitter(root, el, { label, side: "bottom", property: "--tl-table", least: 90 }));
  return el;
}

function heading({ name, what, look }: Column, sort: () => void): HTMLElement {
  const title = `${what}. Click to sort by it`;
  const label = { type: "button", class: "tl-sort", title, "data-sort": name, on: { click: sort } };
  return h("th", { class: look, "aria-sort": "none" }, h("button", label, name));
}

function kernelRows(kernel: KernelInfo, choose: (id: number) => void): HTMLElement {
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
      h("td", { class: "tl-num tl-faint" }, String(kernel.id)),
      h(
        "td",
        { class: "tl-kernel-name", title: `${kernel.display}\n${opts}\n${why}` },
        kernel.display,
        h("span", { class: "tl-in-line" }, opts === "no opts" ? why : `${opts} · ${why}`),
      ),
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
