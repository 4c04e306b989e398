/** The cell's text. A line marks what descends from it; a kernel or a node marks its lines. */
import { compact, lineMetric, type Metric } from "../protocol/counts.ts";
import type { CellCounts } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { button, h } from "./dom.ts";
import { scrollWithin, walk } from "./tree.ts";

export interface CellPanel {
  readonly el: HTMLElement;
  /** Marks lines with what a kernel that was counted did for them; none takes the marks away. */
  heat(counts: readonly CellCounts[], metric: Metric): void;
}

export function cellPanel({ session, signal }: Context): CellPanel {
  const list = h("div", {
    class: "tl-cell",
    role: "listbox",
    "aria-label": "lines of the cell",
    "aria-multiselectable": "true",
  });
  const clear = button("clear", "Clear the chosen lines (Esc)", () => void session.chooseLines([]));
  clear.classList.add("tl-quiet");
  let rows: HTMLElement[] = [];

  const choose = (line: number, more: boolean): void => {
    const now = session.state.now.lines;
    const has = now.includes(line);
    const next = more
      ? has
        ? now.filter((each) => each !== line)
        : [...now, line]
      : has && now.length === 1
        ? []
        : [line];
    void session.chooseLines(next);
  };

  const build = (): void => {
    const text = session.state.now.overview?.cell.text ?? "";
    rows = text
      .trimEnd()
      .split("\n")
      .map((line, i) =>
        h(
          "div",
          {
            class: "tl-cell-line",
            role: "option",
            tabindex: i === 0 ? "0" : "-1",
            title:
              `${line.trim()}\nClick: mark what descends from this line (with Control: from several)`.trim(),
            on: {
              click: (event: MouseEvent) =>
                choose(i + 1, event.ctrlKey || event.metaKey || event.shiftKey),
              keydown: (event: KeyboardEvent) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                event.stopPropagation();
                choose(i + 1, event.ctrlKey || event.shiftKey);
              },
            },
          },
          h("span", { class: "tl-line-number" }, String(i + 1)),
          h("span", { class: "tl-cell-text" }, line || " "),
        ),
      );
    list.replaceChildren(...rows);
    mark();
  };

  const mark = (): void => {
    const { lines, overview, kernel, node, origin, shown } = session.state.now;
    const chosen = new Set(lines);
    // The same node may descend from other lines in another pass: the origin knows.
    const source = node === null ? undefined : (origin ?? shown?.nodes.get(node))?.lines;
    const related = new Set(source ?? overview?.kernels.find((each) => each.id === kernel)?.lines);
    rows.forEach((row, i) => {
      row.classList.toggle("tl-chosen", chosen.has(i + 1));
      row.classList.toggle("tl-related", related.has(i + 1));
      row.setAttribute("aria-selected", String(chosen.has(i + 1)));
    });
    const first = rows.find((row) => row.classList.contains("tl-related"));
    if (first && lines.length === 0) scrollWithin(list, first);
    clear.hidden = lines.length === 0;
  };

  const heat = (counts: readonly CellCounts[], metric: Metric): void => {
    for (const old of list.querySelectorAll(".tl-heat-mark")) old.remove();
    const most = Math.max(1, ...counts.map((each) => lineMetric(each, metric)));
    for (const each of counts) {
      const value = lineMetric(each, metric);
      const what = `${compact(value)} ${metric} of the kernel that was counted`;
      const found = h("span", { class: "tl-heat tl-heat-mark", title: what }, compact(value));
      found.style.setProperty("--heat", `${Math.round((100 * value) / most)}%`);
      rows[each.line - 1]?.append(found);
    }
  };

  list.addEventListener("keydown", (event) => walk(list, event), { signal });
  session.state.watch(["overview"], build, signal);
  session.state.watch(["lines", "kernel", "node", "origin", "shown"], mark, signal);
  const head = h("header", { class: "tl-head" }, h("h3", {}, "Cell"), clear);
  return { el: h("section", { class: "tl-panel tl-cell-panel" }, head, list), heat };
}
