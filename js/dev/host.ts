/** Answers the protocol from a synthetic record, as the kernel would; it can be slow, or go away. */
import type { Port, Push, Reply } from "../src/protocol/client.ts";
import type { HistoryRow, OptEdit } from "../src/protocol/types.ts";
import { fakeCounts } from "./counts.ts";
import { type FakeRecord, stepOf } from "./record.ts";
import { sorted, type Term } from "./rules.ts";

interface Args {
  readonly pass: number;
  readonly k: number;
  readonly from?: { readonly pass: number; readonly k: number } | null;
  readonly query: string;
  readonly lines: readonly number[];
  readonly kernel: number;
  readonly row: number;
  readonly opts: readonly OptEdit[];
}

export class FakeHost implements Port {
  /** Every message that arrived, in order. */
  readonly heard: { id: number; ask: string; args: Args }[] = [];
  /** While set, messages wait. */
  busy = false;
  delayMs = 0;
  #waiting: (() => void)[] = [];
  #hear: (message: Reply | Push) => void = () => {};
  #tellGone: () => void = () => {};
  #gone = false;
  #rows = 0;

  constructor(readonly record: FakeRecord) {}

  send(message: unknown): void {
    if (this.#gone) throw new Error("Comm is disposed");
    const asked = message as { id: number; ask: string; args: Args };
    this.heard.push(asked);
    const act = (): void => this.#reply(asked);
    if (this.busy) this.#waiting.push(act);
    else setTimeout(act, this.delayMs);
  }

  listen(hear: (message: Reply | Push) => void): void {
    this.#hear = hear;
  }

  onGone(tell: () => void): void {
    this.#tellGone = tell;
  }

  /** The kernel is idle again: what waited is answered in order. */
  resume(): void {
    this.busy = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const act of waiting) act();
  }

  /** The kernel goes for good. */
  go(): void {
    this.#gone = true;
    this.#tellGone();
  }

  count(ask: string): number {
    return this.heard.filter((message) => message.ask === ask).length;
  }

  #reply({ id, ask, args }: { id: number; ask: string; args: Args }): void {
    if (this.#gone) return;
    try {
      this.#hear({ id, ok: this.answer(ask, args) });
    } catch (error) {
      this.#hear({ id, error: error instanceof Error ? error.message : String(error) });
    }
  }

  answer(ask: string, args: Args): unknown {
    switch (ask) {
      case "step":
        return stepOf(this.record, args.pass, args.k, args.from ?? null);
      case "text":
        return this.#text(args.pass, args.k);
      case "search":
        return this.#search(String(args.query));
      case "lines":
        return { kernels: args.lines.includes(1) ? [] : [0], nodes: this.#lines(args.lines) };
      case "node":
        return { lines: [3], kernels: [0], text: "", methods: ["matmul"] };
      case "kernel":
        return this.record.kernels[args.kernel];
      case "actions":
        return this.#actions(args.kernel, args.opts);
      case "run":
        return this.#run(args.kernel, args.opts);
      case "count":
        return fakeCounts(args.kernel, args.opts);
      case "row":
        return {
          row: { id: args.row, source: [{ text: `run ${args.row}`, node: null, lines: [] }] },
        };
      default:
        throw new Error(`nobody answers '${ask}'`);
    }
  }

  #text(pass: number, k: number): unknown {
    const lines = this.#linesOf(pass, k);
    const old = new Set(
      k > 0 ? this.#linesOf(pass, k - 1).map((line) => line.text) : lines.map((line) => line.text),
    );
    const now = new Set(lines.map((line) => line.text));
    const marked = lines.map((line) => ({ ...line, mark: old.has(line.text) ? "" : "+" }));
    const went = k > 0 ? this.#linesOf(pass, k - 1).filter((line) => !now.has(line.text)) : [];
    return {
      lines: marked,
      diff: [
        ...went.map((line) => ({ ...line, mark: "-" })),
        ...marked.filter((line) => line.mark),
      ],
    };
  }

  #linesOf(pass: number, k: number): { text: string; node: number }[] {
    const root = this.record.passes.find((each) => each.id === pass)!.roots[k]!;
    const line = (term: Term): string => {
      const arg = term.arg ? ` [${term.arg}]` : "";
      const shape = term.shape.length > 0 ? ` (${term.shape.join(", ")})` : "";
      return `%${term.id} = ${term.op}(${term.src.map((src) => `%${src.id}`).join(", ")})${arg} ${term.dtype}${shape}`;
    };
    return sorted(root).map((term) => ({ text: line(term), node: term.id }));
  }

  #search(query: string): unknown {
    const wanted = query.toLowerCase();
    const hits = this.record.passes.flatMap((pass) =>
      sorted(pass.roots[0]!)
        .filter((term) => `${term.op} ${term.arg}`.toLowerCase().includes(wanted))
        .map((term) => ({
          pass: pass.id,
          k: 0,
          node: term.id,
          label: `${term.op} ${term.arg}`.trim(),
        })),
    );
    return { hits: hits.slice(0, 200), more: hits.length > 200 };
  }

  #lines(lines: readonly number[]): Record<string, number[]> {
    const found = this.record.passes.map((pass) => [
      String(pass.id),
      sorted(pass.roots[0]!)
        .filter((term) => term.lines.some((line) => lines.includes(line)))
        .map((term) => term.id),
    ]);
    return Object.fromEntries(found);
  }

  #actions(kernel: number, opts: readonly OptEdit[]): unknown {
    const { axes } = this.record.kernels[kernel]!;
    const index = opts.findIndex(
      (opt) => typeof opt.arg === "number" && opt.arg > 0 && 64 % opt.arg !== 0,
    );
    const bad = opts[index];
    const message = bad
      ? `${bad.op}(${bad.axis}, ${bad.arg}): axis ${bad.axis} has size 64, which ${bad.arg} does not divide`
      : "";
    return { axes, problems: bad ? { index, message } : null };
  }

  #run(kernel: number, opts: readonly OptEdit[]): { row: HistoryRow; own: HistoryRow } {
    this.#rows += 1;
    const own = this.record.kernels[kernel]!.opts;
    const row = this.#row(this.#rows, opts);
    return { row, own: { ...this.#row(0, own), ratio: 1, message: "as run" } };
  }

  #row(id: number, opts: readonly OptEdit[]): HistoryRow {
    const { problems } = this.#actions(0, opts) as { problems: { message: string } | null };
    const none = {
      median_us: null,
      p10_us: null,
      p90_us: null,
      ratio: null,
      gflops: null,
      max_error: null,
    };
    if (problems)
      return {
        id,
        opts: [...opts],
        status: "refused",
        message: problems.message,
        runs: 0,
        ...none,
      };
    const median = 96.4 / (1 + opts.length * 0.4);
    return {
      id,
      opts: [...opts],
      status: "ok",
      message: "",
      median_us: median,
      p10_us: median * 0.97,
      p90_us: median * 1.08,
      runs: 400,
      ratio: median / 96.4,
      gflops: 524.288 / median,
      max_error: 1.9e-6,
    };
  }
}
