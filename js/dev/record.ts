/** A synthetic record: real graphs, really rewritten; only the kernels' times are made up. */
import type { KernelDetail, KernelInfo, Overview, Step } from "../src/protocol/types.ts";
import { type Match, RULES, rewrite, sorted, type Term, Terms, toNode } from "./rules.ts";

export interface RecordedPass {
  readonly id: number;
  readonly name: string;
  readonly stage: number;
  readonly matches: readonly Match[];
  readonly roots: readonly Term[];
}

export interface FakeRecord {
  readonly overview: Overview;
  readonly passes: readonly RecordedPass[];
  readonly kernels: readonly KernelDetail[];
}

export const CELL = `a = Tensor.rand(64, 64)
b = Tensor.rand(64, 64)
c = ((a @ b) * 1 + 0).relu()
c.sum().realize()`;

/** A matmul with some things to simplify, as tensor graph and as one kernel. */
export function matmulRecord(): FakeRecord {
  const terms = new Terms();
  const buffer = (slot: number, line: number): Term =>
    terms.make("BUFFER", [], String(slot), { shape: ["64", "64"], lines: [line] });
  const shaped = (op: string, src: Term, shape: string[], line: number): Term => {
    const sizes = shape.map((size) => terms.constant(Number(size), "weakint"));
    const stack = terms.make("STACK", sizes, "", {
      dtype: "weakint",
      shape: [String(shape.length)],
    });
    return terms.make(op, [src, stack], "", { shape, dtype: src.dtype, lines: [line] });
  };
  const a = shaped(
    "EXPAND",
    shaped("RESHAPE", buffer(0, 1), ["64", "1", "64"], 3),
    ["64", "64", "64"],
    3,
  );
  const b = shaped(
    "EXPAND",
    shaped("RESHAPE", buffer(1, 2), ["1", "64", "64"], 3),
    ["64", "64", "64"],
    3,
  );
  const product = terms.make("MUL", [a, b], "", { lines: [3] });
  const sum = terms.make("REDUCE", [product], "ADD, (2,)", { shape: ["64", "64"], lines: [3] });
  const one = terms.make("MUL", [sum, terms.constant(1)], "", { lines: [3] });
  const zero = terms.make("ADD", [one, terms.constant(0)], "", { lines: [3] });
  const relu = terms.make("MAX", [zero, terms.constant(0)], "", { lines: [3] });
  const total = terms.make("REDUCE", [relu], "ADD, (0, 1)", { shape: [], lines: [4] });
  const tensorRoot = terms.make("SINK", [total], "", { dtype: "void", shape: [] });
  const kernelRoot = kernelGraph(terms);
  return assemble("matmul", CELL, [
    { stage: "tensor graph", name: "early_cleanup", root: tensorRoot, terms },
    { stage: "schedule", name: "assign_ranges", root: tensorRoot, terms },
    { stage: "r_64_64_64", name: "split_ranges", root: kernelRoot, terms },
    { stage: "r_64_64_64", name: "identities", root: kernelRoot, terms },
  ]);
}

function kernelGraph(terms: Terms): Term {
  const range = (axis: number, kind: string, size: number): Term =>
    terms.make("RANGE", [terms.constant(size, "weakint")], `${axis}, ${kind}`, {
      dtype: "weakint",
      lines: [3],
    });
  const param = (slot: number, line: number): Term =>
    terms.make("PARAM", [], String(slot), { shape: ["4096"], lines: [line] });
  const [i, j, k] = [range(0, "LOOP", 64), range(1, "LOOP", 64), range(2, "REDUCE", 64)];
  const weak = (op: string, src: Term[]): Term =>
    terms.make(op, src, "", { dtype: "weakint", shape: [] });
  const size = terms.constant(64, "weakint");
  const at = (row: Term, column: Term): Term =>
    weak("ADD", [weak("MUL", [row, size]), weak("ADD", [column, terms.constant(0, "weakint")])]);
  const load = (slot: number, index: Term): Term =>
    terms.make("INDEX", [param(slot, slot), index], "", { shape: [], lines: [slot] });
  const product = terms.make("MUL", [load(1, at(i!, k!)), load(2, at(k!, j!))], "", { lines: [3] });
  const scaled = terms.make("MUL", [product, terms.constant(1)], "", { lines: [3] });
  const sum = terms.make("REDUCE", [scaled, k!], "ADD", { shape: [], lines: [3] });
  const place = terms.make("INDEX", [param(0, 4), at(i!, j!)], "", { shape: [], lines: [4] });
  const store = terms.make("STORE", [place, sum], "", { dtype: "void", lines: [4] });
  const end = terms.make("END", [store, i!, j!], "", { dtype: "void" });
  return terms.make("SINK", [end], "r_64_64_64", { dtype: "void" });
}

