/** Source and assembly of a kernel side by side; a line on one side marks its lines on the other. */

import { plural } from "../base/text.ts";
import { compact, type Heat, heatOf, METRICS, type Metric } from "../protocol/counts.ts";
import type { AssemblyLine, SourceLine, UopCounts } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h, setText } from "./dom.ts";
import { type Lines, lineList } from "./lines.ts";

const ROW = 17;

export interface Code {
  readonly source: readonly SourceLine[];
  readonly assembly: readonly AssemblyLine[];
  readonly language: string;
}

export interface CodeView {
  readonly el: HTMLElement;
  /** Shows code; with what was counted of its uops, heat stands beside its lines. */
  show(code: Code | null, counts?: readonly UopCounts[]): void;
  /** Chooses the first line of a uop. */
  chooseUop(uop: number): void;
  /** What heat stands for, and to be told when it changes. */
  metric: Metric;
  onMetric: (metric: Metric) => void;
}

export function codeView({ session, signal }: Context): CodeView {
  const left = lineList(ROW, "tl-code", signal);
  const right = lineList(ROW, "tl-code", signal);
  const leftTitle = h("h3", {}, "Source");
  const rightTitle = h("h3", {}, "Assembly");
  const leftCount = h("span", { class: "tl-quiet-text" });
  const rightCount = h("span", { class: "tl-quiet-text" });
  let code: Code | null = null;
  let counts: readonly UopCounts[] = [];
  let heat: ReadonlyMap<number, Heat> = new Map();
  const metrics = h(
    "select",
    {
      class: "tl-field tl-metric",
      "aria-label": "what heat stands for",
      "data-name": "metric",
      on: { change: () => setMetric(metrics.value as Metric) },
    },
    ...METRICS.map((name) => h("option", { value: name }, name)),
  );
  const setMetric = (next: Metric): void => {
    made.metric = next;
    metrics.value = next;
    heat = heatOf(counts, next);
    refresh();
    made.onMetric(next);
  };
  /** The chosen line of the source, from either side. */
  let line: number | null = null;
  let keepsNode = false;

  const chosenLines = (): ReadonlySet<number> => new Set(session.state.now.lines);
  const choose = (next: number | null, scroll: Lines | null): void => {
    line = next === line ? null : next;
    const node = line === null ? null : (code?.source[line]?.node ?? null);
    keepsNode = true;
    if (node !== null) session.choose(node);
    keepsNode = false;
    refresh();
    if (line !== null) follow(line, scroll);
  };
  /** Brings the chosen line's counterpart into sight. */
  const follow = (chosen: number, scroll: Lines | null): void => {
    if (scroll === left) left.scrollTo(chosen);
    const first = code?.assembly.findIndex((each) => each.source_line === chosen) ?? -1;
    if (scroll === right && first >= 0) right.scrollTo(first);
  };
  const refresh = (): void => {
    left.refresh();
    right.refresh();
  };

  const sourceRow = (i: number): HTMLElement => {
    const row = code!.source[i]!;
    const marks = row.lines.some((each) => chosenLines().has(each)) ? " tl-lined" : "";
    return codeRow(
      i + 1,
      row.text,
      `${i === line ? " tl-chosen" : ""}${marks}`,
      lineTitle(row.lines),
      () => choose(i, right),
      heatMark(row.uop, counts.length > 0, heat, made.metric),
    );
  };
  const assemblyRow = (i: number): HTMLElement => {
    const row = code!.assembly[i]!;
    const linked = row.source_line !== null && row.source_line === line ? " tl-chosen" : "";
    const from = row.source_line === null ? undefined : code!.source[row.source_line];
    const marks = from?.lines.some((each) => chosenLines().has(each)) ? " tl-lined" : "";
    return codeRow(
      i + 1,
      tidyAssembly(row.text),
      `${linked}${marks}`,
      lineTitle(from?.lines ?? []),
      () => row.source_line !== null && choose(row.source_line, left),
    );
  };

  const walkCode = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || !code) return;
    event.preventDefault();
    event.stopPropagation();
    const next = line === null ? 0 : line + step;
    if (next < 0 || next >= code.source.length) return;
    choose(next, right);
    left.scrollTo(next);
  };
  left.el.addEventListener("keydown", walkCode, { signal });
  session.state.watch(["lines"], refresh, signal);
  session.state.watch(
    ["node"],
    () => {
      const { node } = session.state.now;
      if (keepsNode || node === null || !code) return;
      const found = code.source.findIndex((row) => row.node === node);
      if (found < 0) return;
      line = found;
      refresh();
      left.scrollTo(found);
    },
    signal,
  );

  const made: CodeView = {
    metric: "operations",
    onMetric: () => {},
    chooseUop(uop) {
      const found = code?.source.findIndex((row) => row.uop === uop) ?? -1;
      if (found < 0) return;
      if (found !== line) choose(found, right);
      left.scrollTo(found);
    },
    el: h(
      "div",
      { class: "tl-code-pair" },
      h(
        "section",
        { class: "tl-panel" },
        h("header", { class: "tl-head" }, leftTitle, metrics, leftCount),
        left.el,
      ),
      h(
        "section",
        { class: "tl-panel" },
        h("header", { class: "tl-head" }, rightTitle, rightCount),
        right.el,
      ),
    ),
    show(next, uops = []) {
      code = next;
      line = null;
      counts = uops;
      heat = heatOf(uops, made.metric);
      metrics.value = made.metric;
      metrics.hidden = uops.length === 0;
      setText(leftTitle, next?.language ? `Source · ${languageName(next.language)}` : "Source");
      const none = session.state.now.link === "gone" ? "not loaded" : "";
      setText(leftCount, next ? plural(next.source.length, "line") : none);
      setText(rightCount, next ? plural(next.assembly.length, "line") : none);
      left.show(next?.source.length ?? 0, sourceRow);
      right.show(next?.assembly.length ?? 0, assemblyRow);
    },
  };
  metrics.hidden = true;
  return made;
}

