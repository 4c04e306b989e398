/** The bench of one kernel: edit its opts, run it, read how it compares. */

import { KernelGone } from "../protocol/client.ts";
import { firstMetric, isCounted } from "../protocol/counts.ts";
import { optText } from "../protocol/opts.ts";
import { problemText } from "../protocol/session.ts";
import type {
  Axis,
  Counts,
  HistoryRow,
  KernelDetail,
  OptEdit,
  Problem,
} from "../protocol/types.ts";
import { adviceView } from "./advice.ts";
import type { CodeView } from "./code.ts";
import type { Context } from "./context.ts";
import { button, h, setText } from "./dom.ts";
import { historyView, STATUS } from "./history.ts";
import { kernelTitle } from "./names.ts";
import { optsForm } from "./opts.ts";
import { sidePanel } from "./split.ts";

const ENDED = "The notebook's kernel went while this ran: run the cell again, then this";
const LACKING =
  "The notebook's kernel went before this was loaded: the source stands under this view, or run the cell again";
const RUN = "Compile, run, compare and time (Ctrl+Enter, or Enter in a field)";
const COUNT =
  "Loads, arithmetic, loop turns, cache misses: the kernel with these opts, built to count itself (C)";

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
  const { session, asker, view, root, signal } = context;
  const title = h("h3", {}, "Opts");
  const reason = h("p", { class: "tl-reason-text" });
  const status = h("span", { class: "tl-run-status", role: "status" });
  const failure = h("p", { class: "tl-error tl-run-error", role: "alert", hidden: true });
  const blocked = h("p", { class: "tl-hint tl-blocked-text", role: "note", hidden: true });
  const history = historyView((row) => choose(row));
  const form = optsForm({ changed: () => edited(), entered: () => void run() });
  let detail: KernelDetail | null = null;
  let running: number | null = null;
  /** Whether opts of the kernel that is shown can be tried: known when they were looked at. */
  let ready = false;
  /** The run whose opts and code are shown; null for the kernel as it was compiled. */
  let chosen: number | null = null;
  /** The opts of the kernel whose code is shown, and its axes once they are known. */
  let good: { readonly opts: readonly OptEdit[]; axes: readonly Axis[] | null } = {
    opts: [],
    axes: null,
  };

  const runButton = button("Run", RUN, () => void run(), {
    class: "tl-primary",
    name: "run",
  });
  const countButton = button("Count", COUNT, () => void countIt(), { name: "count" });
  const target = h("select", {
    class: "tl-field",
    "data-name": "target",
    "aria-label": "what Count tells",
    title:
      "What Count tells: the kernel counted on this machine, or figures estimated for a GPU from the kernel's graph",
  });
  const advice = adviceView((opts) => {
    load(opts);
    setText(status, "opts of the advice: Run tries them");
    runButton.focus();
  });
  const stopButton = button("Stop", "End the run at once", () => stop(), { name: "stop" });
  const reset = button("Reset", "The kernel as it was compiled: its opts, source, assembly", () => {
    chosen = null;
    showOwn();
    load(detail?.opts ?? []);
    drawHistory();
  });
  reset.classList.add("tl-quiet");
  const clear = button("None", "No opts at all", () => load([]));
  clear.classList.add("tl-quiet");

  /** What was said of the opts as they were says nothing of these. */
  const edited = (): void => {
    fail(null);
    if (running === null) setText(status, "");
    void check();
  };
  const check = async (): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined) return;
    try {
      const { axes, problems } = await asker.ask("actions", { kernel, opts: form.opts });
      const shown = problems ? await goodAxes(kernel) : axes;
      if (detail?.id !== kernel) return;
      if (!ready) block(null);
      form.check(shown, problems);
    } catch (error) {
      if (detail?.id === kernel) cannotCheck(problemText(error));
    }
  };
  const cannotCheck = (message: string | null): void => {
    if (message === null) return;
    // Where not even its own opts can be looked at, none can be tried.
    if (isEdited()) form.check(form.axes, { index: form.opts.length - 1, message });
    else block(message);
  };
  /** Opts that cannot be applied leave the last good kernel in place: its code, and its axes. */
  const goodAxes = async (kernel: number): Promise<readonly Axis[]> => {
    const asked = good;
    if (asked.axes === null) {
      const args = { kernel, opts: asked.opts };
      asked.axes = (await asker.ask("actions", args, "axes")).axes;
    }
    return asked.axes;
  };
  const block = (why: string | null): void => {
    blocked.hidden = why === null;
    setText(blocked, why ?? "");
    bench.title = why ?? "";
    bench.classList.toggle("tl-blocked", why !== null);
    ready = why === null;
    form.el.inert = !ready;
    state();
  };
  const fail = (message: string | null): void => {
    failure.hidden = message === null;
    setText(failure, message ?? "");
  };
  const load = (opts: readonly OptEdit[]): void => {
    if (!detail) return;
    form.set(opts, detail.allowed.ops);
    edited();
  };

  /** Lets the kernel work on what is shown; what it cannot do is said here. */
  const work = async (act: (kernel: number) => Promise<void>): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined || running !== null || !blocked.hidden) return;
    running = kernel;
    setText(status, "starting …");
    fail(null);
    state();
    try {
      await act(kernel);
    } catch (error) {
      setText(status, "");
      if (error instanceof KernelGone) fail(ENDED);
      else if (detail?.id === kernel) fail(problemText(error));
    } finally {
      running = null;
      state();
    }
  };
  const run = (): Promise<void> =>
    work(async (kernel) => {
      const { row, own } = await session.client.ask("run", { kernel, opts: form.opts });
      session.forgetKernel(kernel);
      take(kernel, row, own ?? null);
    });
  const countIt = (): Promise<void> =>
    work(async (kernel) => {
      const gpu = target.value || null;
      // Opts that nobody edited were chosen for this machine: a GPU's are chosen for it.
      const opts = gpu !== null && !isEdited() ? null : form.opts;
      const counts = await session.client.ask("count", { kernel, opts, target: gpu });
      if (detail?.id === kernel) takeCounts(counts);
    });
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
  const take = (kernel: number, row: HistoryRow, own: HistoryRow | null): void => {
    const isPlain = row.status === "ok" || row.status === "compiled";
    setText(status, isPlain ? "" : (STATUS[row.status] ?? row.status));
    if (detail?.id !== kernel) return;
    const fresh = [own, row].filter((each) => each !== null);
    const older = detail.history.filter((each) => !fresh.some(({ id }) => id === each.id));
    detail = { ...detail, history: [...older, ...fresh].sort((a, b) => a.id - b.id) };
    chosen = row.id;
    drawHistory();
    reveal();
    if (row.status === "refused") void refuse(kernel, problemOf(row, form.opts));
    else if (row.source) showCode(row);
  };
  const refuse = async (kernel: number, problem: Problem): Promise<void> => {
    try {
      const axes = await goodAxes(kernel);
      if (detail?.id === kernel) form.check(axes, problem);
    } catch (error) {
      session.report(error);
    }
  };
  /** Scrolls the bench, and nothing around it, so that the newest run is seen. */
  const reveal = (): void => {
    const row = history.newest?.getBoundingClientRect();
    const hidden = (row?.bottom ?? 0) - el.getBoundingClientRect().bottom;
    if (hidden > 0) scroller.scrollTop += hidden + 8;
  };
  const showCode = (row: HistoryRow): void => {
    const { source = [], assembly = [] } = row;
    if (source.length === 0) return;
    good = { opts: row.opts, axes: null };
    code.show({ source, assembly, language: detail?.language ?? "" });
  };
  const showOwn = (): void => {
    good = { opts: detail?.opts ?? [], axes: null };
    code.show(detail);
  };
  /** An earlier run: its opts at once, its source and assembly when the kernel has said them. */
  const choose = (row: HistoryRow): void => {
    chosen = row.id;
    if (row.id === 0) showOwn();
    else if (row.source && row.source.length > 0) showCode(row);
    // Of opts that were refused there is no code.
    else if (row.status !== "refused") void askCode(row.id);
    if (blocked.hidden) load(row.opts);
    drawHistory();
  };
  const askCode = async (run: number): Promise<void> => {
    const kernel = detail?.id;
    if (kernel === undefined) return;
    try {
      const { row } = await asker.ask("row", { kernel, row: run });
      if (detail?.id === kernel && chosen === run) showCode(row);
    } catch (error) {
      if (detail?.id === kernel) fail(problemText(error));
    }
  };
  const stop = (): void => {
    if (running !== null) session.client.tell({ id: 0, ask: "stop", args: { kernel: running } });
  };
  const state = (): void => {
    const link = session.state.now.link;
    const why =
      link === "gone" ? "The kernel has gone: run the cell again" : (blocked.textContent ?? "");
    runButton.disabled = running !== null || detail === null || why !== "";
    countButton.disabled = runButton.disabled;
    target.disabled = !blocked.hidden;
    for (const each of [reset, clear]) each.disabled = !blocked.hidden || detail === null;
    stopButton.hidden = running === null;
    runButton.title = why || RUN;
    countButton.title = why || COUNT;
  };

  const drawHistory = (): void => {
    const runs = detail?.history ?? [];
    history.show(runs, chosen);
    hint.hidden = runs.length > 0 || !blocked.hidden;
  };
  const hint = h(
    "p",
    { class: "tl-hint" },
    "Change the opts and press Run: the kernel is compiled again, run apart from the notebook, compared with the unedited result, and timed.",
  );

  /** Makes a kernel the one that is edited. */
  const adopt = (found: KernelDetail): void => {
    detail = found;
    for (const each of [form.el, history.el]) each.hidden = false;
    setText(title, `Opts of ${kernelTitle(session.state.now.overview, found.id)}`);
    title.title = title.textContent ?? "";
    setText(reason, found.reason);
    setText(status, "");
    fail(null);
    showOwn();
    form.set(found.opts, found.allowed.ops);
    const targets = found.targets ?? [];
    target.hidden = targets.length === 0;
    target.replaceChildren(
      h("option", { value: "" }, "on this machine"),
      ...targets.map((name) => h("option", { value: name }, `for ${name}, estimated`)),
    );
    form.check(found.axes, null);
    void check();
    chosen = null;
    drawHistory();
  };
  const follow = async (): Promise<void> => {
    const { kernel } = session.state.now;
    if (view.now.tab !== "kernels" || kernel === null || detail?.id === kernel) return;
    // What is still shown is another kernel's: it must not be edited in this one's name.
    detail = null;
    ready = false;
    form.el.inert = true;
    advice.show(null);
    tell(null);
    state();
    try {
      const found = await session.kernelDetail(kernel);
      if (session.state.now.kernel !== kernel) return;
      adopt(found);
    } catch (error) {
      if (error instanceof KernelGone && session.state.now.kernel === kernel) lack(kernel);
      session.report(error);
    } finally {
      state();
    }
  };
  /** Nothing is known here of a kernel: what stands there is another one's. */
  const lack = (kernel: number): void => {
    setText(title, `Opts of ${kernelTitle(session.state.now.overview, kernel)}`);
    setText(reason, "");
    code.show(null);
    for (const each of [form.el, target, hint, history.el]) each.hidden = true;
    fail(LACKING);
  };

  const bench = h(
    "section",
    { class: "tl-panel" },
    h("header", { class: "tl-head" }, title, h("span", { class: "tl-buttons" }, reset, clear)),
    reason,
    form.el,
    blocked,
    h("div", { class: "tl-run-row" }, runButton, countButton, target, stopButton, status),
    failure,
  );
  drawHistory();
  session.onPush((push) => {
    if (push.event === "progress" && push.kernel === running) setText(status, String(push.message));
  }, signal);
  session.state.watch(["overview"], () => (detail = null), signal);
  session.state.watch(["kernel", "overview"], () => void follow(), signal);
  view.watch(["tab"], () => void follow(), signal);
  session.state.watch(["link"], state, signal);

  const { el, scroller } = sidePanel(
    root,
    "tl-bench",
    { label: "Width of the bench", side: "left", property: "--tl-bench", least: 240 },
    bench,
    advice.el,
    h(
      "section",
      { class: "tl-panel tl-grow" },
      h("header", { class: "tl-head" }, h("h3", {}, "Runs")),
      hint,
      history.el,
    ),
  );
  return {
    el,
    run: () => void run(),
    count: () => void countIt(),
    stop,
  };
}

/** Which opt a refusal speaks of: its message names it, else the last. */
function problemOf(row: HistoryRow, opts: readonly OptEdit[]): Problem {
  const named = opts.findIndex((opt) => row.message.startsWith(optText(opt)));
  return { index: named >= 0 ? named : Math.max(0, opts.length - 1), message: row.message };
}
