/** The bench of one kernel: edit its opts, run it, read how it compares. */

import { digits, duration, rate, work } from "../base/text.ts";
import { firstMetric, isCounted } from "../protocol/counts.ts";
import { optText } from "../protocol/opts.ts";
import type { Counts, HistoryRow, KernelDetail, OptEdit, Problem } from "../protocol/types.ts";
import { adviceView } from "./advice.ts";
import type { CodeView } from "./code.ts";
import type { Context } from "./context.ts";
import { button, focusedIn, h, setText } from "./dom.ts";
import { optsForm } from "./opts.ts";

const STATUS: Readonly<Record<string, string>> = {
  ok: "same result",
  refused: "refused",
  wrong: "wrong result",
  crashed: "crashed",
  timeout: "too slow",
  stopped: "stopped",
};

export interface BenchView {
  readonly el: HTMLElement;
  run(): void;
  count(): void;
  stop(): void;
}

/** `tell` is called with the counters of the kernel that is shown, or null when there are none. */
export function benchView(
  context: Context,
  code: CodeView,
  tell: (counts: Counts | null) => void,
): BenchView {
  const { session, view, signal } = context;
  const title = h("h3", {}, "Opts");
  const reason = h("p", { class: "tl-reason-text" });
  const status = h("span", { class: "tl-run-status", role: "status" });
  const rows = h("tbody");
  const history = h(
    "table",
    { class: "tl-table tl-history", "aria-label": "runs of this kernel" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", {}, "Opts"),
        h(
          "th",
          {
            class: "tl-num tl-col-median",
            title: "Median of the runs; under it the 10th and the 90th percentile",
          },
          "Median",
        ),
        h(
          "th",
          {
            class: "tl-num tl-col-few",
            title: "Time against the unedited kernel, in the same session; below 1 is faster",
          },
          "Ratio",
        ),
      ),
    ),
    rows,
  );
  const form = optsForm(() => void check());
  let detail: KernelDetail | null = null;
  let running: number | null = null;
  /** The run whose opts and code are shown; null for the kernel as it was compiled. */
  let chosen: number | null = null;

  const runButton = button("Run", "Compile, run, compare and time (Ctrl+Enter)", () => void run(), {
    class: "tl-primary",
    name: "run",
  });
  const countButton = button(
    "Count",
    "Loads, arithmetic, loop turns, cache misses: the kernel with these opts, built to count itself (C)",
    () => void countIt(),
    { name: "count" },
  );
  const target = h("select", {
    class: "tl-field",
    "data-name": "target",
    "aria-label": "what the figures are of",
    title: "Count here, or estimate for a GPU from the kernel's graph",
  });
  const advice = adviceView((opts) => {
    load(opts);
    setText(status, "opts of the advice: Run tries them");
    runButton.focus();
  });
  const stopButton = button("Stop", "End the run at once", () => stop(), { name: "stop" });
  const reset = button("Reset", "The kernel as it was compiled: its opts, source, assembly", () => {
    chosen = null;
    load(detail?.opts ?? []);
    drawHistory();
    code.show(detail);
  });
  reset.classList.add("tl-quiet");
  const clear = button("None", "No opts at all", () => load([]));
  clear.classList.add("tl-quiet");

  const check = async (): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined) return;
    try {
      const { axes, problems } = await session.client.ask("actions", { kernel, opts: form.opts });
      if (detail?.id === kernel) form.check(axes, problems);
    } catch (error) {
      session.report(error);
    }
  };
  const load = (opts: readonly OptEdit[]): void => {
    if (!detail) return;
    form.set(opts, detail.allowed.ops);
    void check();
  };

  const run = async (): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined || running !== null) return;
    running = kernel;
    setText(status, "starting …");
    state();
    try {
      const { row } = await session.client.ask("run", { kernel, opts: form.opts });
      session.forgetKernel(kernel);
      take(kernel, row);
    } catch (error) {
      session.report(error);
      setText(status, "");
    } finally {
      running = null;
      state();
    }
  };
  const countIt = async (): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined || running !== null) return;
    running = kernel;
    setText(status, "starting …");
    state();
    try {
      const gpu = target.value || null;
      // Opts that nobody edited were chosen for this machine: a GPU's are chosen for it.
      const opts = gpu !== null && !isEdited() ? null : form.opts;
      const counts = await session.client.ask("count", { kernel, opts, target: gpu });
      if (detail?.id === kernel) takeCounts(counts);
    } catch (error) {
      session.report(error);
      setText(status, "");
    } finally {
      running = null;
      state();
    }
  };
  const isEdited = (): boolean =>
    form.opts.map(optText).join() !== (detail?.opts ?? []).map(optText).join();
  const takeCounts = (counts: Counts): void => {
    if (!isCounted(counts)) {
      setText(status, `${STATUS[counts.status] ?? counts.status}: ${counts.message}`);
      return;
    }
    setText(status, "");
    const { source = [], assembly = [], uops = [], advice: found } = counts;
    code.metric = firstMetric(uops);
    if (source.length > 0) code.show({ source, assembly, language: detail?.language ?? "" }, uops);
    advice.show(found ?? null);
    tell(counts);
  };
  const take = (kernel: number, row: HistoryRow): void => {
    setText(status, row.status === "ok" ? "" : (STATUS[row.status] ?? row.status));
    if (detail?.id !== kernel) return;
    const history = [...detail.history.filter((each) => each.id !== row.id), row];
    detail = { ...detail, history };
    chosen = row.id;
    drawHistory();
    reveal();
    if (row.status === "refused") form.check(detail.axes, problemOf(row, form.opts));
    else if (row.source) showCode(row);
  };
  /** Scrolls the bench, and nothing around it, so that the newest run is seen. */
  const reveal = (): void => {
    const row = rows.firstElementChild?.getBoundingClientRect();
    const hidden = (row?.bottom ?? 0) - el.getBoundingClientRect().bottom;
    if (hidden > 0) el.scrollTop += hidden + 8;
  };
  const showCode = (row: HistoryRow): void => {
    const { source = [], assembly = [] } = row;
    code.show(source.length > 0 ? { source, assembly, language: detail?.language ?? "" } : null);
  };
  /** An earlier run: its opts at once, its source and assembly when the kernel has said them. */
  const choose = async (row: HistoryRow): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined) return;
    chosen = row.id;
    load(row.opts);
    drawHistory();
    if (row.status === "refused" || (row.source && row.source.length > 0)) {
      showCode(row);
      return;
    }
    try {
      const { row: whole } = await session.client.ask("row", { kernel, row: row.id });
      if (detail?.id === kernel && chosen === row.id) showCode(whole);
    } catch (error) {
      session.report(error);
    }
  };
  const stop = (): void => {
    if (running !== null) session.client.tell({ id: 0, ask: "stop", args: { kernel: running } });
  };
  const state = (): void => {
    const link = session.state.now.link;
    runButton.disabled = running !== null || detail === null || link === "gone";
    countButton.disabled = runButton.disabled;
    stopButton.hidden = running === null;
    runButton.title =
      link === "gone"
        ? "The kernel has gone: run the cell again"
        : "Compile, run, compare and time (Ctrl+Enter)";
  };

  const drawHistory = (): void => {
    const focused = focusedIn(rows)?.dataset.row;
    const all = [...(detail?.history ?? [])].reverse();
    const fastest = Math.min(
      ...all
        .filter((row) => row.status === "ok")
        .map((row) => row.median_us ?? Number.POSITIVE_INFINITY),
    );
    rows.replaceChildren(
      ...all.map((row) =>
        historyRow(row, row.id === chosen, row.median_us === fastest, () => void choose(row)),
      ),
    );
    if (focused) rows.querySelector<HTMLElement>(`[data-row="${focused}"]`)?.focus();
    history.hidden = all.length === 0;
    hint.hidden = all.length > 0;
  };
  const hint = h(
    "p",
    { class: "tl-hint" },
    "Change the opts and press Run: the kernel is compiled again, run apart from the notebook, compared with the unedited result, and timed.",
  );

  const follow = async (): Promise<void> => {
    const { kernel } = session.state.now;
    if (view.now.tab !== "kernels" || kernel === null || detail?.id === kernel) return;
    // What is still shown is another kernel's: it must not be edited in this one's name.
    detail = null;
    form.el.inert = true;
    advice.show(null);
    tell(null);
    state();
    try {
      const found = await session.kernelDetail(kernel);
      if (session.state.now.kernel !== kernel) return;
      detail = found;
      form.el.inert = false;
      setText(title, `Opts of ${found.name}`);
      setText(reason, found.reason);
      setText(status, "");
      code.show(found);
      form.set(found.opts, found.allowed.ops);
      const targets = found.targets ?? [];
      target.hidden = targets.length === 0;
      target.replaceChildren(
        h("option", { value: "" }, "here"),
        ...targets.map((name) => h("option", { value: name }, name)),
      );
      form.check(found.axes, null);
      void check();
      chosen = null;
      drawHistory();
    } catch (error) {
      session.report(error);
    } finally {
      state();
    }
  };

  drawHistory();
  session.onPush((push) => {
    if (push.event === "progress" && push.kernel === running) setText(status, String(push.message));
  }, signal);
  session.state.watch(["overview"], () => (detail = null), signal);
  session.state.watch(["kernel", "overview"], () => void follow(), signal);
  view.watch(["tab"], () => void follow(), signal);
  session.state.watch(["link"], state, signal);

  const el = h(
    "div",
    { class: "tl-side tl-bench" },
    h(
      "section",
      { class: "tl-panel" },
      h("header", { class: "tl-head" }, title, h("span", { class: "tl-buttons" }, reset, clear)),
      reason,
      form.el,
      h("div", { class: "tl-run-row" }, runButton, countButton, target, stopButton, status),
    ),
    advice.el,
    h(
      "section",
      { class: "tl-panel tl-grow" },
      h("header", { class: "tl-head" }, h("h3", {}, "Runs")),
      hint,
      history,
    ),
  );
  return {
    el,
    run: () => void run(),
    count: () => void countIt(),
    stop,
  };
}

