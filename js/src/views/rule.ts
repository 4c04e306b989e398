/** What the step did: the rule that fired, and the node that is chosen. */
import { duration, plural, tail } from "../base/text.ts";
import type { Shown } from "../protocol/cache.ts";
import type { Node, RuleInfo, Step } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { kernelTitle } from "./names.ts";
import { sidePanel } from "./split.ts";

export function rulePanel(context: Context): HTMLElement {
  const { session, root, signal } = context;
  const rule = h("div", { class: "tl-rule" });
  const node = h("div", { class: "tl-node-detail" });

  session.state.watch(
    ["shown", "overview"],
    () => rule.replaceChildren(...ruleRows(context)),
    signal,
  );
  const origin = h("div", { class: "tl-origin" });
  session.state.watch(
    ["node", "shown"],
    () => node.replaceChildren(...nodeRows(context), origin),
    signal,
  );
  session.state.watch(["origin"], () => origin.replaceChildren(...originRows(context)), signal);
  return sidePanel(
    root,
    "",
    { label: "Width of the rule panel", side: "left", property: "--tl-side", least: 150 },
    h(
      "section",
      { class: "tl-panel" },
      h("header", { class: "tl-head" }, h("h3", {}, "Rule")),
      rule,
    ),
    h(
      "section",
      { class: "tl-panel tl-grow" },
      h("header", { class: "tl-head" }, h("h3", {}, "Node")),
      node,
    ),
  ).el;
}

function ruleRows(context: Context): HTMLElement[] {
  const { shown } = context.session.state.now;
  const place = context.session.place(shown?.step.pass);
  if (!shown || !place) return [h("p", { class: "tl-hint" }, "No rewrite was recorded.")];
  const { step } = shown;
  const { pass } = place;
  const failure = step.failed ? failureRows(context, shown, step.failed) : [];
  if (step.rule) {
    const head = step.failed ? [subhead(`match ${step.k}, the last before it`)] : [];
    return [...failure, ...head, ...ruleText(step.rule), changeRow(context, shown)];
  }
  const what =
    pass.matches > 0
      ? `The graph as ${pass.name} got it, before ${plural(pass.matches, "match")}.`
      : pass.changed
        ? `${pass.name} is no table of rules: it changed the graph in one step.`
        : `${pass.name} changed nothing.`;
  return [
    ...failure,
    h("p", { class: "tl-hint" }, what),
    pass.place ? placeRow(pass.place.file, pass.place.line) : h("span"),
  ];
}

/** What ended the pass: the error, the node that a rule was tried on, and that rule. */
function failureRows(
  context: Context,
  shown: Shown,
  failed: NonNullable<Step["failed"]>,
): HTMLElement[] {
  const { rule, node, message } = failed;
  const where = node === null ? undefined : shown.nodes.get(node);
  return [
    h(
      "div",
      { class: "tl-failure", role: "alert" },
      h("p", { class: "tl-error" }, rule ? `${rule.name} raised ${message}` : message),
      where ? nodeLink(context, "tried on", node, where, "tl-is-gone") : null,
      ...(rule ? ruleText(rule) : []),
    ),
  ];
}

function ruleText(rule: RuleInfo): HTMLElement[] {
  return [
    h("div", { class: "tl-rule-name" }, rule.name),
    rule.law ? h("div", { class: "tl-law" }, rule.law) : h("span"),
    placeRow(rule.file, rule.line, rule.elapsed_us),
    rule.source ? h("div", { class: "tl-source" }, rule.source) : h("span"),
  ];
}

function placeRow(file: string, line: number, elapsed?: number): HTMLElement {
  const time = elapsed === undefined ? "" : ` · ${duration(elapsed)}`;
  return h("div", { class: "tl-place", title: `${file}:${line}` }, `${tail(file)}:${line}${time}`);
}

