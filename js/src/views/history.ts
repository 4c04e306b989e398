/** What was tried on a kernel: a row per run, newest first. */
import { digits, duration, plural, rate, work } from "../base/text.ts";
import { optText } from "../protocol/opts.ts";
import type { HistoryRow } from "../protocol/types.ts";
import { focusedIn, h } from "./dom.ts";

export const STATUS: Readonly<Record<string, string>> = {
  ok: "same result",
  compiled: "compiled only",
  refused: "refused",
  wrong: "wrong result",
  crashed: "crashed",
  timeout: "too slow",
  stopped: "stopped",
};

export interface HistoryView {
  readonly el: HTMLElement;
  /** Shows runs, oldest first, of which one may be chosen. */
  show(runs: readonly HistoryRow[], chosen: number | null): void;
  /** The newest run's element. */
  readonly newest: Element | null;
}

const MEDIAN =
  "Median of the runs; under it the 10th and the 90th percentile, and how many runs there were";
const AGAINST = "How its time compares with the unedited kernel's, measured in turns with it";

/** `choose` is called with the row that is clicked, or entered. */
export function historyView(choose: (row: HistoryRow) => void): HistoryView {
  const heads = [
    h("th", {}, "Opts"),
    h("th", { class: "tl-num tl-col-median", title: MEDIAN }, "Median"),
    h("th", { class: "tl-num tl-col-few", title: AGAINST }, "Against"),
  ];
  const head = h("thead", {}, h("tr", {}, ...heads));
  const label = { class: "tl-table tl-history", "aria-label": "runs of this kernel" };
  const el = h("table", label, head);
  return {
    el,
    get newest() {
      return el.querySelector(".tl-run");
    },
    show(runs, chosen) {
      const focused = focusedIn(el)?.dataset.row;
      const fastest = Math.min(...runs.filter(isTimed).map((row) => row.median_us ?? Infinity));
      const rows = [...runs].reverse().map((row) => {
        const isFastest = row.median_us === fastest && verdictOf(row) === "faster";
        return historyRow(row, row.id === chosen, isFastest, () => choose(row));
      });
      el.replaceChildren(head, ...rows);
      if (focused) el.querySelector<HTMLElement>(`[data-row="${focused}"]`)?.focus();
      el.hidden = runs.length === 0;
    },
  };
}

const isTimed = (row: HistoryRow): boolean => row.status === "ok" && row.median_us !== null;

function historyRow(
  row: HistoryRow,
  chosen: boolean,
  fastest: boolean,
  choose: () => void,
): HTMLElement {
  const ok = row.status === "ok";
  const state = STATUS[row.status] ?? row.status;
  const plain = ok || row.status === "compiled"; // neither right nor wrong
  const message = plain ? row.message : [state, row.message].filter(Boolean).join(": ");
  const facts = [
    workText(row),
    row.max_error === null ? "" : `largest difference ${digits(row.max_error)}`,
  ].filter(Boolean);
  return h(
    "tbody",
    {
      class: `tl-run${chosen ? " tl-here" : ""}${plain ? "" : " tl-run-bad"}`,
      tabindex: "0",
      "data-row": row.id,
      "data-status": row.status,
      "aria-selected": String(chosen),
      title: [facts.join(", "), "Click for its opts, source and assembly"]
        .filter(Boolean)
        .join("\n"),
      on: {
        click: choose,
        keydown: (event: KeyboardEvent) => event.key === "Enter" && choose(),
      },
    },
    h(
      "tr",
      {},
      h("td", {}, h("div", { class: "tl-run-opts" }, ...optTexts(row))),
      h("td", { class: "tl-num" }, ...medianCell(row)),
      h("td", { class: `tl-num tl-ratio${fastest ? " tl-fastest" : ""}` }, ...ratioCell(row)),
    ),
    message
      ? h(
          "tr",
          { class: "tl-run-note" },
          h("td", { colspan: "3", class: plain ? "tl-faint" : "tl-run-message" }, message),
        )
      : null,
  );
}

/** The median, the range around it, and how many runs both rest on. */
function medianCell(row: HistoryRow): HTMLElement[] {
  const median = h("div", {}, isTimed(row) ? duration(row.median_us) : "–");
  if (row.runs === 0) return [median];
  const spread = `${duration(row.p10_us)} … ${duration(row.p90_us)}`;
  const facts = [...(row.runs > 1 ? [spread] : []), `of ${plural(row.runs, "run")}`];
  return [median, ...facts.map((fact) => h("div", { class: "tl-spread" }, fact))];
}

/** Each opt is a piece of its own: a line is broken between them. */
function optTexts(row: HistoryRow): HTMLElement[] {
  const found = row.opts.map((opt) => h("span", {}, `${optText(opt)} `));
  return found.length > 0 ? found : [h("span", {}, "no opts")];
}

function ratioCell(row: HistoryRow): HTMLElement[] {
  if (row.id === 0) return [h("div", { class: "tl-faint" }, "unedited")];
  const [times, word] = ratioText(row);
  const title = rangeText(row);
  return [times, word].filter(Boolean).map((text) => {
    const isRange = text.includes("…");
    return h("div", { title, class: isRange ? "tl-spread" : undefined }, text);
  });
}

/** "between 0.85 and 1.32 of its time" */
function rangeText({ ratio_low: low, ratio_high: high }: Ratio): string | undefined {
  if (typeof low !== "number" || typeof high !== "number") return undefined;
  return `between ${low.toFixed(2)} and ${high.toFixed(2)} of the unedited kernel's time`;
}

/** The work of the unedited kernel by the time of this run, so that needless work is no gain. */
function workText(row: HistoryRow): string {
  if (row.gflops !== null) return `${rate(row.gflops)} GFLOP/s of useful work`;
  return row.gops ? `${work(row)} of useful work` : "";
}

type Ratio = Pick<HistoryRow, "ratio" | "ratio_low" | "ratio_high">;

/** What the rounds agree on; null where they do not, or there is no ratio. */
function verdictOf({ ratio, ratio_low: low, ratio_high: high }: Ratio): "faster" | "slower" | null {
  if (ratio === null || !(ratio > 0)) return null;
  if ((high ?? ratio) < 1) return "faster";
  return (low ?? ratio) > 1 ? "slower" : null;
}

/**
 * How a time compares: 0.5 -> ["2.00×", "faster"], 39.24 -> ["39.2×", "slower"]; where the rounds
 * disagree on which is faster: ["as fast", "0.93 … 1.02"].
 */
export function ratioText(row: Ratio): readonly [string, string] {
  const { ratio, ratio_low: low, ratio_high: high } = row;
  if (ratio === null || !(ratio > 0)) return ["–", ""];
  const verdict = verdictOf(row);
  const times = ratio < 1 ? 1 / ratio : ratio;
  if (verdict === null && typeof low === "number" && typeof high === "number") {
    return ["as fast", `${low.toFixed(2)} … ${high.toFixed(2)}`];
  }
  if (verdict === null || times < 1.005) return ["as fast", ""];
  return [`${times < 10 ? times.toFixed(2) : digits(times)}×`, verdict];
}
