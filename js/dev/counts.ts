/** Counters of the synthetic matmul, as the kernel would answer. */
import type { Counts, Figure, OptEdit, UopCounts } from "../src/protocol/types.ts";

const figure = (name: string, value: number, unit: string): Figure => ({
  name,
  value,
  unit,
  kind: "counted",
  note: "",
});

const uop = (place: number, op: string, sort: string, more: Partial<UopCounts>): UopCounts => ({
  uop: place,
  op,
  sort,
  runs: 1000,
  lanes: 1,
  amount: 1000,
  addressing: false,
  buffer: null,
  bytes: 0,
  touches: 0,
  misses: [],
  cold: 0,
  ...more,
});

export function fakeCounts(kernel: number, opts: readonly OptEdit[]): Counts {
  if (opts.some((opt) => opt.arg === 7)) {
    return { kernel, opts, status: "refused", message: "7 can't divide 64" };
  }
  return {
    kernel,
    opts,
    status: "ok",
    message: "",
    figures: [
      figure("flops", 524_288, "operations"),
      figure("L1 misses", 768, "lines"),
      { ...figure("cycles", 1234, "cycles"), kind: "measured", note: "scaled" },
    ],
    levels: [
      {
        name: "L1",
        size_bytes: 49152,
        ways: 12,
        line_bytes: 64,
        source: "machine",
        touches: 10000,
        misses: 768,
      },
      {
        name: "L2",
        size_bytes: 1 << 20,
        ways: 16,
        line_bytes: 64,
        source: "machine",
        touches: 768,
        misses: 768,
      },
    ],
    loops: [{ uop: 1, name: "Lidx0", entered: 1, trips: 64 }],
    buffers: [
      {
        slot: 1,
        size_bytes: 16384,
        dtype: "float32",
        loads: 4096,
        stores: 0,
        bytes_loaded: 16384,
        bytes_stored: 0,
        touches: 10000,
        misses: [768, 768],
        unique_bytes: 16384,
      },
    ],
    uops: [
      uop(2, "LOAD", "load", {
        buffer: 1,
        bytes: 4000,
        touches: 1000,
        misses: [768, 768],
        cold: 256,
      }),
      uop(3, "MULACC", "float multiply-add", { amount: 16000 }),
      uop(4, "MUL", "int multiply", { addressing: true, amount: 500 }),
    ],
    notes: ["cache misses are of 16 of each 64 sets, scaled by what was left out"],
    source: [
      { text: "define void @r_64_64_64()", node: null, lines: [], uop: null },
      { text: "  %val0 = load float", node: 11, lines: [3], uop: 2 },
      { text: "  %alu0 = fma", node: 12, lines: [3], uop: 3 },
    ],
    assembly: [{ text: "  vmovss", source_line: 1 }],
    cells: [{ line: 3, operations: 16000, bytes: 4000, misses: 768 }],
    roofline: {
      machine: {
        arithmetic: {
          name: "arithmetic",
          rate: 200,
          unit: "GFLOP/s",
          kind: "measured",
          note: "fma",
        },
        levels: [
          { name: "L1", rate: 500, unit: "GB/s", kind: "measured", note: "reading" },
          { name: "memory", rate: 50, unit: "GB/s", kind: "measured", note: "reading" },
        ],
        threads: 1,
      },
      points: [
        { level: "L1", bytes: 16384, intensity: 32, gflops: 100, gbs: 3, kind: "counted" },
        { level: "memory", bytes: 0, intensity: null, gflops: 100, gbs: 0, kind: "counted" },
      ],
      gflops: 100,
      elapsed_ns: 5243,
      bound: "arithmetic",
      reached: 0.5,
    },
    advice: [
      {
        name: "new_lines",
        title: "the load of data1 touches a new cache line at each step of axis 2",
        figures: [figure("lines touched per element", 1, "lines")],
        opts: [{ op: "UPCAST", axis: 1, arg: 16 }],
        uops: [2],
      },
    ],
  };
}
