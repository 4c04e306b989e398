/** A little rewriting of real graphs, so that the views have honest records to show without Python. */
import type { Kind, Node } from "../src/protocol/types.ts";

export interface Term {
  readonly id: number;
  readonly op: string;
  readonly arg: string;
  readonly dtype: string;
  readonly shape: readonly string[];
  readonly src: readonly Term[];
  readonly lines: readonly number[];
}

const KINDS: Readonly<Record<string, Kind>> = {
  RESHAPE: "movement",
  EXPAND: "movement",
  PERMUTE: "movement",
  REDUCE: "reduce",
  BUFFER: "memory",
  PARAM: "memory",
  STORE: "memory",
  INDEX: "memory",
  LOAD: "memory",
  CONST: "const",
  RANGE: "range",
  SINK: "control",
  END: "control",
  STACK: "other",
};

/** Interned terms: equal parts give the same object and the same id. */
export class Terms {
  readonly #known = new Map<string, Term>();

  make(op: string, src: readonly Term[] = [], arg = "", more: Partial<Term> = {}): Term {
    const dtype = more.dtype ?? src[0]?.dtype ?? "float32";
    const shape = more.shape ?? src[0]?.shape ?? [];
    const key = [op, arg, dtype, shape.join(","), src.map((term) => term.id).join(",")].join("|");
    const found = this.#known.get(key);
    if (found) return found;
    const lines = more.lines ?? [...new Set(src.flatMap((term) => term.lines))];
    const term = { id: this.#known.size + 1, op, arg, dtype, shape, src, lines };
    this.#known.set(key, term);
    return term;
  }

  constant(value: number, dtype = "float32"): Term {
    return this.make("CONST", [], String(value), { dtype, shape: [], lines: [] });
  }
}

export interface Rule {
  readonly name: string;
  readonly law: string;
  readonly source: string;
  readonly apply: (term: Term, terms: Terms) => Term | null;
}

export interface Match {
  readonly rule: Rule;
  readonly before: Term;
  readonly after: Term;
}

const isConst = (term: Term | undefined, value: string): boolean =>
  term?.op === "CONST" && term.arg === value;

export const RULES: readonly Rule[] = [
  {
    name: "add_zero",
    law: "x + 0 -> x",
    source: 'Rule("add_zero", "x + 0 -> x", X + 0, lambda x: x),',
    apply: (t) => (t.op === "ADD" && isConst(t.src[1], "0") ? t.src[0]! : null),
  },
  {
    name: "mul_one",
    law: "x * 1 -> x",
    source: 'Rule("mul_one", "x * 1 -> x", X * 1, lambda x: x),',
    apply: (t) => (t.op === "MUL" && isConst(t.src[1], "1") ? t.src[0]! : null),
  },
  {
    name: "const_fold",
    law: "c1 op c2 -> c",
    source: 'Rule("const_fold", "c1 op c2 -> c", UPat(GroupOp.ALU, src=UPat.cvar()), fold),',
    apply: (t, terms) => {
      const [a, b] = t.src;
      if (a?.op !== "CONST" || b?.op !== "CONST") return null;
      if (t.op === "ADD") return terms.constant(Number(a.arg) + Number(b.arg), a.dtype);
      return t.op === "MUL" ? terms.constant(Number(a.arg) * Number(b.arg), a.dtype) : null;
    },
  },
  {
    name: "merge_reshapes",
    law: "x.reshape(a).reshape(b) -> x.reshape(b)",
    source: 'Rule("merge_reshapes", "x.reshape(a).reshape(b) -> x.reshape(b)", …),',
    apply: (t, terms) =>
      t.op === "RESHAPE" && t.src[0]?.op === "RESHAPE"
        ? terms.make("RESHAPE", [t.src[0].src[0]!], t.arg, { shape: t.shape })
        : null,
  },
  {
    name: "double_is_times_two",
    law: "x + x -> x * 2",
    source: 'Rule("double_is_times_two", "x + x -> x * 2", X + X, lambda x: x * 2),',
    apply: (t, terms) =>
      t.op === "ADD" && t.src[0] === t.src[1]
        ? terms.make("MUL", [t.src[0]!, terms.constant(2)])
        : null,
  },
];

/** Rewrites sources first until no rule fires; returns the matches and the graph after each. */
export function rewrite(
  root: Term,
  rules: readonly Rule[],
  terms: Terms,
): { matches: Match[]; roots: Term[] } {
  const matches: Match[] = [];
  const done = new Map<Term, Term>();
  for (const term of sorted(root)) {
    let now = rebuilt(term, done, terms);
    for (;;) {
      const fired = firstMatch(now, rules, terms);
      if (!fired) break;
      matches.push(fired);
      now = done.get(fired.after) ?? fired.after;
    }
    done.set(term, now);
  }
  const roots = [root];
  const map = new Map<Term, Term>();
  for (const match of matches) {
    map.set(match.before, match.after);
    roots.push(replaced(root, map, terms));
  }
  return { matches, roots };
}

export function sorted(root: Term): Term[] {
  const order: Term[] = [];
  const seen = new Set<Term>([root]);
  const path = [{ term: root, next: 0 }];
  while (path.length > 0) {
    const top = path[path.length - 1]!;
    const src = top.term.src[top.next];
    top.next += 1;
    if (!src) {
      order.push(top.term);
      path.pop();
    } else if (!seen.has(src)) {
      seen.add(src);
      path.push({ term: src, next: 0 });
    }
  }
  return order;
}

export function toNode(term: Term): Node {
  return {
    id: term.id,
    op: term.op,
    label: term.arg ? `${term.op} ${term.arg}` : term.op,
    arg: term.arg,
    dtype: term.dtype,
    shape: [...term.shape],
    src: term.src.map((src) => src.id),
    kind: KINDS[term.op] ?? "alu",
    lines: [...term.lines],
    tag: null,
  };
}

function firstMatch(term: Term, rules: readonly Rule[], terms: Terms): Match | null {
  for (const rule of rules) {
    const after = rule.apply(term, terms);
    if (after && after !== term) return { rule, before: term, after };
  }
  return null;
}

function rebuilt(term: Term, done: ReadonlyMap<Term, Term>, terms: Terms): Term {
  const src = term.src.map((item) => done.get(item) ?? item);
  if (src.every((item, i) => item === term.src[i])) return term;
  return terms.make(term.op, src, term.arg, { dtype: term.dtype, shape: term.shape });
}

/** The graph with replacements applied transitively: while a node has one, take it, and rebuild. */
function replaced(root: Term, map: ReadonlyMap<Term, Term>, terms: Terms): Term {
  let start = root;
  for (let next = map.get(start); next; next = map.get(start)) start = next;
  const done = new Map<Term, Term>();
  for (const term of sorted(start)) {
    let now = rebuilt(term, done, terms);
    while (map.has(now)) {
      const after = map.get(now)!;
      now = done.get(after) ?? after;
    }
    done.set(term, now);
  }
  return done.get(start) ?? start;
}
