/** Counters of a kernel: figures, caches, buffers, loops, the program's uops with heat, a roofline. */

import { bytes, count, digits } from "../base/text.ts";
import { compact, heatOf, isCounted, type Metric, metricOf } from "../protocol/counts.ts";
import { optText } from "../protocol/opts.ts";
import type { Counts, LevelCounts, UopCounts } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { rooflineView } from "./roofline.ts";

export interface CountersView {
  readonly el: HTMLElement;
  /** Shows counters, beside those of the count before, if there was one. */
  show(counts: Counts | null, metric: Metric, before: Counts | null): void;
}

/** `choose` is called with the uop that is clicked. */
export function countersView(_context: Context, choose: (uop: number) => void): CountersView {
  const columns = h("div", { class: "tl-counter-columns" });
  const el = h("div", { class: "tl-counters", tabindex: "0", "aria-label": "counters" }, columns);
  let shown: Counts | null = null;
  return {
    el,
    show(counts, metric, before) {
      if (counts !== shown) el.scrollTop = 0;
      shown = counts;
      if (!isCounted(counts)) {
        columns.replaceChildren();
        return;
      }
      const chosen = counts.opts.map(optText).join(" ") || "no opts";
      const opts = counts.target ? `${counts.target} · ${chosen}` : chosen;
      columns.replaceChildren(
        counts.roofline ? part(`Roofline · ${opts}`, rooflineView(counts.roofline)) : "",
        part(
          `Figures · ${opts}`,
          figures(counts, before),
          ...(counts.notes ?? []).map((note) => h("p", { class: "tl-hint" }, note)),
        ),
        counts.levels?.length
          ? part(titled("Caches", counts), levels(counts.levels, before?.levels ?? []))
          : "",
        part(titled("Buffers", counts), buffers(counts)),
        part(titled("Loops", counts), loops(counts)),
        cells(counts),
        part(titled("Uops", counts), uops(counts.uops ?? [], metric, choose)),
      );
    },
  };
}

function part(title: string | Node, ...children: (Node | string)[]): HTMLElement {
  return h("section", { class: "tl-counter-part" }, h("h4", {}, title), ...children);
}

/** The heading of a table, all of whose figures come from the same place. */
function titled(text: string, { kind = "counted" }: Counts): Node {
  const found = document.createDocumentFragment();
  found.append(`${text} `, label(kind));
  return found;
}

interface Column {
  readonly name: string;
  readonly number?: boolean;
}

function table(
  label: string,
  columns: readonly (string | Column)[],
  rows: readonly HTMLElement[],
): HTMLElement {
  const heads = columns.map((column) => {
    const { name, number = true } = typeof column === "string" ? { name: column } : column;
    return h("th", { class: number ? "tl-num" : "" }, name);
  });
  return h(
    "table",
    { class: "tl-table tl-counter-table", "aria-label": label },
    h("thead", {}, h("tr", {}, ...heads)),
    h("tbody", {}, ...rows),
  );
}

function cell(text: string, look = "tl-num", title?: string): HTMLElement {
  return h("td", { class: look, title }, text);
}

const LEFT = { number: false };

/** All but those that the table of caches holds. */
function figures(counts: Counts, before: Counts | null): HTMLElement {
  const old = new Map((before?.figures ?? []).map((figure) => [figure.name, figure.value]));
  const inCaches = (counts.levels ?? []).flatMap(({ name }) => [`${name} hits`, `${name} misses`]);
  const rows = (counts.figures ?? []).filter((figure) => !inCaches.includes(figure.name));
  return table(
    "figures",
    [
      { name: "Figure", ...LEFT },
      ...(before ? ["Before"] : []),
      "Value",
      { name: "", ...LEFT },
      { name: "", ...LEFT },
    ],
    rows.map((figure) =>
      h(
        "tr",
        { title: [figure.name, figure.note].filter(Boolean).join(": ") },
        cell(figure.name, ""),
        before ? cell(written(old.get(figure.name)), "tl-num tl-faint") : null,
        cell(written(figure.value)),
        cell(figure.unit, "tl-faint"),
        h("td", {}, label(figure.kind)),
      ),
    ),
  );
}

/** Where a number comes from: never shown as another. */
export function label(kind: string): HTMLElement {
  return h("span", { class: `tl-figure-kind tl-figure-${kind}` }, kind);
}

function written(value: number | undefined): string {
  if (value === undefined) return "–";
  return Number.isInteger(value) ? count(value) : digits(value);
}