function historyRow(
  row: HistoryRow,
  chosen: boolean,
  fastest: boolean,
  choose: () => void,
): HTMLElement {
  const ok = row.status === "ok";
  const opts = row.opts.map(optText).join(" ") || "no opts";
  const spread =
    row.p10_us === null || row.p90_us === null
      ? ""
      : `${duration(row.p10_us)} … ${duration(row.p90_us)}`;
  const facts = [
    `${row.runs} runs`,
    workText(row),
    row.max_error === null ? "" : `largest difference ${digits(row.max_error)}`,
  ].filter(Boolean);
  return h(
    "tr",
    {
      class: `tl-run${chosen ? " tl-here" : ""}${ok ? "" : " tl-run-bad"}`,
      tabindex: "0",
      "data-row": row.id,
      "data-status": row.status,
      "aria-selected": String(chosen),
      title: `${facts.join(", ")}\nClick for its opts, source and assembly`,
      on: {
        click: choose,
        keydown: (event: KeyboardEvent) => event.key === "Enter" && choose(),
      },
    },
    h(
      "td",
      {},
      h("div", { class: "tl-run-opts" }, opts),
      ok
        ? null
        : h(
            "div",
            { class: "tl-run-message" },
            `${STATUS[row.status] ?? row.status}: ${row.message}`,
          ),
    ),
    h(
      "td",
      { class: "tl-num" },
      h("div", {}, ok ? duration(row.median_us) : "–"),
      ok ? h("div", { class: "tl-spread" }, spread) : null,
    ),
    h(
      "td",
      { class: `tl-num tl-ratio${fastest && ok && (row.ratio ?? 1) < 1 ? " tl-fastest" : ""}` },
      ratioText(row.ratio),
    ),
  );
}

/** The work of the unedited kernel by the time of this run, so that needless work is no gain. */
function workText(row: HistoryRow): string {
  if (row.gflops !== null) return `${rate(row.gflops)} GFLOP/s of useful work`;
  return row.gops ? `${work(row)} of useful work` : "";
}

/** 0.5 -> "0.50×", 39.24 -> "39.2×": how much longer than the unedited kernel */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return "–";
  return `${ratio < 10 ? ratio.toFixed(2) : digits(ratio)}×`;
}

/** Which opt a refusal speaks of: its message names it, else the last. */
function problemOf(row: HistoryRow, opts: readonly OptEdit[]): Problem {
  const named = opts.findIndex((opt) => row.message.startsWith(optText(opt)));
  return { index: named >= 0 ? named : Math.max(0, opts.length - 1), message: row.message };
}
