/** A thread trace as lanes: which there are, their windows, and what is said of a bar. */
import type { Range } from "../../base/range.ts";
import type { LaneRow } from "../../base/rows.ts";
import { lengthText, timeText } from "../../base/ruler.ts";
import { type SpanColumns, Spans } from "../../base/spans.ts";
import { count, plural } from "../../base/text.ts";
import type { Wanted } from "../../base/windows.ts";
import type { CaptureSession, Span, Trace } from "../../protocol/capture.ts";
import type { CaptureAnswers, TraceWindow } from "../../protocol/capture_types.ts";
import type { Asker } from "../../protocol/client.ts";
import type { LaneSource } from "../lane_canvas.ts";
import type { Curve, LaneWindow } from "../lane_paint.ts";

/** Numbers of lanes, as `tinylab.profiler.scene` has them. */
const UNIT_LANE = 256;
const OTHER_LANE = 264;
export const WAVE_LANE = 1 << 24;
const UNITS = ["SALU", "VALU", "VMEM", "VMEM_ALT", "LDS", "LDS_ALT", "SALU_ALT", "VALU_ALT"];
const OCCUPANCY = -1;
const ACTIVITY = -2;
/** A dispatch is seen with a little of what is around it. */
const AROUND = 0.02;
/** The closest look: so many cycles across the canvas. */
const LEAST = 12;

/** Names of colours in the style sheet: categories, then waves. */
export const colourNames = (categories: readonly string[]): readonly string[] =>
  [...categories, "wave"].map((name) => `cat-${name.toLowerCase().replaceAll(" ", "-")}`);

export class TraceSource implements LaneSource {
  readonly unit = "cycles";
  readonly least = LEAST;
  readonly bounds: Range;
  readonly home: Range;
  readonly rows: readonly LaneRow[];

  constructor(
    private readonly session: CaptureSession,
    private readonly stream: number,
    private readonly trace: Trace,
    /** The questions of the view; windows of one of its canvases supersede each other only. */
    private readonly asker: Asker<CaptureAnswers>,
    private readonly lane: string,
  ) {
    const { span, end } = trace.info;
    const last = Math.max(end, span[1]!, span[0]! + 1);
    this.bounds = { start: 0, end: last + 1 };
    const more = AROUND * (span[1]! - span[0]!) + 2;
    this.home = { start: span[0]! - more, end: span[1]! + more };
    this.rows = rowsOf(trace);
  }

  async load(wanted: Wanted): Promise<{ window: LaneWindow; exact: boolean }> {
    const { range, columns, keys } = wanted;
    const mark = this.session.state.now.instruction ?? undefined;
    const answer = await this.asker.ask(
      "window",
      {
        stream: this.stream,
        start: range.start,
        end: range.end,
        columns,
        keys: keys.filter((key) => key >= 0),
        mark,
      },
      this.lane,
    );
    return { window: this.#window(answer), exact: answer.exact };
  }

  #window(answer: TraceWindow): LaneWindow {
    const { columns } = answer;
    const { lane, start, length, colour, count: counts } = columns;
    const end = new Float64Array(length!.length);
    for (let i = 0; i < end.length; i += 1) end[i] = start![i]! + length![i]!;
    const parts = { ...columns, lane, start, end, colour, count: counts };
    const curves = new Map<number, Curve>([
      [OCCUPANCY, this.#occupancy(answer)],
      [ACTIVITY, this.#activity(answer)],
    ]);
    const note =
      answer.level === "density" ? "slots show their waves: a closer look shows instructions" : "";
    return { spans: new Spans(parts as unknown as SpanColumns), curves, note };
  }

  #occupancy({ start, end, columns }: TraceWindow): Curve {
    const most = this.trace.info.most_waves;
    const colour = this.session.state.now.overview?.categories.length ?? 0;
    return {
      range: { start, end },
      layers: [{ colour, values: columns.occupancy_mean! }],
      line: columns.occupancy_most!,
      top: most,
      topLabel: `up to ${plural(most, "wave")}`,
    };
  }

  #activity({ start, end, columns }: TraceWindow): Curve {
    const size = this.session.state.now.overview?.categories.length ?? 1;
    const flat = columns.activity!;
    const rows = flat.length / size;
    let top = 0;
    const used = new Set<number>();
    for (let row = 0; row < rows; row += 1) {
      let sum = 0;
      for (let category = 0; category < size; category += 1) {
        const rate = flat[row * size + category]!;
        if (rate > 0) used.add(category);
        sum += rate;
      }
      top = Math.max(top, sum);
    }
    const layers = [...used].sort().map((colour) => {
      const values = new Float32Array(rows);
      for (let row = 0; row < rows; row += 1) values[row] = flat[row * size + colour]!;
      return { colour, values };
    });
    return { range: { start, end }, layers, top, topLabel: `up to ${rateText(top)} a cycle` };
  }

  span(window: LaneWindow, row: number): Span {
    const { columns } = window.spans;
    const of = (name: string): number =>
      (columns as unknown as Record<string, ArrayLike<number>>)[name]![row]!;
    return {
      lane: of("lane"),
      start: of("start"),
      end: of("end"),
      colour: of("colour"),
      op: of("op"),
      number: of("number"),
      stall: of("stall"),
      count: of("count"),
    };
  }

  label(window: LaneWindow, row: number): string {
    const span = this.span(window, row);
    return span.count > 1 ? "" : this.name(span);
  }