function levels(rows: readonly LevelCounts[], old: readonly LevelCounts[]): HTMLElement {
  const hasOld = old.length > 0;
  return table(
    "caches",
    [
      { name: "Level", ...LEFT },
      "Size",
      "Ways",
      "Touches",
      ...(hasOld ? ["Before"] : []),
      "Misses",
      "Rate",
    ],
    rows.map((level) =>
      h(
        "tr",
        { title: `lines of ${level.line_bytes} bytes; sizes: ${level.source}` },
        cell(level.name, ""),
        cell(bytes(level.size_bytes)),
        cell(String(level.ways)),
        cell(count(level.touches)),
        hasOld
          ? cell(written(old.find(({ name }) => name === level.name)?.misses), "tl-num tl-faint")
          : null,
        cell(count(level.misses)),
        heatCell(
          level.touches ? level.misses / level.touches : 0,
          level.touches ? `${digits((100 * level.misses) / level.touches)}%` : "–",
        ),
      ),
    ),
  );
}

function buffers(counts: Counts): HTMLElement {
  return table(
    "buffers",
    [{ name: "Buffer", ...LEFT }, "Loaded", "Stored", "Distinct", "L1 misses"],
    (counts.buffers ?? []).map((buffer) =>
      h(
        "tr",
        {
          title: `${buffer.dtype}, ${bytes(buffer.size_bytes)}; ${count(buffer.loads)} elements loaded, ${count(buffer.stores)} stored`,
        },
        cell(`data${buffer.slot}`, "tl-mono"),
        cell(buffer.loads ? bytes(buffer.bytes_loaded) : "–"),
        cell(buffer.stores ? bytes(buffer.bytes_stored) : "–"),
        cell(bytes(buffer.unique_bytes)),
        cell(buffer.misses.length > 0 ? compact(buffer.misses[0]!) : "–"),
      ),
    ),
  );
}

function loops(counts: Counts): HTMLElement {
  const rows = counts.loops ?? [];
  if (rows.length === 0) return h("p", { class: "tl-hint" }, "No loops.");
  return table(
    "loops",
    [{ name: "Loop", ...LEFT }, "Entered", "Turns"],
    rows.map((loop) =>
      h("tr", {}, cell(loop.name, "tl-mono"), cell(count(loop.entered)), cell(count(loop.trips))),
    ),
  );
}

function cells(counts: Counts): HTMLElement | string {
  const rows = counts.cells ?? [];
  if (rows.length === 0) return "";
  const most = Math.max(1, ...rows.map((row) => row.misses));
  return part(
    titled("Lines of the cell", counts),
    table(
      "lines of the cell",
      [{ name: "Line", ...LEFT }, "Operations", "Bytes", "L1 misses"],
      rows.map((row) =>
        h(
          "tr",
          {},
          cell(String(row.line), ""),
          cell(compact(row.operations)),
          cell(bytes(row.bytes)),
          heatCell(row.misses / most, compact(row.misses)),
        ),
      ),
    ),
  );
}

function uops(
  rows: readonly UopCounts[],
  metric: Metric,
  choose: (uop: number) => void,
): HTMLElement {
  const heat = heatOf(rows, metric);
  const shown = [...rows].sort((a, b) => metricOf(b, metric) - metricOf(a, metric)).slice(0, 60);
  const list = table(
    "uops",
    [{ name: "Uop", ...LEFT }, { name: "", ...LEFT }, "Runs", metric],
    shown.map((row) =>
      h(
        "tr",
        {
          class: `tl-uop-row${row.addressing ? " tl-addressing" : ""}`,
          tabindex: "0",
          title: row.addressing ? "computed for addresses, gates and loop bounds" : "",
          on: {
            click: () => choose(row.uop),
            keydown: (event: KeyboardEvent) => event.key === "Enter" && choose(row.uop),
          },
        },
        cell(`${row.uop} ${row.op}`, "tl-mono"),
        cell(row.buffer === null ? row.sort : `${row.sort} of data${row.buffer}`, "tl-faint"),
        cell(compact(row.runs)),
        heatCell(heat.get(row.uop)?.share ?? 0, compact(heat.get(row.uop)?.value ?? 0)),
      ),
    ),
  );
  return list;
}

/** A number on a bar as long as its share. */
function heatCell(share: number, text: string): HTMLElement {
  const found = h("td", { class: "tl-num tl-heat" }, text);
  found.style.setProperty("--heat", `${Math.round(share * 100)}%`);
  return found;
}