/** a = a + a, `depth` times: a graph that is deep and has twice as many ways as nodes. */
export function doublingRecord(depth: number): FakeRecord {
  const terms = new Terms();
  let a = terms.make("BUFFER", [], "0", { shape: ["32", "322"], lines: [1] });
  for (let i = 0; i < depth; i += 1) a = terms.make("ADD", [a, a], "", { lines: [2] });
  const root = terms.make("SINK", [a], "", { dtype: "void", shape: [] });
  return assemble("doubling", "a = Tensor.empty(32, 322)\nfor _ in range(100): a = a + a", [
    { stage: "tensor graph", name: "early_cleanup", root, terms },
  ]);
}

/** A graph of `count` nodes with long and short edges, like those of a training step. */
export function largeRecord(count: number, seed = 1): FakeRecord {
  const terms = new Terms();
  const random = randomNumbers(seed);
  const made: Term[] = [];
  for (let i = 0; i < 24; i += 1) made.push(terms.make("BUFFER", [], String(i), { lines: [1] }));
  const open = new Set<Term>(made);
  while (made.length < count) {
    const term = randomTerm(terms, made, random);
    for (const used of term.src) open.delete(used);
    open.add(term);
    made.push(term);
  }
  const root = terms.make("SINK", [...open], "", { dtype: "void", shape: [] });
  return assemble(`${count} nodes`, "loss = model(x)\nloss.backward()\nopt.step()", [
    { stage: "tensor graph", name: "early_cleanup", root, terms, limit: 40 },
  ]);
}

type Random = (below: number) => number;

/** The same numbers for the same seed. */
function randomNumbers(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
}

const UNARY = ["RESHAPE", "EXPAND", "REDUCE"];
const BINARY = ["ADD", "MUL", "MAX", "WHERE"];

/** A term over what was made: mostly over what is recent, now and then over anything. */
function randomTerm(terms: Terms, made: readonly Term[], random: Random): Term {
  const recent = (reach: number): Term => made[Math.max(0, made.length - 1 - random(reach))]!;
  const more = { shape: ["128", "64"], lines: [1 + random(3)] };
  const near = recent(40);
  if (random(60) === 0) return terms.make("ADD", [near, terms.constant(0)], "", more);
  const far = random(8) === 0 ? made[random(made.length)]! : recent(90);
  const kind = random(7);
  if (kind < 3) return terms.make(UNARY[kind]!, [near], `axis ${made.length}`, more);
  return terms.make(BINARY[kind - 3]!, [near, far], "", more);
}

interface PassPlan {
  readonly stage: string;
  readonly name: string;
  readonly root: Term;
  readonly terms: Terms;
  readonly limit?: number;
}

function assemble(name: string, cell: string, plans: readonly PassPlan[]): FakeRecord {
  const stages = [...new Set(plans.map((plan) => plan.stage))];
  const passes: RecordedPass[] = [];
  for (const plan of plans) {
    const { matches, roots } = plan.limit
      ? firstMatches(plan, plan.limit)
      : rewrite(plan.root, RULES, plan.terms);
    const stage = stages.indexOf(plan.stage);
    passes.push({ id: passes.length + 1, name: plan.name, stage, matches, roots });
    const end = roots[roots.length - 1]!;
    passes.push({
      id: passes.length + 1,
      name: `check_${plan.stage.split(" ")[0]}`,
      stage,
      matches: [],
      roots: [end],
    });
  }
  const kernels = stages.includes("r_64_64_64") ? [kernelDetail()] : [];
  return { overview: overviewOf(name, cell, stages, passes, kernels), passes, kernels };
}

/** Only the first matches are replayed: the whole of a huge pass would take as long as it is. */
function firstMatches(plan: PassPlan, limit: number): { matches: Match[]; roots: Term[] } {
  let left = limit;
  const limited = RULES.map((rule) => ({
    ...rule,
    apply: (term: Term, terms: Terms) => {
      const after = left > 0 ? rule.apply(term, terms) : null;
      if (after) left -= 1;
      return after;
    },
  }));
  return rewrite(plan.root, limited, plan.terms);
}

function overviewOf(
  name: string,
  cell: string,
  stages: readonly string[],
  passes: readonly RecordedPass[],
  kernels: readonly KernelDetail[],
): Overview {
  const matchCount = passes.reduce((sum, pass) => sum + pass.matches.length, 0);
  return {
    version: 1,
    name,
    status: "ok",
    error: null,
    cell: { text: cell, lines: cell.split("\n").length },
    device: "CPU",
    stages: stages.map((stage, id) => ({
      id,
      name: stage,
      kernel: stage.startsWith("r_") ? 0 : null,
      elapsed_us: 830 + 210 * id,
      passes: passes
        .filter((pass) => pass.stage === id)
        .map((pass) => ({
          id: pass.id,
          name: pass.name,
          matches: pass.matches.length,
          elapsed_us: 40 + 31 * pass.matches.length,
          changed: pass.matches.length > 0,
          direction: "sources first",
          nodes: sorted(pass.roots[0]!).length,
          place: { file: `tinylab/schedule/${pass.name}.py`, line: 12 },
          failed: false,
        })),
    })),
    kernels: kernels.map(kernelRow),
    totals: {
      passes: passes.length,
      matches: matchCount,
      kernels: kernels.length,
      elapsed_us: 2600,
    },
  };
}

