/** A list of opts that is edited: add, remove, reorder, and change op, axis and amount. */
import type { Axis, OptEdit, Problem } from "../protocol/types.ts";
import { button, h, setText } from "./dom.ts";

export interface OptsForm {
  readonly el: HTMLElement;
  set(opts: readonly OptEdit[], ops: readonly string[]): void;
  /** Shows the axes as they are after the opts, and what is wrong with one of them. */
  check(axes: readonly Axis[], problem: Problem | null): void;
  readonly opts: readonly OptEdit[];
  /** The axes that are shown. */
  readonly axes: readonly Axis[];
}

/** What each op does, in one line, and which axes it counts. */
const OPS: Readonly<
  Record<string, { readonly what: string; readonly axes: "all" | "reduce" | "none" }>
> = {
  UPCAST: { what: "inner steps of an output axis become lanes of a vector", axes: "all" },
  UNROLL: {
    what: "inner steps of a reduce axis become lanes; axes count the reduce axes",
    axes: "reduce",
  },
  LOCAL: { what: "inner steps of an output axis become threads of a workgroup", axes: "all" },
  GROUP: { what: "a reduce axis is shared by threads of a workgroup", axes: "reduce" },
  GROUPTOP: { what: "like GROUP, with the outer steps", axes: "reduce" },
  THREAD: { what: "an output axis is shared by the CPU's threads", axes: "all" },
  PADTO: { what: "an axis is padded to a multiple", axes: "all" },
  SWAP: { what: "two axes change places; the amount is the other axis", axes: "all" },
  NOLOCALS: { what: "no workgroups", axes: "none" },
  TC: { what: "matrix instructions", axes: "all" },
};
const REDUCE_KINDS = new Set(["REDUCE", "GROUP_REDUCE"]);

/** What is told of the form: its opts are others now; Enter was pressed in a field. */
interface OptsEvents {
  changed(): void;
  entered(): void;
}

