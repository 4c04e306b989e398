// Printed by `python -m tinylab_widgets.messages`; change that file, not this one.

export type Kind = "movement" | "alu" | "reduce" | "memory" | "const" | "range" | "control" | "other";

export type Mark = "" | "+" | "-";

export type Source = "measured" | "counted" | "estimated" | "given";

/** A place in source code. */
export interface Place {
  readonly file: string;
  readonly line: number;
}

/** One pass of a stage: what it is called, and how much it did. */
export interface PassInfo {
  readonly id: number;
  readonly name: string;
  readonly matches: number;
  readonly elapsed_us: number;
  readonly changed: boolean;
  readonly direction: string;
  readonly nodes: number;
  readonly place: Place | null;
  readonly failed: boolean;
  readonly parent?: number | null;
  readonly realize?: number;
}

/** A stage of the way from tensor graph to program, with its passes in their order. */
export interface StageInfo {
  readonly id: number;
  readonly name: string;
  readonly kernel: number | null;
  readonly elapsed_us: number;
  readonly passes: readonly PassInfo[];
}

/** A row of the table of kernels. */
export interface KernelInfo {
  readonly id: number;
  readonly name: string;
  readonly display: string;
  readonly reason: string;
  readonly opts: readonly string[];
  readonly device: string;
  readonly elapsed_us: number | null;
  readonly runs: number;
  readonly gflops: number | null;
  readonly gops?: number | null;
  readonly gbs: number | null;
  readonly lines: readonly number[];
  readonly ops: number | null;
  readonly mem_bytes: number | null;
  readonly cached: boolean;
  readonly method: readonly string[];
  readonly error?: string | null;
}

/** What ended the cell; if it was a rewrite: after which match, by which rule, on which node. */
export interface ErrorInfo {
  readonly type: string;
  readonly message: string;
  readonly pass_id: number | null;
  readonly match: number | null;
  readonly rule?: string | null;
  readonly node?: number | null;
}

/** The text of the cell that was recorded. */
export interface CellInfo {
  readonly text: string;
  readonly lines: number;
}

/** Sums over the record. */
export interface Totals {
  readonly passes: number;
  readonly matches: number;
  readonly kernels: number;
  readonly elapsed_us: number;
}

/** All that a front end shows before it asks for anything. */
export interface Overview {
  readonly version: number;
  readonly name: string;
  readonly status: string;
  readonly error: ErrorInfo | null;
  readonly cell: CellInfo;
  readonly device: string;
  readonly stages: readonly StageInfo[];
  readonly kernels: readonly KernelInfo[];
  readonly totals: Totals;
  readonly hint?: string;
}

/** A uop as it is drawn. */
export interface Node {
  readonly id: number;
  readonly op: string;
  readonly label: string;
  readonly arg: string;
  readonly dtype: string;
  readonly shape: readonly string[] | null;
  readonly src: readonly number[];
  readonly kind: "movement" | "alu" | "reduce" | "memory" | "const" | "range" | "control" | "other";
  readonly lines: readonly number[];
  readonly tag: string | null;
}

/** The rule that made a match, or that raised: it has no time then. */
export interface RuleInfo {
  readonly name: string;
  readonly law: string;
  readonly source: string;
  readonly file: string;
  readonly line: number;
  readonly elapsed_us?: number;
}

/** What ended a pass after its last match: the rule that raised, the node it was tried on. */
export interface Failure {
  readonly message: string;
  readonly rule: RuleInfo | null;
  readonly node: number | null;
}

/** The graph of a pass after match k, as nodes that the asker does not have yet. */
export interface Step {
  readonly pass: number;
  readonly k: number;
  readonly total: number;
  readonly rule: RuleInfo | null;
  readonly before: number | null;
  readonly after: number | null;
  readonly full: boolean;
  readonly nodes: readonly Node[];
  readonly root: number;
  readonly added: readonly number[];
  readonly gone: readonly Node[];
  readonly removed?: readonly number[];
  readonly more?: boolean;
  readonly count?: number;
  readonly failed?: Failure | null;
}

