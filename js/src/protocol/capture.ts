/** Captures as the front end knows them: shared by all views of a model. */

import { Superseded } from "../base/lanes.ts";
import type { Range } from "../base/range.ts";
import { Store } from "../base/store.ts";
import type {
  Advanced,
  CaptureAnswers,
  CaptureOverview,
  ClassPair,
  Comparison,
  StreamInfo,
  TraceInfo,
} from "./capture_types.ts";
import { Client, KernelGone, type Link, type Port } from "./client.ts";
import type { Column } from "./columns.ts";

/** A stream as far as it has been read. */
export interface Trace {
  readonly info: TraceInfo;
  /** Numbers of the places where waves ran. */
  readonly waves: Column;
  readonly progress: number;
  readonly done: boolean;
}

/** A bar of a lane, or several that were merged. */
export interface Span {
  readonly lane: number;
  readonly start: number;
  readonly end: number;
  readonly colour: number;
  readonly op: number;
  /** Which instruction it is, -1 where that is not known; of a wave, its threads. */
  readonly number: number;
  readonly stall: number;
  readonly count: number;
}

/** An instruction of the program with its figures. */
export interface Line {
  readonly pc: number;
  readonly text: string;
  readonly target: number;
}

/** Figures of an instruction; `time` is what waves spent at it, waiting and working. */
export const FIGURES = ["hits", "total", "mean", "longest", "stall", "time"] as const;
export type Figure = (typeof FIGURES)[number];
export type Figures = Readonly<Record<Figure, Float64Array>>;

export interface Program {
  readonly lines: readonly Line[];
  readonly figures: Figures;
  /** Why there is no text, or no program. */
  readonly note: string;
}

export interface Compared {
  readonly classes: readonly ClassPair[];
  /** Figures of the second trace by instruction; null if it ran another program. */
  readonly figures: Figures | null;
}

export type CaptureTab = "trace" | "counters";

export interface CaptureState {
  readonly overview: CaptureOverview | null;
  readonly link: Link;
  readonly problem: string | null;
  readonly tab: CaptureTab;
  /** The stream that is shown, and one that it is compared with. */
  readonly stream: number | null;
  readonly second: number | null;
  readonly traces: ReadonlyMap<number, Trace>;
  /** Whether reading goes on; it is stopped by hand. */
  readonly reading: boolean;
  readonly programs: ReadonlyMap<number, Program>;
  readonly compared: Compared | null;
  /** The instruction whose events are marked. */
  readonly instruction: number | null;
  readonly span: Span | null;
  readonly stretch: Range | null;
  /** Where the lanes stand, at rest. */
  readonly view: Range | null;
  /** Where they are told to stand, by Python or by a search: a new object each time. */
  readonly wanted: Range | null;
  readonly readouts: readonly number[];
  readonly counter: string | null;
}

const SLICE_S = 0.15;
/** The first slice is short: something is to be seen soon. */
const FIRST_SLICE_S = 0.04;
/** How often what there is to see is told again while a long stream is read. */
const FULL_MS = 1200;

/** Holds what is shown and chosen, and reads streams on, a slice at a time. */
export class CaptureSession {
  readonly state: Store<CaptureState>;
  readonly client: Client<CaptureAnswers>;
  /** Views that are open, for clean-up and for tests. */
  readonly views = new Set<object>();
  readonly #reading = new Set<number>();

  constructor(port: Port, overview: CaptureOverview | null) {
    this.state = new Store<CaptureState>({ ...NOTHING, link: "ready" });
    this.client = new Client<CaptureAnswers>(
      port,
      (link) => this.#onLink(link),
      () => undefined,
    );
    this.load(overview);
  }

  /** Takes over another overview: it was released and came back. */
  load(overview: CaptureOverview | null): void {
    const stream = overview?.first ?? null;
    this.state.set({
      ...NOTHING,
      overview,
      tab: overview && overview.streams.length === 0 ? "counters" : "trace",
      readouts: overview && overview.readouts.length > 0 ? [0] : [],
    });
    if (stream !== null) this.chooseStream(stream);
  }

  info(stream: number | null): StreamInfo | null {
    return stream === null ? null : (this.state.now.overview?.streams[stream] ?? null);
  }

  /** The trace that is shown, as far as it has been read. */
  get trace(): Trace | null {
    const { stream, traces } = this.state.now;
    return stream === null ? null : (traces.get(stream) ?? null);
  }

  get program(): Program | null {
    const { stream, programs } = this.state.now;
    return stream === null ? null : (programs.get(stream) ?? null);
  }

  chooseStream(stream: number): void {
    if (!this.info(stream) || stream === this.state.now.stream) return;
    this.state.set({
      stream,
      ...AT_FIRST,
    });
    void this.#read(stream);
  }

  /** Compares with another stream, or with none. */
  chooseSecond(second: number | null): void {
    const valid = second === null || (this.info(second) && second !== this.state.now.stream);
    if (!valid || second === this.state.now.second) return;
    this.state.set({ second, compared: null, reading: true });
    if (second !== null) void this.#read(second);
  }

  chooseInstruction(instruction: number | null): void {
    const count = this.program?.lines.length ?? Number.POSITIVE_INFINITY;
    if (instruction !== null && (instruction < 0 || instruction >= count)) return;
    this.state.set({ instruction });
  }