export function optsForm({ changed, entered }: OptsEvents): OptsForm {
  const axisStrip = h("div", { class: "tl-axes", "aria-label": "axes after these opts" });
  const list = h("ol", {
    class: "tl-opt-list",
    on: {
      keydown: (event: KeyboardEvent) => {
        const isField = event.target instanceof HTMLInputElement;
        if (!isField || event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        entered();
      },
    },
  });
  const add = button("+ Add opt", "Add an opt at the end", () => insert());
  add.classList.add("tl-quiet");
  let opts: OptEdit[] = [];
  let ops: readonly string[] = [];
  let axes: readonly Axis[] = [];
  let problem: Problem | null = null;

  const change = (next: OptEdit[], focus?: string): void => {
    opts = next;
    problem = null;
    build();
    if (focus) list.querySelector<HTMLElement>(focus)?.focus();
    changed();
  };
  const patch = (i: number, part: Partial<OptEdit>): void => {
    opts = opts.map((opt, at) => (at === i ? { ...opt, ...part } : opt));
    changed();
  };
  const insert = (): void => {
    const op = ops.includes("UPCAST") ? "UPCAST" : (ops[0] ?? "UPCAST");
    change([...opts, { op, axis: 0, arg: 4 }], `[data-opt="${opts.length}"] select`);
  };
  const remove = (i: number): void => {
    const next = opts.filter((_, at) => at !== i);
    change(next, `[data-opt="${Math.min(i, next.length - 1)}"] [data-name="remove"]`);
    if (next.length === 0) add.focus();
  };
  const move = (i: number, by: number): void => {
    const to = i + by;
    if (to < 0 || to >= opts.length) return;
    const next = [...opts];
    [next[i], next[to]] = [next[to]!, next[i]!];
    change(next, `[data-opt="${to}"] [data-name="${by < 0 ? "up" : "down"}"]`);
  };

  const row = (opt: OptEdit, i: number): HTMLElement => {
    const known = OPS[opt.op];
    const op = h(
      "select",
      {
        class: "tl-field",
        "aria-label": `op of opt ${i + 1}`,
        "data-name": "op",
        title: known?.what,
        on: {
          change: () => {
            const none = OPS[op.value]?.axes === "none";
            const old = opts[i]!;
            const next = none
              ? { op: op.value, axis: null, arg: null }
              : { op: op.value, axis: old.axis ?? 0, arg: old.arg ?? 4 };
            change(
              opts.map((each, at) => (at === i ? next : each)),
              `[data-opt="${i}"] select`,
            );
          },
        },
      },
      ...[...new Set([...ops, opt.op])].map((name) =>
        h("option", { value: name, selected: name === opt.op }, name),
      ),
    );
    op.value = opt.op;
    const bare = known?.axes === "none";
    return h(
      "li",
      { class: "tl-opt", "data-opt": i },
      h("span", { class: "tl-faint" }, String(i)),
      op,
      bare
        ? h("span")
        : numberField("axis", opt.axis, i, axisTitle(opt.op, axes), (axis) => patch(i, { axis })),
      bare ? h("span") : argField(opt, i, (arg) => patch(i, { arg })),
      h(
        "span",
        { class: "tl-buttons" },
        button("↑", "Move up", () => move(i, -1), { name: "up" }),
        button("↓", "Move down", () => move(i, 1), { name: "down" }),
        button("×", "Remove this opt", () => remove(i), { name: "remove" }),
      ),
      h("p", { class: "tl-opt-error", role: "alert", hidden: true }),
    );
  };

  const build = (): void => {
    const heads = ["", "op", "axis", "arg", ""].map((head) => h("small", {}, head));
    list.replaceChildren(h("li", { class: "tl-opt-heads", "aria-hidden": "true" }, ...heads));
    list.append(...opts.map(row));
    if (opts.length === 0)
      list.replaceChildren(
        h("li", { class: "tl-hint" }, "No opts: the kernel as it is scheduled."),
      );
    mark();
  };
  /** Tells what is wrong, and which axes there are, in the rows as they stand: someone types there. */
  const mark = (): void => {
    for (const [i, { op }] of opts.entries()) {
      const el = list.querySelector<HTMLElement>(`[data-opt="${i}"]`);
      const error = el?.querySelector<HTMLElement>(".tl-opt-error");
      if (!el || !error) continue;
      const wrong = problem?.index === i ? problem.message : "";
      el.classList.toggle("tl-wrong", wrong !== "");
      setText(error, wrong);
      error.hidden = wrong === "";
      const axis = el.querySelector<HTMLElement>("[data-name=axis]");
      if (axis) axis.title = axisTitle(op, axes);
    }
  };
  const buildAxes = (): void => {
    let reduces = 0;
    axisStrip.replaceChildren(
      ...axes.map((axis, i) => {
        const isReduce = REDUCE_KINDS.has(axis.kind);
        const number = isReduce ? `${i} · r${reduces}` : String(i);
        if (isReduce) reduces += 1;
        return h(
          "span",
          {
            class: `tl-axis tl-axis-${axis.kind.toLowerCase()}`,
            title: `axis ${i}: ${axis.name}, size ${axis.size}, ${axis.kind}${isReduce ? `; reduce axis ${reduces - 1}, as UNROLL and GROUP count` : ""}`,
          },
          h("i", {}, number),
          h("b", {}, axis.size),
          h("small", {}, axis.kind.toLowerCase()),
        );
      }),
    );
  };

  return {
    el: h("div", { class: "tl-opts-form" }, axisStrip, list, add),
    get opts() {
      return opts;
    },
    get axes() {
      return axes;
    },
    set(next, allowed) {
      opts = [...next];
      ops = allowed;
      problem = null;
      build();
    },
    check(nextAxes, nextProblem) {
      axes = nextAxes;
      buildAxes();
      problem = nextProblem;
      mark();
    },
  };
}

function numberField(
  name: string,
  value: number | null,
  i: number,
  title: string,
  set: (value: number | null) => void,
): HTMLElement {
  const input = h("input", {
    class: "tl-field tl-number-field",
    type: "number",
    min: "0",
    value: value ?? "",
    "aria-label": `${name} of opt ${i + 1}`,
    "data-name": name,
    title,
    on: {
      input: () => set(input.value === "" ? null : Number(input.value)),
    },
  });
  return input;
}

function argField(opt: OptEdit, i: number, set: (arg: OptEdit["arg"]) => void): HTMLElement {
  if (!Array.isArray(opt.arg)) {
    const title = opt.op === "SWAP" ? "the other axis" : "amount; 0 is the whole axis";
    return numberField("arg", typeof opt.arg === "number" ? opt.arg : null, i, title, set);
  }
  const input = h("input", {
    class: "tl-field tl-number-field",
    type: "text",
    value: opt.arg.join(", "),
    "aria-label": `arg of opt ${i + 1}`,
    "data-name": "arg",
    on: { input: () => set(input.value.split(",").map(Number)) },
  });
  return input;
}

function axisTitle(op: string, axes: readonly Axis[]): string {
  const counts = OPS[op]?.axes ?? "all";
  const shown = axes.filter((axis) => counts === "all" || REDUCE_KINDS.has(axis.kind));
  return shown.map((axis, i) => `${i}: ${axis.size} ${axis.kind.toLowerCase()}`).join("\n");
}
