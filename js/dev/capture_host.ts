/** A capture that was made up, answered as `tinylab.profiler.desk` answers: for tests and the page. */

import type { CaptureOverview, TraceInfo } from "../src/protocol/capture_types.ts";
import type { Port, Push, Reply } from "../src/protocol/client.ts";

type Hear = (message: Reply | Push, buffers?: readonly DataView[]) => void;
type Args = Readonly<Record<string, unknown>>;

const SPAN = [1000, 9000] as const;
const WAVE_LANE = 1 << 24;
const CATEGORIES = [
  "scalar",
  "scalar memory",
  "vector",
  "transcendental",
  "matrix",
  "memory",
  "local memory",
  "branch",
  "barrier",
  "wait",
  "message",
  "end",
  "other SIMD",
  "other",
];
const LINES = [
  [0x1000, "s_load_b64 s[0:1], s[0:1]", -1],
  [0x1008, "s_waitcnt lgkmcnt(0)", -1],
  [0x100c, "v_add_f32_e32 v1, v2, v3", -1],
  [0x1010, "s_barrier", -1],
  [0x1014, "s_endpgm", -1],
] as const;
/** Each slot runs the five lines, one after the other, four times. */
const EVENTS = Array.from({ length: 3 * 20 }, (_, i) => {
  const slot = Math.floor(i / 20);
  const start = SPAN[0] + 100 * slot + 300 * (i % 20);
  return { lane: slot, start, length: 200, wait: 150, number: i % 5 };
});
const FIGURES = {
  hits: [12, 12, 12, 12, 12],
  total: [120, 24, 60, 2400, 0],
  mean: [10, 2, 5, 200, 0],
  longest: [30, 2, 9, 260, 0],
  stall: [0, 4000, 12, 2300, 100],
  time: [12, 4012, 24, 2312, 112],
};

export class CaptureHost implements Port {
  readonly asked: { readonly ask: string; readonly args: Args }[] = [];
  /** How many slices it takes to read a stream. */
  slices = 3;
  delayMs = 1;
  /** How often it says that what was read is not sorted yet, when reading was stopped. */
  unready = 0;
  problems: Readonly<Record<string, number>> = {};
  notes: readonly string[] = [];
  note = "";
  refuse: string | null = null;
  readonly #read = new Map<number, number>();
  #hear: Hear = () => undefined;
  #gone: () => void = () => undefined;

  readonly overview: CaptureOverview = {
    name: "made up",
    captures: [{ name: "made up", target: "gfx1100", kernels: [] }],
    streams: [0, 1, 2].map((engine) => ({
      capture: 0,
      name: `se${engine}`,
      engine,
      xcc: 0,
      exec: 1,
      run: 1,
      kernel: "r_4",
      instructions: engine < 2,
      waves: engine < 3,
      bytes: 4096,
    })),
    readouts: [1, 2].map((run) => ({
      capture: 0,
      name: `pmc${run}`,
      exec: run,
      run,
      kernel: "r_4",
      elapsed_ns: 4000 * run,
      counters: 2,
    })),
    categories: CATEGORIES,
    first: 0,
  };

  send(message: unknown): void {
    const { id, ask, args } = message as { id: number; ask: string; args: Args };
    this.asked.push({ ask, args });
    setTimeout(() => {
      if (this.refuse === ask) {
        this.#hear({ id, error: `${ask} was refused` });
        return;
      }
      const answer = this.#answer(ask, args);
      if (answer === undefined) return;
      const { columns, ...rest } = answer as { columns?: Readonly<Record<string, number[]>> };
      if (!columns) this.#hear({ id, ok: answer });
      else this.#hear({ id, ok: { ...rest, columns: specsOf(columns) } }, [packed(columns)]);
    }, this.delayMs);
  }

  listen(hear: Hear): void {
    this.#hear = hear;
  }

  onGone(tell: () => void): void {
    this.#gone = tell;
  }

  go(): void {
    this.#gone();
  }

  count(ask: string): number {
    return this.asked.filter((each) => each.ask === ask).length;
  }

  #answer(ask: string, args: Args): unknown {
    const answers: Readonly<Record<string, (args: Args) => unknown>> = {
      advance: (given) =>
        given.seconds === 0 && this.unready > 0
          ? this.#unready()
          : this.#advance(Number(given.stream), given.full === true),
      window: windowOf,
      program: () => ({ total: 5, first: 0, rows: LINES, note: "", columns: FIGURES }),
      classes: () => ({
        rows: [{ class: "SALU", category: "scalar", hits: 12, total: 90, stall: 3 }],
      }),
      selection: () => ({
        cycles: 50,
        waves: 3,
        waves_started: 1,
        mean_occupancy: 2.5,
        classes: [],
      }),
      search: ({ chunk }) => ({
        hits: [{ time: 1150, lane: 0, start: 1000, end: 1200, op: "SALU", pc: 0x1000 }],
        next: chunk === 0 ? 1 : null,
        of: 2,
      }),
      beside: besideOf,
      compare: () => ({
        classes: [],
        same_program: true,
        columns: Object.fromEntries(
          Object.entries(FIGURES).map(([name, all]) => [`second_${name}`, all.map((n) => 2 * n)]),
        ),
      }),
      counters: () => ({ rows: COUNTERS, metrics: METRICS, note: this.note }),
      grid: ({ rows, columns }) => gridOf(rows as string[], columns as string[]),
      together: ({ readouts }) => ({
        rows: COUNTERS.map(({ name, sum }) => ({
          name,
          values: (readouts as number[]).map((_, i) => sum * (i + 1)),
          change: 2,
          percent: false,
        })),
      }),
    };
    return answers[ask]?.(args);
  }

  #unready(): unknown {
    this.unready -= 1;
    return { done: false, progress: 0.5, end: SPAN[1] };
  }

  #advance(stream: number, full: boolean): unknown {
    const read = Math.min(this.slices, (this.#read.get(stream) ?? 0) + 1);
    this.#read.set(stream, read);
    const done = read === this.slices;
    const head = { done, progress: read / this.slices, end: SPAN[1] };
    return full || done
      ? { ...head, info: this.#info(stream, done), columns: { waves: [0, 1, 0x1102] } }
      : head;
  }

  #info(stream: number, done: boolean): TraceInfo {
    return {
      family: "rdna3",
      done,
      progress: 1,
      bytes: 4096,
      packets: 512,
      end: 12_000,
      span: [...SPAN],
      waves: 3,
      instructions: stream < 2 ? 60 : 0,
      mapped: 60,
      most_waves: 3,
      problems: this.problems,
      faults: [],
      notes: this.notes,
      lanes: {
        slots: stream < 2 ? [0, 1, 2] : [],
        units: ["VALU"],
        other: false,
        place: ["sa", "wgp", "simd", "wave"],
      },
      classes: { 3: "SALU" },
      used: [0, 8, 9],
    };
  }
}

