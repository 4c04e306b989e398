// Printed by `python -m tinylab_widgets.timeline_messages`; change that file, not this one.

import type { Columns } from "./columns.ts";

/** A lane: its rows bear the keys from `key` on; a lane of levels has one. */
export interface LaneInfo {
  readonly key: number;
  readonly rows: number;
  readonly name: string;
  readonly group: string;
  readonly levels: boolean;
  readonly unit: string;
  readonly events: number;
  readonly peak: number | null;
  readonly overlapping: number;
}

/** One figure of a kernel, and whether it was measured, counted or estimated. */
export interface CounterFigure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly kind: string;
  readonly note: string;
}

/** Kernels of one name; figures: some of what was counted of it. */
export interface TopRow {
  readonly name: string;
  readonly runs: number;
  readonly programs: number;
  readonly total_ns: number;
  readonly mean_ns: number;
  readonly median_ns: number;
  readonly longest_ns: number;
  readonly share: number;
  readonly figures?: readonly CounterFigure[];
}

/** All that a timeline shows before it asks for anything. */
export interface TimelineOverview {
  readonly name: string;
  readonly span: readonly number[];
  readonly events: number;
  readonly lanes: readonly LaneInfo[];
  readonly markers: readonly (readonly (number | string)[])[];
  readonly names: readonly string[];
  readonly notices: readonly string[];
  readonly colours: readonly string[];
  readonly top: readonly TopRow[];
  readonly counted: boolean;
  readonly recorded: boolean;
  readonly other: string | null;
  readonly running: boolean;
}

/** What a kernel is estimated to do, and how fast it did it. */
export interface EventWork {
  readonly ops: number;
  readonly bytes: number;
  readonly gops: number;
  readonly gbs: number;
}

/** Counters of a kernel, or the reason why there are none. */
export interface EventCounters {
  readonly figures: readonly CounterFigure[];
  readonly message: string;
  readonly notes: readonly string[];
}

/** One event; `kernel` is its number in the record, where there is one. */
export interface EventInfo {
  readonly event: number;
  readonly name: string;
  readonly lane: string;
  readonly kind: string;
  readonly key: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly duration_ns: number;
  readonly value: number;
  readonly kernel: number | null;
  readonly work: EventWork | null;
  readonly counters: EventCounters | null;
}

/** Figures of some events; busy: the share of the time that they fill. */
export interface SumsRow {
  readonly lane?: string;
  readonly count: number;
  readonly total_ns: number;
  readonly mean_ns: number;
  readonly median_ns: number;
  readonly longest_ns: number;
  readonly busy: number;
}

/** Figures of a stretch of time: of all, of each lane, of kernels by name. */
export interface StretchSums {
  readonly start: number;
  readonly end: number;
  readonly all: SumsRow;
  readonly lanes: readonly SumsRow[];
  readonly top: readonly TopRow[];
}

/** What a search found: the first events by time, and how many there are. */
export interface TimelineHits {
  readonly hits: readonly EventInfo[];
  readonly count: number;
}

/** Kernels by total time. */
export interface TopRows {
  readonly rows: readonly TopRow[];
}

/** A kernel in two runs: the first, then the second; other opts give it another name. */
export interface ComparedRow {
  readonly name: string;
  readonly names: readonly string[];
  readonly runs: readonly number[];
  readonly programs: readonly number[];
  readonly total_ns: readonly number[];
  readonly mean_ns: readonly (number | null)[];
  readonly change_ns: number;
  readonly ratio: number | null;
}

/** Two runs side by side. */
export interface Compared {
  readonly names: readonly string[];
  readonly rows: readonly ComparedRow[];
}

/** A kernel that the debugger of its record now stands at: the number of the request. */
export interface Opened {
  readonly reveal: number;
}

/** Bars of some rows in columns, and the curves of some lanes, see `timeline_desk.window`. */
export interface WindowAnswer {
  readonly start: number;
  readonly end: number;
  readonly cut: number;
  readonly exact: boolean;
  readonly curves: readonly number[];
  readonly names: { readonly [key: string]: string };
  readonly columns: Columns;
}

/** What each question is answered with. */
export interface TimelineAnswers {
  readonly window: WindowAnswer;
  readonly event: EventInfo;
  readonly select: StretchSums;
  readonly search: TimelineHits;
  readonly top: TopRows;
  readonly compare: Compared;
  readonly open: Opened;
}