/** More nodes of a step that has very many. */
export interface NodePage {
  readonly nodes: readonly Node[];
  readonly more: boolean;
}

/** A line of the textual form of a graph. */
export interface TextLine {
  readonly text: string;
  readonly node?: number | null;
  readonly mark: "" | "+" | "-";
}

/** The textual form of a step, and its difference from the step before. */
export interface GraphText {
  readonly lines: readonly TextLine[];
  readonly diff: readonly TextLine[];
  readonly more?: boolean;
}

/** One place where a search found something, and how often more it stands in the same stage. */
export interface SearchHit {
  readonly pass: number;
  readonly k: number;
  readonly node: number | null;
  readonly label: string;
  readonly detail?: string;
  readonly passes?: number;
  readonly matches?: number;
}

/** What a search found. */
export interface SearchResult {
  readonly hits: readonly SearchHit[];
  readonly more: boolean;
}

/** What descends from some lines of the cell; the keys of `nodes` are pass ids as text. */
export interface LineMarks {
  readonly kernels: readonly number[];
  readonly nodes: { readonly [key: string]: readonly number[] };
}

/** What is known of one node. */
export interface NodeDetail {
  readonly node: Node;
  readonly lines: readonly number[];
  readonly kernels: readonly number[];
  readonly text: string;
  readonly methods?: readonly string[];
}

/** An optimisation as it is edited. */
export interface OptEdit {
  readonly op: string;
  readonly axis: number | null;
  readonly arg: number | string | readonly number[] | null;
}

/** An axis of a kernel, as opts count them. */
export interface Axis {
  readonly name: string;
  readonly letter: string;
  readonly size: string;
  readonly kind: string;
}

/** Which opts a kernel's device knows. */
export interface AllowedOpts {
  readonly ops: readonly string[];
}

/** A line of rendered source, with the uop that it stands for. */
export interface SourceLine {
  readonly text: string;
  readonly node: number | null;
  readonly lines: readonly number[];
  readonly uop?: number | null;
}

/** A line of assembly, with the line of source that it came from. */
export interface AssemblyLine {
  readonly text: string;
  readonly source_line: number | null;
}

/** What became of one set of opts. */
export interface HistoryRow {
  readonly id: number;
  readonly opts: readonly OptEdit[];
  readonly status: string;
  readonly message: string;
  readonly median_us: number | null;
  readonly p10_us: number | null;
  readonly p90_us: number | null;
  readonly runs: number;
  readonly ratio: number | null;
  readonly ratio_low?: number | null;
  readonly ratio_high?: number | null;
  readonly gflops: number | null;
  readonly gops?: number | null;
  readonly max_error: number | null;
  readonly source?: readonly SourceLine[];
  readonly assembly?: readonly AssemblyLine[];
}

/** An argument of a kernel. */
export interface BufferInfo {
  readonly slot: number;
  readonly size: number;
  readonly dtype: string;
  readonly name?: string;
}

/** One kernel: its opts, what they may be, its source and its runs. */
export interface KernelDetail {
  readonly id: number;
  readonly name: string;
  readonly reason: string;
  readonly opts: readonly OptEdit[];
  readonly allowed: AllowedOpts;
  readonly targets?: readonly string[];
  readonly axes: readonly Axis[];
  readonly source: readonly SourceLine[];
  readonly assembly: readonly AssemblyLine[];
  readonly language: string;
  readonly history: readonly HistoryRow[];
  readonly buffers: readonly BufferInfo[];
  readonly metadata: readonly string[];
}

/** Why an opt cannot be applied. */
export interface Problem {
  readonly index: number;
  readonly message: string;
}

/** The axes after some opts, or the first opt that cannot be applied. */
export interface Actions {
  readonly axes: readonly Axis[];
  readonly problems: Problem | null;
}

/** The answer to `run`, and to `row`, which asks for an earlier run. */
export interface RunResult {
  readonly row: HistoryRow;
  readonly own?: HistoryRow;
}

