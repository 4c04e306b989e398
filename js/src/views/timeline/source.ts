/** A profile's lanes as the canvas wants them: rows, windows, labels, and lines for the tip. */
import type { LaneRow } from "../../base/rows.ts";
import { lengthText, timeText } from "../../base/ruler.ts";
import type { Column, SpanColumns } from "../../base/spans.ts";
import { bytes, count, digits, plural, visible } from "../../base/text.ts";
import type { Asker } from "../../protocol/client.ts";
import type { Levels, TimelineSession } from "../../protocol/timeline_session.ts";
import type { LaneInfo, TimelineAnswers, TimelineOverview } from "../../protocol/timeline_types.ts";
import type { LaneSource } from "../lane_canvas.ts";
import type { Curve, LaneWindow } from "../lane_paint.ts";

const ROW = 18;
const NESTED = 16;
/** Devices do the work: their lanes stand out, and short kernels are seen as ticks. */
const DEVICE = 24;
const HEAD = 20;
const CURVE = 46;
/** Lanes with more rows than this are drawn low: nobody reads a hundred nested names at once. */
const MANY_ROWS = 24;
const THIN = 7;
const HEADINGS: Readonly<Record<string, string>> = {
  cell: "Cell",
  compiler: "Compiler",
  device: "Devices",
  memory: "Memory",
};

/** The lanes of an overview; a head for each group that is not a single lane. */
export function rowsOf(lanes: readonly LaneInfo[]): LaneRow[] {
  const rows: LaneRow[] = [];
  let group: string | null = null;
  for (const lane of lanes) {
    if (lane.group !== group) {
      group = lane.group;
      const label = HEADINGS[group] ?? group;
      rows.push({ key: -1 - rows.length, label, kind: "head", height: HEAD, group });
    }
    rows.push(...laneRows(lane));
  }
  return rows;
}

function laneRows(lane: LaneInfo): LaneRow[] {
  const { name, group } = lane;
  const title = `${name}: ${plural(lane.events, "event")}`;
  if (lane.levels) {
    return [{ key: lane.key, label: name, kind: "curve", height: CURVE, group, title }];
  }
  const height =
    lane.rows > MANY_ROWS ? THIN : lane.rows > 1 ? NESTED : group === "device" ? DEVICE : ROW;
  return Array.from({ length: lane.rows }, (_, i) => ({
    key: lane.key + i,
    label: i === 0 ? name : "",
    kind: "spans" as const,
    height,
    group,
    title,
  }));
}

/** The columns that bars of a timeline have beside those of all spans. */
interface BarColumns extends SpanColumns {
  readonly event: Column;
  readonly name: Column;
  readonly busy: Column;
}

export function columnsOf(window: LaneWindow): BarColumns {
  return window.spans.columns as BarColumns;
}

/** asker: the questions of the view that shows it. */
export function sourceOf(
  session: TimelineSession,
  asker: Asker<TimelineAnswers>,
  overview: TimelineOverview,
): LaneSource {
  const [start, end] = overview.span as [number, number];
  const lanes = new Map(overview.lanes.map((lane) => [lane.key, lane]));
  const nameAt = (window: LaneWindow, row: number): string =>
    visible(session.nameOf(columnsOf(window).name[row]!));
  return {
    bounds: { start, end: Math.max(end, start + 1) },
    least: 20,
    unit: "ns",
    rows: rowsOf(overview.lanes),
    async load(wanted) {
      const { spans, levels, exact } = await session.window(
        asker,
        wanted.range,
        wanted.columns,
        wanted.keys,
      );
      const curves = new Map(
        [...levels].map(([key, own]) => [key, curveOf(own, lanes.get(key))] as const),
      );
      return { window: { spans, curves }, exact };
    },
    label: (window, row) => (window.spans.columns.count[row] === 1 ? nameAt(window, row) : ""),
    tip(window, row) {
      const { start: starts, end: ends, count: counts, busy } = columnsOf(window);
      const [from, to] = [starts[row]!, ends[row]!];
      const name = nameAt(window, row) || "…";
      const many = counts[row]!;
      const at = `at ${timeText(Math.round(from), "ns")}`;
      if (many === 1) return [name, lengthText(to - from, "ns"), at];
      return [
        plural(many, "event"),
        `the longest: ${name}`,
        `${digits((100 * busy[row]!) / 255)} % of ${lengthText(to - from, "ns")} are busy`,
        at,
      ];
    },
  };
}

function curveOf(levels: Levels, lane: LaneInfo | undefined): Curve {
  const peak = lane?.peak ?? 0;
  const shown = lane?.unit === "B" ? bytes(peak) : count(peak);
  return {
    range: levels.range,
    layers: [{ colour: 0, values: levels.high }],
    top: Math.max(peak, 1e-9),
    topLabel: `peak ${shown}`,
  };
}