function kernelRow(kernel: KernelDetail): KernelInfo {
  return {
    id: kernel.id,
    name: kernel.name,
    display: kernel.name,
    reason: kernel.reason,
    opts: kernel.opts.map((opt) => `${opt.op}(${opt.axis}, ${opt.arg})`),
    device: "CPU",
    elapsed_us: 96.4,
    runs: 12,
    gflops: 5.44,
    gbs: 0.51,
    lines: [3, 4],
    ops: 524288,
    mem_bytes: 49152,
    cached: false,
    method: ["Tensor.matmul", "Tensor.relu"],
  };
}

function kernelDetail(): KernelDetail {
  const text = [
    "define void @r_64_64_64_body(ptr noalias align 64 %data0, ptr %data1, ptr %data2) {",
    "entry:",
    "  br label %loop0",
    "loop0:",
    "  %i0 = phi i64 [ 0, %entry ], [ %i0.next, %latch0 ]",
    "  %row = mul nsw i64 %i0, 64",
    "  %a = load <8 x float>, ptr %p0, align 32",
    "  %b = load <8 x float>, ptr %p1, align 32",
    "  %acc.next = call contract <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x float> %acc)",
    "  store <8 x float> %acc.next, ptr %out, align 32",
    "  br i1 %done, label %exit, label %loop0",
    "exit:",
    "  ret void",
    "}",
  ];
  const assembly: [string, number | null][] = [
    ["r_64_64_64_body:", null],
    ["  xor eax, eax", 4],
    [".LBB0_1:", 3],
    ["  vmovups ymm1, ymmword ptr [rsi + 4*rax]", 6],
    ["  vmovups ymm2, ymmword ptr [rdx + 4*rax]", 7],
    ["  vfmadd231ps ymm0, ymm1, ymm2", 8],
    ["  vmovups ymmword ptr [rdi + 4*rax], ymm0", 9],
    ["  add rax, 8", 10],
    ["  jne .LBB0_1", 10],
    ["  vzeroupper", 12],
    ["  ret", 12],
  ];
  return {
    id: 0,
    name: "r_64_64_64",
    reason: "realised: the sum is asked for by .realize() in line 4",
    opts: [
      { op: "UPCAST", axis: 1, arg: 8 },
      { op: "UNROLL", axis: 0, arg: 4 },
    ],
    allowed: { ops: ["UPCAST", "UNROLL", "LOCAL", "GROUP", "PADTO", "SWAP", "THREAD", "NOLOCALS"] },
    axes: [
      { name: "i", letter: "i", size: "64", kind: "LOOP" },
      { name: "j", letter: "j", size: "8", kind: "LOOP" },
      { name: "k", letter: "k", size: "16", kind: "REDUCE" },
      { name: "j.upcast", letter: "u", size: "8", kind: "UPCAST" },
      { name: "k.unroll", letter: "r", size: "4", kind: "UNROLL" },
    ],
    source: text.map((line, i) => ({
      text: line,
      node: i > 3 && i < 11 ? 20 + i : null,
      lines: i > 4 ? [3] : [],
    })),
    assembly: assembly.map(([line, source]) => ({ text: line, source_line: source })),
    language: "llvm",
    history: [],
    buffers: [0, 1, 2].map((slot) => ({ slot, size: 4096, dtype: "float32" })),
    metadata: ["Tensor.matmul", "Tensor.relu"],
  };
}

/** The answer to `step`, as a difference where the asker has a graph already. */
export function stepOf(
  record: FakeRecord,
  pass: number,
  k: number,
  from: { pass: number; k: number } | null,
): Step {
  const recorded = record.passes.find((item) => item.id === pass)!;
  const root = recorded.roots[k]!;
  const match = k > 0 ? recorded.matches[k - 1]! : null;
  const now = sorted(root);
  const before = k > 0 ? sorted(recorded.roots[k - 1]!) : now;
  const base = from
    ? record.passes.find((item) => item.id === from.pass)?.roots[from.k]
    : undefined;
  const known = new Set(base ? sorted(base) : []);
  const isBefore = new Set(before);
  const isNow = new Set(now);
  return {
    pass,
    k,
    total: recorded.matches.length,
    rule: match
      ? {
          name: match.rule.name,
          law: match.rule.law,
          source: match.rule.source,
          file: "tinylab/uop/symbolic/identities.py",
          line: 31,
          elapsed_us: 4.2,
        }
      : null,
    before: match?.before.id ?? null,
    after: match?.after.id ?? null,
    full: base === undefined,
    nodes: now.filter((term) => !known.has(term)).map(toNode),
    root: root.id,
    added: now.filter((term) => !isBefore.has(term)).map((term) => term.id),
    gone: before.filter((term) => !isNow.has(term)).map(toNode),
  };
}