function nodeLink(
  { session }: Context,
  label: string,
  id: number | null,
  node: Node | undefined,
  look: string,
): HTMLElement {
  return h(
    "button",
    {
      type: "button",
      class: `tl-change ${look}`,
      disabled: !node,
      title: "Choose this node",
      on: { click: () => session.choose(id) },
    },
    h("b", {}, label),
    ` ${node ? nodeTitle(node) : "–"}`,
  );
}

function changeRow(context: Context, shown: Shown): HTMLElement {
  const link = (label: string, id: number | null, look: string): HTMLElement =>
    nodeLink(context, label, id, id === null ? undefined : shown.nodes.get(id), look);
  const added = shown.added.size;
  const gone = shown.gone.length;
  return h(
    "div",
    { class: "tl-changes" },
    link("before", shown.step.before, "tl-is-gone"),
    link("after", shown.step.after, "tl-is-added"),
    h(
      "div",
      { class: "tl-counts" },
      `${plural(added, "node")} new, ${plural(gone, "node")} gone, ${plural(shown.rebuilt.size, "node")} rebuilt`,
    ),
  );
}

function nodeRows({ session }: Context): HTMLElement[] {
  const { node: id, shown } = session.state.now;
  const node = id === null ? undefined : shown?.nodes.get(id);
  if (!node || !shown) {
    return [
      h("p", { class: "tl-hint" }, "Click a node, or walk the graph with Alt and the arrow keys."),
    ];
  }
  const row = (name: string, value: string): HTMLElement[] =>
    value ? [h("dt", {}, name), h("dd", {}, value)] : [];
  const facts = h(
    "dl",
    { class: "tl-facts" },
    ...row("arg", node.arg === "None" ? "" : node.arg),
    ...row("dtype", node.dtype),
    ...row("shape", node.shape && node.shape.length > 0 ? `(${node.shape.join(", ")})` : "()"),
    ...row("tag", node.tag ?? ""),
  );
  const sources = node.src.map((src) => {
    const source = shown.nodes.get(src);
    return h(
      "button",
      {
        type: "button",
        class: "tl-link tl-src",
        title: "Choose this source",
        on: { click: () => session.choose(src) },
      },
      source ? nodeTitle(source) : `node ${src}`,
    );
  });
  const title = h(
    "div",
    { class: "tl-rule-name" },
    h("i", { class: `tl-swatch tl-kind-${node.kind}` }),
    node.op,
  );
  const list = sources.length > 0 ? [subhead("sources"), ...sources] : [];
  return [title, facts, ...list];
}

/** A node in one line: "RANGE 0, LOOP weakint" */
export function nodeTitle(node: Node): string {
  const label = node.label.startsWith(node.op) ? node.label : `${node.op} ${node.label}`;
  const shape = node.shape && node.shape.length > 0 ? ` (${node.shape.join(", ")})` : "";
  return `${label} ${node.dtype === "void" ? "" : node.dtype}${shape}`.trim();
}

/** Where the chosen node comes from: the methods that made it, and the kernels that compute it. */
function originRows({ session, view }: Context): HTMLElement[] {
  const { origin, overview } = session.state.now;
  if (!origin) return [];
  const links = origin.kernels.map((id) => {
    const click = (): void => {
      session.chooseKernel(id);
      view.set({ tab: "kernels" });
    };
    const look = { type: "button", class: "tl-link tl-src", title: "Show this kernel" };
    return h("button", { ...look, on: { click } }, kernelTitle(overview, id));
  });
  const methods = origin.methods ?? [];
  return [
    ...(origin.lines.length > 0
      ? [subhead(`from line ${origin.lines.join(", ")} of the cell`)]
      : []),
    ...(methods.length > 0
      ? [subhead("made by"), h("div", { class: "tl-methods" }, methods.join(", "))]
      : []),
    ...(links.length > 0 ? [subhead("computed in"), ...links] : []),
  ];
}

const subhead = (text: string): HTMLElement => h("div", { class: "tl-subhead" }, text);
