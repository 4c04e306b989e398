/** The textual form of a step, and its difference from the step before. */
import { plural } from "../base/text.ts";
import { type At, sameAt } from "../protocol/cache.ts";
import type { GraphText, TextLine } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { h, setText } from "./dom.ts";
import { lineList } from "./lines.ts";

const ROW = 18;

export function textView({ session, asker, view, signal }: Context): HTMLElement {
  const lines = lineList(ROW, "tl-text", signal);
  const note = h("div", { class: "tl-graph-note", hidden: true });
  let have: { at: At; text: GraphText } | null = null;

  const lineRow = (line: TextLine, i: number): HTMLElement => {
    const node = line.node ?? null;
    const mark = line.mark === "+" ? " tl-plus" : line.mark === "-" ? " tl-minus" : "";
    const { node: picked, shown } = session.state.now;
    const raised = node !== null && node === shown?.step.failed?.node ? " tl-raised" : "";
    const chosen = node !== null && node === picked ? ` tl-chosen${raised}` : raised;
    return h(
      "div",
      {
        class: `tl-text-line${mark}${chosen}`,
        on: { click: () => node !== null && session.choose(node) },
      },
      h("span", { class: "tl-line-number" }, String(i + 1)),
      h("span", { class: "tl-mark" }, line.mark || " "),
      h("span", {}, line.text),
    );
  };

  const draw = (keep: boolean): void => {
    const rows = view.now.form === "diff" ? have?.text.diff : have?.text.lines;
    lines.show(rows?.length ?? 0, (i) => lineRow(rows![i]!, i), keep);
    const empty = have !== null && rows?.length === 0;
    note.hidden = !empty;
    if (empty) setText(note, "No line differs from the step before.");
    const first = rows?.findIndex((line) => line.mark !== "") ?? -1;
    if (!keep && first > 0) lines.scrollTo(first);
  };

  const follow = async (): Promise<void> => {
    const at = session.state.now.at;
    if (view.now.form === "graph" || !at) return;
    if (have && sameAt(have.at, at)) {
      draw(false);
      return;
    }
    try {
      const text = await asker.ask("text", at);
      if (!sameAt(session.state.now.at, at)) return;
      have = { at, text };
      lines.el.dataset.at = `${at.pass}:${at.k}`;
      lines.el.setAttribute(
        "aria-label",
        `${plural(text.lines.length, "line")} of the graph as text`,
      );
      draw(false);
    } catch (error) {
      session.report(error);
    }
  };

  session.state.watch(["at"], () => void follow(), signal);
  view.watch(["form"], () => void follow(), signal);
  session.state.watch(["node"], () => lines.refresh(), signal);
  return h("div", { class: "tl-text-view" }, lines.el, note);
}