function windowOf({ start, end, keys, mark }: Args): unknown {
  const wanted = new Set(keys as number[]);
  const rows = EVENTS.filter(
    (each) =>
      wanted.has(each.lane) && each.start < Number(end) && each.start + each.length > Number(start),
  );
  const waves = [0, 1, 0x1102].filter((lane) => wanted.has(WAVE_LANE + lane));
  const both = <T>(of: (event: (typeof EVENTS)[number]) => T, wave: (lane: number) => T): T[] => [
    ...rows.map(of),
    ...waves.map(wave),
  ];
  const size = 16;
  return {
    start,
    end,
    level: "detail",
    exact: true,
    columns: {
      lane: both(
        (e) => e.lane,
        (lane) => WAVE_LANE + lane,
      ),
      start: both(
        (e) => e.start,
        () => SPAN[0],
      ),
      length: both(
        (e) => e.length,
        () => SPAN[1] - SPAN[0],
      ),
      wait: both(
        (e) => e.wait,
        () => 0,
      ),
      colour: both(
        (e) => e.number,
        () => CATEGORIES.length,
      ),
      op: both(
        () => 3,
        () => -1,
      ),
      number: both(
        (e) => e.number,
        () => 32,
      ),
      stall: both(
        (e) => e.wait,
        () => 0,
      ),
      count: both(
        () => 1,
        () => 1,
      ),
      ...(mark === undefined
        ? {}
        : {
            marked: both(
              (e) => Number(e.number === mark),
              () => 0,
            ),
          }),
      occupancy_mean: Array.from({ length: size }, () => 2),
      occupancy_most: Array.from({ length: size }, () => 3),
      activity: Array.from({ length: size * CATEGORIES.length }, (_, i) => (i % 5 === 0 ? 0.5 : 0)),
    },
  };
}

function besideOf({ instruction, at, step }: Args): unknown {
  const mine = EVENTS.filter((each) => each.number === instruction)
    .map((each) => ({ ...each, time: each.start + each.wait, end: each.start + each.length }))
    .sort((a, b) => a.time - b.time);
  const found =
    Number(step) > 0
      ? mine.find((each) => each.time > Number(at))
      : mine.findLast((each) => each.time < Number(at));
  if (!found) return { found: null, next: null };
  const { time, lane, start, end } = found;
  return { found: { time, lane, start, end }, next: null };
}

const COUNTERS = ["SQ_WAVES", "GL2C_HIT"].map((name, i) => ({
  name,
  block: "SQ",
  sum: 100 + i,
  max: 30,
  count: 8,
  nonzero: 7,
  max_at: { xcc: 0, inst: 0, se: 1, sa: 0, wgp: 3 },
  axes: { se: 2, wgp: 4 },
}));
const METRICS = [
  {
    key: "l2",
    label: "L2 hit rate",
    value: 75,
    formula: "100 * sum(HIT) / (sum(HIT) + sum(MISS))",
    counted: "100 * 3 / (3 + 1)",
    note: "",
  },
];

function gridOf(rows: readonly string[], columns: readonly string[]): unknown {
  const sizes: Readonly<Record<string, number>> = { se: 2, wgp: 4 };
  const names = (axes: readonly string[]): string[] =>
    axes.reduce<string[]>(
      (all, axis) =>
        all.flatMap((name) =>
          Array.from({ length: sizes[axis]! }, (_, i) => `${name} ${axis}${i}`.trim()),
        ),
      [""],
    );
  const [down, across] = [names(rows), names(columns)];
  const values = Array.from({ length: down.length * across.length }, (_, i) => i);
  return { counter: "SQ_WAVES", rows: down, labels: across, columns: { values } };
}

type Table = Readonly<Record<string, readonly number[]>>;

function specsOf(columns: Table): object[] {
  let offset = 0;
  return Object.entries(columns).map(([name, values]) => {
    const spec = { name, type: "float64", shape: [values.length], offset };
    offset += 8 * values.length;
    return spec;
  });
}

function packed(columns: Table): DataView {
  return new DataView(Float64Array.from(Object.values(columns).flat()).buffer);
}