  chooseSpan(span: Span | null): void {
    const isInstruction = span !== null && span.count === 1 && span.number >= 0 && span.op >= 0;
    this.state.set(isInstruction ? { span, instruction: span.number } : { span });
  }

  /** Stops reading, or goes on with it. */
  setReading(reading: boolean): void {
    const { stream, second } = this.state.now;
    this.state.set({ reading });
    if (!reading && stream !== null && !this.trace?.done) void this.#look(stream);
    if (reading && stream !== null) void this.#read(stream);
    if (reading && second !== null) void this.#read(second);
  }

  report(error: unknown): void {
    if (error instanceof Superseded || error instanceof KernelGone) return;
    this.state.set({ problem: error instanceof Error ? error.message : String(error) });
  }

  // Reading.

  #isWanted(stream: number): boolean {
    const { stream: first, second, reading, overview } = this.state.now;
    return overview !== null && reading && (stream === first || stream === second);
  }

  async #read(stream: number): Promise<void> {
    if (this.#reading.has(stream)) return;
    this.#reading.add(stream);
    let told = 0;
    try {
      const wasDone = this.state.now.traces.get(stream)?.done ?? false;
      while (this.#isWanted(stream) && !this.state.now.traces.get(stream)?.done) {
        const isFirst = !this.state.now.traces.has(stream);
        const full = isFirst || Date.now() - told > FULL_MS;
        const args = { stream, seconds: isFirst ? FIRST_SLICE_S : SLICE_S, full };
        const answer = await this.client.ask("advance", args, `advance ${stream}`);
        if (answer.info) told = Date.now();
        this.#take(stream, answer);
      }
      if (!this.state.now.traces.get(stream)?.done) return;
      if (!wasDone) await this.#loadProgram(stream);
      await this.#compare();
    } catch (error) {
      this.report(error);
    } finally {
      this.#reading.delete(stream);
    }
  }

  /** What was read until reading was stopped is made ready to be seen. */
  async #look(stream: number): Promise<void> {
    try {
      const args = { stream, seconds: 0, full: true };
      for (let ready = false; !ready && !this.state.now.reading; ) {
        const answer = await this.client.ask("advance", args, `look ${stream}`);
        ready = answer.info !== undefined;
        this.#take(stream, answer);
      }
    } catch (error) {
      this.report(error);
    }
  }

  #take(stream: number, answer: Advanced): void {
    const { traces } = this.state.now;
    const before = traces.get(stream);
    const info = answer.info ?? before?.info;
    if (!info) return;
    const waves = answer.columns?.waves ?? before?.waves ?? new Uint32Array();
    const { progress, done } = answer;
    this.state.set({ traces: new Map(traces).set(stream, { info, waves, progress, done }) });
    // The program is shown at once; its figures come again when all has been read.
    if (!before) void this.#loadProgram(stream);
  }

  /** Asks for a program, some thousand instructions at a time. */
  async #loadProgram(stream: number): Promise<void> {
    try {
      const lines: Line[] = [];
      const parts: Record<string, Column>[] = [];
      for (;;) {
        const lane = `program ${stream}`;
        const page = await this.client.ask("program", { stream, first: lines.length }, lane);
        for (const [pc, text, target] of page.rows) {
          lines.push({ pc: Number(pc), text: String(text), target: Number(target) });
        }
        parts.push(page.columns);
        if (lines.length < page.total && page.rows.length > 0) continue;
        const program = { lines, figures: figuresOf(parts, ""), note: page.note };
        this.state.set({ programs: new Map(this.state.now.programs).set(stream, program) });
        return;
      }
    } catch (error) {
      this.report(error);
    }
  }

  async #compare(): Promise<void> {
    const { stream: first, second, traces } = this.state.now;
    if (first === null || second === null) return;
    if (!traces.get(first)?.done || !traces.get(second)?.done) return;
    try {
      const answer = await this.client.ask("compare", { first, second });
      if (this.state.now.second === second) this.state.set({ compared: comparedOf(answer) });
    } catch (error) {
      this.report(error);
    }
  }

  #onLink(link: Link): void {
    this.state.set({ link });
  }
}

function comparedOf(answer: Comparison): Compared {
  const figures = answer.same_program ? figuresOf([answer.columns], "second_") : null;
  return { classes: answer.classes, figures };
}

/** Columns of several pages, one after the other. */
function figuresOf(parts: readonly Record<string, Column>[], prefix: string): Figures {
  const column = (name: string): Float64Array =>
    Float64Array.from(parts.flatMap((part) => [...(part[`${prefix}${name}`] ?? [])]));
  return Object.fromEntries(FIGURES.map((name) => [name, column(name)])) as Record<
    Figure,
    Float64Array
  >;
}

/** How one looks at a stream when it is chosen. */
const AT_FIRST = {
  second: null,
  reading: true,
  compared: null,
  instruction: null,
  span: null,
  stretch: null,
  view: null,
  wanted: null,
} as const;

const NOTHING: Omit<CaptureState, "link"> = {
  ...AT_FIRST,
  overview: null,
  problem: null,
  tab: "trace",
  stream: null,
  traces: new Map(),
  programs: new Map(),
  readouts: [],
  counter: null,
};