/** One number about a kernel, and where it comes from. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly kind: "measured" | "counted" | "estimated" | "given";
  readonly note: string;
}

/** What one line of a program did; `uop` is its place in the LINEAR. */
export interface UopCounts {
  readonly uop: number;
  readonly op: string;
  readonly sort: string;
  readonly runs: number;
  readonly lanes: number;
  readonly amount: number;
  readonly addressing: boolean;
  readonly buffer: number | null;
  readonly bytes: number;
  readonly touches: number;
  readonly misses: readonly number[];
  readonly cold: number;
}

/** Traffic of one buffer. */
export interface BufferCounts {
  readonly slot: number;
  readonly size_bytes: number;
  readonly dtype: string;
  readonly loads: number;
  readonly stores: number;
  readonly bytes_loaded: number;
  readonly bytes_stored: number;
  readonly touches: number;
  readonly misses: readonly number[];
  readonly unique_bytes: number;
}

/** One loop: how often it was entered, and all its turns. */
export interface LoopCounts {
  readonly uop: number;
  readonly name: string;
  readonly entered: number;
  readonly trips: number;
}

/** One cache, and what reached it. */
export interface LevelCounts {
  readonly name: string;
  readonly size_bytes: number;
  readonly ways: number;
  readonly line_bytes: number;
  readonly source: string;
  readonly touches: number;
  readonly misses: number;
}

/** What a line of the cell caused. */
export interface CellCounts {
  readonly line: number;
  readonly operations: number;
  readonly bytes: number;
  readonly misses: number;
}

/** A rate of the machine. */
export interface Roof {
  readonly name: string;
  readonly rate: number;
  readonly unit: string;
  readonly kind: "measured" | "counted" | "estimated" | "given";
  readonly note: string;
}

/** What the machine can do with so many threads. */
export interface Machine {
  readonly arithmetic: Roof;
  readonly levels: readonly Roof[];
  readonly threads: number;
}

/** Where a kernel stands under the roof of one level of memory. */
export interface RoofPoint {
  readonly level: string;
  readonly bytes: number;
  readonly intensity: number | null;
  readonly gflops: number;
  readonly gbs: number;
  readonly kind: "measured" | "counted" | "estimated" | "given";
}

/** Roofs, points, and the roof that is nearest. */
export interface Roofline {
  readonly machine: Machine;
  readonly points: readonly RoofPoint[];
  readonly gflops: number;
  readonly elapsed_ns: number;
  readonly bound: string;
  readonly reached: number;
}

/** One thing to try on a kernel, with the figures that say so. */
export interface AdviceInfo {
  readonly name: string;
  readonly title: string;
  readonly figures: readonly Figure[];
  readonly opts: readonly OptEdit[];
  readonly uops: readonly number[];
}

/** Counters of a kernel with some opts; only `status` and `message` where it did not run. */
export interface Counts {
  readonly kernel: number;
  readonly opts: readonly OptEdit[];
  readonly status: string;
  readonly message: string;
  readonly target?: string;
  readonly kind?: "measured" | "counted" | "estimated" | "given";
  readonly figures?: readonly Figure[];
  readonly uops?: readonly UopCounts[];
  readonly buffers?: readonly BufferCounts[];
  readonly loops?: readonly LoopCounts[];
  readonly levels?: readonly LevelCounts[];
  readonly notes?: readonly string[];
  readonly source?: readonly SourceLine[];
  readonly assembly?: readonly AssemblyLine[];
  readonly cells?: readonly CellCounts[];
  readonly roofline?: Roofline | null;
  readonly advice?: readonly AdviceInfo[];
}

/** What each question is answered with. */
export interface Answers {
  readonly step: Step;
  readonly text: GraphText;
  readonly search: SearchResult;
  readonly lines: LineMarks;
  readonly node: NodeDetail;
  readonly kernel: KernelDetail;
  readonly actions: Actions;
  readonly run: RunResult;
  readonly row: RunResult;
  readonly count: Counts;
  readonly more: NodePage;
}