  /** What a bar is called: its mnemonic, else its class; a wave by its threads. */
  name(span: Span): string {
    if (span.lane >= WAVE_LANE || span.op < 0)
      return span.op < 0 && span.lane < WAVE_LANE ? "wave" : plural(span.number, "thread");
    const line =
      span.number >= 0
        ? this.session.state.now.programs.get(this.stream)?.lines[span.number]
        : undefined;
    const mnemonic = line && /^[a-z]\w+/.exec(line.text)?.[0];
    return mnemonic ?? this.trace.info.classes[String(span.op)] ?? "?";
  }

  tip(window: LaneWindow, row: number): readonly string[] {
    const span = this.span(window, row);
    const length = span.end - span.start;
    const when = `${timeText(span.start, "cycles")}, for ${lengthText(length, "cycles")}`;
    if (span.count > 1)
      return [
        `${count(span.count)} in ${lengthText(length, "cycles")}`,
        "a closer look shows each",
      ];
    if (span.lane >= WAVE_LANE) return [`wave of ${plural(span.number, "thread")}`, when];
    const lines = [this.lineOf(span)?.text ?? this.name(span), when];
    if (span.op >= 0) lines.push(`class ${this.trace.info.classes[String(span.op)] ?? "?"}`);
    if (span.stall > 0) lines.push(`stood still for ${lengthText(span.stall, "cycles")} before`);
    return lines;
  }

  lineOf(span: Span): { readonly text: string; readonly pc: number } | undefined {
    if (span.number < 0 || span.lane >= WAVE_LANE) return undefined;
    return this.session.state.now.programs.get(this.stream)?.lines[span.number];
  }

  /** The name of a lane: "slot 3", "VALU", "sa0 wgp1 simd0 wave2". */
  laneName(key: number): string {
    const { place } = this.trace.info.lanes;
    if (key >= WAVE_LANE) return placeName(key - WAVE_LANE, place);
    if (key === OTHER_LANE) return "other SIMDs";
    if (key >= UNIT_LANE) return UNITS[key - UNIT_LANE] ?? "";
    return slotName(key, this.trace);
  }
}

function rateText(rate: number): string {
  return rate >= 10 ? count(rate) : rate.toFixed(rate < 0.1 ? 3 : 2);
}

const partsOf = (lane: number): readonly [number, number, number, number] => [
  lane >> 16,
  (lane >> 12) & 15,
  (lane >> 8) & 15,
  lane & 255,
];

function placeName(lane: number, names: readonly string[], parts = 4): string {
  return partsOf(lane)
    .slice(0, parts)
    .map((number, i) => `${names[i]}${number}`)
    .join(" ");
}

function slotName(slot: number, trace: Trace): string {
  return trace.info.family === "cdna" ? `simd${slot >> 4} slot ${slot & 15}` : `slot ${slot}`;
}

const HEAD = 20;

function rowsOf(trace: Trace): LaneRow[] {
  const { slots, units, other, place } = trace.info.lanes;
  const rows: LaneRow[] = [
    {
      key: OCCUPANCY,
      kind: "curve",
      label: "Waves alive",
      height: 46,
      group: "",
      title: "Filled: mean of the column; line: the most",
    },
  ];
  if (trace.info.instructions > 0) {
    rows.push({
      key: ACTIVITY,
      kind: "curve",
      label: "Instructions",
      height: 46,
      group: "",
      title: "Instructions a cycle, by category",
    });
    const traced = trace.info.family === "cdna" ? placeName(0, place, 2) : placeName(0, place, 3);
    rows.push(head("slots", `Wave slots · ${traced}`, "The unit whose instructions were traced"));
    for (const key of slots)
      rows.push({ key, kind: "spans", label: slotName(key, trace), height: 19, group: "slots" });
  }
  if (units.length > 0)
    rows.push(head("units", "Execution units", "When units worked, not when waves issued"));
  for (const name of units) {
    rows.push({
      key: UNIT_LANE + UNITS.indexOf(name),
      kind: "spans",
      label: name,
      height: 15,
      group: "units",
    });
  }
  if (other)
    rows.push({ key: OTHER_LANE, kind: "spans", label: "other SIMDs", height: 15, group: "units" });
  return [...rows, ...waveRows(trace)];
}

const head = (group: string, label: string, title: string): LaneRow => ({
  key: 0,
  kind: "head",
  label,
  height: HEAD,
  group,
  title,
});

/** Lanes of waves: thin, grouped by unit, named by SIMD. */
function waveRows(trace: Trace): LaneRow[] {
  const { place } = trace.info.lanes;
  const rows: LaneRow[] = [];
  const lanes = Array.from(trace.waves);
  for (let i = 0; i < lanes.length; ) {
    const unit = lanes[i]! >> 12;
    const group = `unit ${unit}`;
    rows.push(
      head(
        group,
        `Waves · ${placeName(lanes[i]!, place, 2)}`,
        "Each thin row is a slot for a wave",
      ),
    );
    while (i < lanes.length && lanes[i]! >> 12 === unit) {
      const simd = lanes[i]! >> 8;
      let size = 0;
      while (i + size < lanes.length && lanes[i + size]! >> 8 === simd) size += 1;
      // The rows of a SIMD have room for its name.
      const height = Math.max(6, Math.ceil(14 / size));
      for (let slot = 0; slot < size; slot += 1, i += 1) {
        const lane = lanes[i]!;
        rows.push({
          key: WAVE_LANE + lane,
          kind: "spans",
          label: slot === 0 ? `${place[2]}${(lane >> 8) & 15}` : "",
          height,
          group,
          title: placeName(lane, place),
        });
      }
    }
  }
  return rows;
}
