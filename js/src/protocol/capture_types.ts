// Printed by `python -m tinylab_widgets.capture_messages`; change that file, not this one.

import type { Columns } from "./columns.ts";

/** A run of a kernel in a capture. */
export interface KernelRun {
  readonly name: string;
  readonly exec: number;
  readonly run: number;
  readonly elapsed_ns: number;
}

/** A capture and what ran in it. */
export interface CaptureInfo {
  readonly name: string;
  readonly target: string;
  readonly kernels: readonly KernelRun[];
}

/** A trace stream: one shader engine in one dispatch. */
export interface StreamInfo {
  readonly capture: number;
  readonly name: string;
  readonly engine: number;
  readonly xcc: number;
  readonly exec: number;
  readonly run: number;
  readonly kernel: string;
  readonly instructions: boolean;
  readonly waves: boolean;
  readonly bytes: number;
}

/** Counters read after one dispatch. */
export interface ReadoutInfo {
  readonly capture: number;
  readonly name: string;
  readonly exec: number;
  readonly run: number;
  readonly kernel: string;
  readonly elapsed_ns: number | null;
  readonly counters: number;
}

/** All that a viewer shows before it asks for anything. */
export interface CaptureOverview {
  readonly name: string;
  readonly captures: readonly CaptureInfo[];
  readonly streams: readonly StreamInfo[];
  readonly readouts: readonly ReadoutInfo[];
  readonly categories: readonly string[];
  readonly first: number | null;
}

/** Where and why something could not be decoded. */
export interface Fault {
  readonly byte: number;
  readonly clock: number;
  readonly why: string;
  readonly fatal: boolean;
}

/** Which lanes a stream has; places of waves are in the column `waves`. */
export interface Lanes {
  readonly slots: readonly number[];
  readonly units: readonly string[];
  readonly other: boolean;
  readonly place: readonly string[];
}

/** What there is to see of the part of a stream that has been read. */
export interface TraceInfo {
  readonly family: string;
  readonly done: boolean;
  readonly progress: number;
  readonly bytes: number;
  readonly packets: number;
  readonly end: number;
  readonly span: readonly number[];
  readonly waves: number;
  readonly instructions: number;
  readonly mapped: number;
  readonly most_waves: number;
  readonly problems: { readonly [key: string]: number };
  readonly faults: readonly Fault[];
  readonly notes: readonly string[];
  readonly lanes: Lanes;
  readonly classes: { readonly [key: string]: string };
  readonly used: readonly number[];
}

/** How far reading is, and now and then what there is to see. */
export interface Advanced {
  readonly done: boolean;
  readonly progress: number;
  readonly end: number;
  readonly info?: TraceInfo;
  readonly columns?: Columns;
}

/** Bars of lanes in a window of time, and curves over it. */
export interface TraceWindow {
  readonly start: number;
  readonly end: number;
  readonly level: string;
  readonly exact: boolean;
  readonly columns: Columns;
}

/** Instructions as [pc, text, target], their figures in columns; target -1: no branch. */
export interface ProgramPage {
  readonly total: number;
  readonly first: number;
  readonly rows: readonly (readonly (number | string)[])[];
  readonly tool?: string;
  readonly note: string;
  readonly columns: Columns;
}

/** Sums over a class of instructions. */
export interface ClassRow {
  readonly class: string;
  readonly category: string;
  readonly hits: number;
  readonly total?: number;
  readonly mean?: number;
  readonly longest?: number;
  readonly stall?: number;
  readonly time?: number;
}

/** Sums by class. */
export interface ClassRows {
  readonly rows: readonly ClassRow[];
}

/** Statistics of a stretch of time. */
export interface StretchInfo {
  readonly cycles: number;
  readonly waves: number;
  readonly waves_started: number;
  readonly mean_occupancy: number;
  readonly classes: readonly ClassRow[];
  readonly note?: string;
}

/** An event that a search found: when it was issued, and its bar. */
export interface TraceHit {
  readonly time: number;
  readonly lane: number;
  readonly start: number;
  readonly end: number;
  readonly op: string;
  readonly pc: number | null;
}

/** A page of hits, and the chunk to go on with. */
export interface TraceHits {
  readonly hits: readonly TraceHit[];
  readonly next: number | null;
  readonly of: number;
}

/** An event of an instruction: when it was issued, and its bar. */
export interface EventPlace {
  readonly time: number;
  readonly lane: number;
  readonly start: number;
  readonly end: number;
}

/** The next event of an instruction; or the time to go on from; or neither. */
export interface Beside {
  readonly found: EventPlace | null;
  readonly next: number | null;
}

/** A class of instructions in two traces. */
export interface ClassPair {
  readonly class: string;
  readonly category: string;
  readonly first: ClassRow | null;
  readonly second: ClassRow | null;
  readonly change: number | null;
}

/** Two traces side by side; columns hold figures of instructions if they ran one program. */
export interface Comparison {
  readonly classes: readonly ClassPair[];
  readonly same_program: boolean;
  readonly columns: Columns;
}

/** A counter of a read-out: totals, and how many values lie along its axes. */
export interface CounterRow {
  readonly name: string;
  readonly block: string;
  readonly sum: number;
  readonly max: number;
  readonly count: number;
  readonly nonzero: number;
  readonly max_at: { readonly [key: string]: number } | null;
  readonly axes: { readonly [key: string]: number };
}

/** A ratio in percent with its formula, in names and in numbers. */
export interface MetricRow {
  readonly key: string;
  readonly label: string;
  readonly value: number | null;
  readonly formula: string;
  readonly note: string;
  readonly counted: string;
}

/** All counters and ratios of a read-out; note: what its file lacks. */
export interface CounterRows {
  readonly rows: readonly CounterRow[];
  readonly metrics: readonly MetricRow[];
  readonly note: string;
}

/** Values of a counter by place: the column `values` row by row, labels down and across. */
export interface CounterGrid {
  readonly counter: string;
  readonly rows: readonly string[];
  readonly labels: readonly string[];
  readonly columns: Columns;
}

/** A counter or ratio over several read-outs; change is last over first. */
export interface TogetherRow {
  readonly name: string;
  readonly values: readonly (number | null)[];
  readonly change: number | null;
  readonly percent: boolean;
}

/** Read-outs side by side. */
export interface TogetherRows {
  readonly rows: readonly TogetherRow[];
}

/** What each question is answered with. */
export interface CaptureAnswers {
  readonly advance: Advanced;
  readonly window: TraceWindow;
  readonly program: ProgramPage;
  readonly classes: ClassRows;
  readonly selection: StretchInfo;
  readonly search: TraceHits;
  readonly beside: Beside;
  readonly compare: Comparison;
  readonly counters: CounterRows;
  readonly grid: CounterGrid;
  readonly together: TogetherRows;
}
