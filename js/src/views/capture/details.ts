/** What is known of the chosen event, of a stretch of time, of the stream; sums by class. */
import { Superseded } from "../../base/lanes.ts";
import { lengthText, timeText } from "../../base/ruler.ts";
import { compact, count, digits, plural } from "../../base/text.ts";
import type { Span } from "../../protocol/capture.ts";
import type { ClassPair, ClassRow, StretchInfo, TraceInfo } from "../../protocol/capture_types.ts";
import { h, setText } from "../dom.ts";
import type { CaptureContext } from "./context.ts";
import { changeLook, changeText } from "./listing.ts";
import { type TraceSource, WAVE_LANE } from "./source.ts";

const MOST_CLASSES = 40;

export function detailsPanel(
  context: CaptureContext,
  source: () => TraceSource | null,
): HTMLElement {
  return h(
    "div",
    { class: "tl-side tl-trace-side" },
    eventPart(context, source),
    stretchPart(context),
    streamPart(context),
    classPart(context),
  );
}

type Fact = readonly [string, string];

function facts(rows: readonly Fact[]): HTMLElement {
  return h(
    "dl",
    { class: "tl-facts" },
    ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

function part(
  title: string,
  name: string,
): { el: HTMLElement; body: HTMLElement; head: HTMLElement } {
  const body = h("div", { class: "tl-part" });
  const head = h("h3", {}, title);
  const el = h(
    "section",
    { class: "tl-panel", "data-name": name },
    h("header", { class: "tl-head" }, head),
    body,
  );
  return { el, body, head };
}

// The chosen event.

function eventPart(
  { session, signal }: CaptureContext,
  source: () => TraceSource | null,
): HTMLElement {
  const { el, body, head } = part("Event", "event");
  session.state.watch(
    ["span", "programs", "stream"],
    () => {
      const { span } = session.state.now;
      const lanes = source();
      el.hidden = !span || !lanes;
      if (!span || !lanes) return;
      const many = span.count > 1;
      setText(head, many ? `${count(span.count)} events` : isWave(span) ? "Wave" : "Event");
      body.replaceChildren(
        facts([["lane", lanes.laneName(span.lane)], ...eventFacts(span, lanes)]),
      );
      if (many) body.append(h("p", { class: "tl-note" }, "A closer look shows each."));
    },
    signal,
  );
  return el;
}

const isWave = (span: Span): boolean => span.lane >= WAVE_LANE;

function eventFacts(span: Span, lanes: TraceSource): Fact[] {
  const when: Fact[] = [
    ["from", timeText(span.start, "cycles")],
    ["for", lengthText(span.end - span.start, "cycles")],
  ];
  if (span.count > 1) return when;
  if (isWave(span)) return [["threads", count(span.number)], ...when];
  const line = lanes.lineOf(span);
  const what: Fact[] = line
    ? [
        ["code", line.text.replace(/\s+/g, " ")],
        ["pc", `0x${line.pc.toString(16)}`],
      ]
    : [["class", lanes.name(span)]];
  const stall: Fact[] = span.stall > 0 ? [["stall", lengthText(span.stall, "cycles")]] : [];
  return [...what, ...when, ...stall];
}

// A stretch of time.

function stretchPart({ session, asker, signal }: CaptureContext): HTMLElement {
  const { el, body } = part("Marked stretch", "stretch");
  const ask = async (): Promise<void> => {
    const { stretch, stream } = session.state.now;
    el.hidden = !stretch || stream === null;
    if (!stretch || stream === null) return;
    const { start, end } = stretch;
    try {
      const found = await asker.ask("selection", { stream, start, end });
      if (session.state.now.stretch !== stretch) return;
      body.replaceChildren(facts(stretchFacts(found, start, end)), classTable(found.classes));
    } catch (error) {
      if (!(error instanceof Superseded)) session.report(error);
    }
  };
  session.state.watch(["stretch", "stream"], () => void ask(), signal);
  return el;
}

function stretchFacts(found: StretchInfo, start: number, end: number): Fact[] {
  const rows: Fact[] = [
    ["from", `${count(start)} to ${count(end)}`],
    ["for", lengthText(found.cycles, "cycles")],
    ["waves", `${count(found.waves)}, ${count(found.waves_started)} of them begun here`],
    ["alive", `${digits(found.mean_occupancy)} at a time`],
  ];
  if (found.note) rows.push(["note", found.note]);
  return rows;
}

/** A table of classes: what each is, and some cells beside. */
function tableOf<Row extends ClassLike>(
  heads: readonly (readonly [string, string?])[],
  rows: readonly Row[],
  cells: (row: Row) => readonly HTMLElement[],
): HTMLElement {
  return h(
    "table",
    { class: "tl-table tl-class-table" },
    h(
      "thead",
      {},
      h("tr", {}, h("th", {}, "class"), ...heads.map(([word, title]) => numberHead(word, title))),
    ),
    h(
      "tbody",
      {},
      ...rows.slice(0, MOST_CLASSES).map((row) => h("tr", {}, classCell(row), ...cells(row))),
    ),
  );
}

interface ClassLike {
  readonly class: string;
  readonly category: string;
}

function classTable(rows: readonly ClassRow[]): HTMLElement {
  const more = (["total", "stall"] as const).filter((name) =>
    rows.some((row) => row[name] !== undefined),
  );
  const words = { total: "cycles", stall: "stall" };
  return tableOf([["hits"], ...more.map((name) => [words[name]] as const)], rows, (row) => [
    numberCell(row.hits),
    ...more.map((name) => numberCell(row[name] ?? 0)),
  ]);
}

const numberHead = (word: string, title?: string): HTMLElement =>
  h("th", { class: "tl-num", title }, word);
const numberCell = (value: number): HTMLElement =>
  h(
    "td",
    { class: "tl-num", title: value >= 1e6 ? count(value) : undefined },
    value === 0 ? "" : compact(value),
  );

function classCell(row: ClassLike): HTMLElement {
  const colour = `cat-${row.category.toLowerCase().replaceAll(" ", "-")}`;
  return h(
    "td",
    { title: row.category },
    h("i", { class: "tl-swatch", style: `background: var(--tl-${colour})` }),
    ` ${row.class}`,
  );
}

// The stream.

/** Problems that are always on screen, so that zero is seen to be zero. */
const COUNTED: readonly (readonly [string, string, string])[] = [
  ["lost", "lost", "Packets that the hardware says it lost"],
  ["registers_dropped", "dropped", "Register writes that the hardware says it dropped"],
  ["undecoded_nibbles", "undecoded", "Half bytes that start no packet"],
  ["odd_timestamps", "skipped", "Timestamps that are not absolute"],
  ["waves_unclosed", "open waves", "Waves without an end"],
  ["waves_unopened", "lone ends", "Ends of waves without a start"],
  ["executions_unmatched", "lone executions", "Executions that no issue was found for"],
];

function streamPart({ session, signal }: CaptureContext): HTMLElement {
  const { el, body, head } = part("Stream", "stream-info");
  let told: TraceInfo | null = null;
  session.state.watch(
    ["stream", "traces", "overview"],
    () => {
      const info = session.trace?.info;
      el.hidden = !info;
      if (!info || info === told) return;
      told = info;
      // What holds no packet says nothing of its family.
      setText(head, info.packets > 0 ? `Stream · ${info.family.toUpperCase()}` : "Stream");
      // Waves end, and executions are matched, in what is not read yet.
      const chips = COUNTED.filter(
        ([key], i) => i < 4 || (info.done && (info.problems[key] ?? 0) > 0),
      ).map(([key, word, title]) => {
        const number = info.problems[key] ?? 0;
        return h(
          "span",
          { class: `tl-chip${number > 0 ? " tl-bad" : ""}`, title },
          h("b", {}, count(number)),
          ` ${word}`,
        );
      });
      body.replaceChildren(
        facts([
          ["packets", count(info.packets)],
          ["waves", `${count(info.waves)}, up to ${count(info.most_waves)} at a time`],
          ["instructions", `${count(info.instructions)} executed${addressText(info)}`],
        ]),
        h("div", { class: "tl-chips" }, ...chips),
        ...info.notes.map((note) => h("p", { class: "tl-note" }, note)),
      );
    },
    signal,
  );
  return el;
}

/** Ends of waves have addresses too, and are no instructions that were counted. */
function addressText({ instructions, mapped }: TraceInfo): string {
  if (mapped === 0) return ", no addresses";
  return mapped >= instructions ? ", all with address" : `, ${count(mapped)} with address`;
}

// Sums by class of the whole stream.

function classPart({ session, asker, signal }: CaptureContext): HTMLElement {
  const { el, body, head } = part("Classes of instructions", "classes");
  let asked: TraceInfo | null = null;
  const ask = async (stream: number): Promise<void> => {
    const { rows } = await asker.ask("classes", { stream });
    if (session.state.now.stream !== stream || session.state.now.compared) return;
    setText(head, `${plural(rows.length, "class")} of instructions`);
    body.replaceChildren(classTable(rows));
  };
  const draw = (): void => {
    const { stream, compared } = session.state.now;
    const info = session.trace?.info ?? null;
    el.hidden = info === null || info.instructions === 0;
    if (stream === null || el.hidden) return;
    if (compared) {
      asked = null;
      setText(head, "Classes, compared");
      body.replaceChildren(comparedTable(compared.classes));
    } else if (info !== asked) {
      asked = info;
      ask(stream).catch((error) => session.report(error));
    }
  };
  session.state.watch(["stream", "traces", "compared"], draw, signal);
  return el;
}

function comparedTable(rows: readonly ClassPair[]): HTMLElement {
  const heads = [
    ["time", "Standing still and working"],
    ["time₂"],
    ["change", "Second over first"],
  ] as const;
  return tableOf(heads, rows, (row) => [
    numberCell(row.first?.time ?? 0),
    numberCell(row.second?.time ?? 0),
    h("td", { class: `tl-num ${changeLook(row.change)}` }, changeText(row.change)),
  ]);
}
