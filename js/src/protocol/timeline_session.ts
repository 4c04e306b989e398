/** One profile as the front end knows it: shared by all views of a model. */
import { Superseded } from "../base/lanes.ts";
import type { Range } from "../base/range.ts";
import { type Column, type SpanColumns, Spans } from "../base/spans.ts";
import { Store } from "../base/store.ts";
import { type Asker, Client, KernelGone, type Link, type Port } from "./client.ts";
import type {
  Compared,
  EventInfo,
  StretchSums,
  TimelineAnswers,
  TimelineHits,
  TimelineOverview,
} from "./timeline_types.ts";

export interface TimelineState {
  readonly overview: TimelineOverview | null;
  readonly link: Link;
  /** A sentence about the last thing that failed. */
  readonly problem: string | null;
  /** The event that is chosen. */
  readonly event: EventInfo | null;
  /** An event that all views are to bring into sight: Python chose it. */
  readonly wanted: EventInfo | null;
  /** The stretch of time that is marked, and its figures. */
  readonly stretch: Range | null;
  readonly sums: StretchSums | null;
  /** The figures of all of it, once they were asked for. */
  readonly whole: StretchSums | null;
  readonly query: string;
  readonly hits: TimelineHits | null;
  readonly compared: Compared | null;
}

/** A curve of a window: the highest and the lowest level in each column. */
export interface Levels {
  readonly range: Range;
  readonly high: Column;
  readonly low: Column;
}

export interface LoadedWindow {
  readonly spans: Spans;
  readonly levels: ReadonlyMap<number, Levels>;
  readonly exact: boolean;
}

export class TimelineSession {
  readonly state: Store<TimelineState>;
  readonly client: Client<TimelineAnswers>;
  /** Views that are open, for clean-up and for tests. */
  readonly views = new Set<object>();
  readonly #names = new Map<number, string>();
  /** How often an event was chosen: the answer to an older choice is late. */
  #choices = 0;

  constructor(port: Port, overview: TimelineOverview | null) {
    this.state = new Store<TimelineState>({
      overview: null,
      link: "ready",
      problem: null,
      event: null,
      wanted: null,
      stretch: null,
      sums: null,
      whole: null,
      query: "",
      hits: null,
      compared: null,
    });
    this.client = new Client<TimelineAnswers>(
      port,
      (link) => this.state.set({ link }),
      () => undefined,
    );
    this.load(overview);
  }

  /** Takes over another overview: the profile was released and came back. */
  load(overview: TimelineOverview | null): void {
    this.#names.clear();
    for (const [number, name] of (overview?.names ?? []).entries()) this.#names.set(number, name);
    this.state.set({ overview, whole: null, compared: null });
  }

  /** What an event is called, as far as that was told. */
  nameOf(number: number): string {
    return this.#names.get(number) ?? "";
  }

  /** Bars and curves of a stretch of time, for the rows with these keys, for one view. */
  async window(
    asker: Asker<TimelineAnswers>,
    range: Range,
    columns: number,
    keys: readonly number[],
  ): Promise<LoadedWindow> {
    const args = { start: range.start, end: range.end, columns, keys };
    const answer = await asker.ask("window", args);
    for (const [number, name] of Object.entries(answer.names)) this.#names.set(+number, name);
    const { levels, low, ...spans } = answer.columns;
    const levelled = answer.curves.map((key, i): [number, Levels] => {
      const part = (column: Column): Column =>
        column.subarray(i * answer.cut, (i + 1) * answer.cut) as Column;
      const own = { start: answer.start, end: answer.end };
      return [key, { range: own, high: part(levels!), low: part(low!) }];
    });
    const { exact } = answer;
    return { spans: new Spans(spans as unknown as SpanColumns), levels: new Map(levelled), exact };
  }

  /** Chooses an event by its number, or none; `show` brings it into sight in all views. */
  async choose(event: number | null, show = false): Promise<void> {
    if (event === null) {
      this.take(null);
      return;
    }
    this.#choices += 1;
    const choice = this.#choices;
    const found = await this.#asked(() => this.client.ask("event", { event }));
    if (!found || choice !== this.#choices) return;
    this.state.set(show ? { event: found, wanted: found } : { event: found });
  }

  /** Chooses an event that is known, or none. */
  take(event: EventInfo | null): void {
    this.#choices += 1;
    this.state.set({ event });
  }

  /** Marks a stretch of time and asks for its figures. */
  async mark(stretch: Range | null): Promise<void> {
    this.state.set(stretch ? { stretch } : { stretch, sums: null });
    if (!stretch) return;
    const sums = await this.#asked(() => this.client.ask("select", { ...stretch }));
    if (sums && this.state.now.stretch === stretch) this.state.set({ sums });
  }

  /** Asks for the figures of all of it, once. */
  async sumAll(): Promise<void> {
    const { overview, whole } = this.state.now;
    if (!overview || whole) return;
    const [start, end] = overview.span;
    const found = await this.#asked(() => this.client.ask("select", { start, end }, "whole"));
    if (found) this.state.set({ whole: found });
  }

  async search(query: string): Promise<void> {
    this.state.set({ query });
    if (!query.trim()) {
      this.state.set({ hits: null });
      return;
    }
    const hits = await this.#asked(() => this.client.ask("search", { query }));
    if (hits && this.state.now.query === query) this.state.set({ hits });
  }

  async compare(): Promise<void> {
    if (!this.state.now.overview?.other || this.state.now.compared) return;
    const compared = await this.#asked(() => this.client.ask("compare", {}));
    if (compared) this.state.set({ compared });
  }

  /** Takes the debugger of the record to a kernel; the number of the request, null if it failed. */
  async open(kernel: number, tab: "kernels" | "rewrites"): Promise<number | null> {
    const opened = await this.#asked(() => this.client.ask("open", { kernel, tab }));
    return opened?.reveal ?? null;
  }

  /** Shows an error once; that a request gave way to a newer one is none. */
  report(error: unknown): void {
    if (error instanceof Superseded || error instanceof KernelGone) return;
    this.state.set({ problem: error instanceof Error ? error.message : String(error) });
  }

  async #asked<T>(ask: () => Promise<T>): Promise<T | null> {
    try {
      const answer = await ask();
      if (this.state.now.problem) this.state.set({ problem: null });
      return answer;
    } catch (error) {
      this.report(error);
      return null;
    }
  }
}