/** The margin of a line that was counted: a bar, and the number. */
function heatMark(
  uop: number | null | undefined,
  isShown: boolean,
  heat: ReadonlyMap<number, Heat>,
  metric: Metric,
): HTMLElement | null {
  if (!isShown) return null;
  const found = uop === null || uop === undefined ? undefined : heat.get(uop);
  const text = found && found.value > 0 ? compact(found.value) : "";
  const mark = h(
    "span",
    { class: "tl-heat tl-heat-mark", title: text && `${text} ${metric}` },
    text,
  );
  mark.style.setProperty("--heat", `${Math.round((found?.share ?? 0) * 100)}%`);
  return mark;
}

function codeRow(
  number: number,
  text: string,
  look: string,
  title: string,
  click: () => void,
  mark: HTMLElement | null = null,
): HTMLElement {
  return h(
    "div",
    { class: `tl-code-line${look}`, title, on: { click } },
    h("span", { class: "tl-line-number" }, String(number)),
    mark,
    h("span", {}, text || " "),
  );
}

function lineTitle(lines: readonly number[]): string {
  return lines.length > 0 ? `from line ${lines.join(", ")} of the cell` : "";
}

function languageName(language: string): string {
  const names: Readonly<Record<string, string>> = {
    llvm: "LLVM IR",
    llvmir: "LLVM IR",
    python: "uops",
  };
  return names[language] ?? language;
}

/** "        movq    (%rdx), %rdx" -> "  movq         (%rdx), %rdx": less of the width is blank. */
export function tidyAssembly(text: string): string {
  const parts = /^\s+(\S+)\s*(.*)$/.exec(text);
  if (!parts) return text;
  return `  ${parts[1]!.padEnd(12)} ${parts[2]!.replace(/\s+/g, " ")}`.trimEnd();
}
