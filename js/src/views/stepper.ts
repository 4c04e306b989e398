/** The bar above the graph: which pass, which match, and the buttons that move. */
import { count } from "../base/text.ts";
import type { Context, Form } from "./context.ts";
import { button, h, setText } from "./dom.ts";
import { stageTitle } from "./names.ts";

export function stepperBar({ session, view, signal }: Context): HTMLElement {
  const stage = h("span", { class: "tl-stage-part" });
  const pass = h("b");
  const name = h("span", { class: "tl-pass-title" }, stage, pass);
  const slider = h("input", {
    type: "range",
    class: "tl-slider",
    min: "0",
    "aria-label": "match",
    title: "Drag to any match",
    on: { input: () => go(Number(slider.value)) },
  });
  const number = h("input", {
    type: "text",
    inputmode: "numeric",
    class: "tl-jump",
    "aria-label": "jump to match",
    title: "Jump to a match (g)",
    "data-name": "jump",
    on: {
      focus: () => number.select(),
      change: () => {
        const k = Number.parseInt(number.value, 10);
        if (Number.isFinite(k)) go(k);
        else draw();
      },
      keydown: (event: KeyboardEvent) => {
        if (event.key !== "Enter") return;
        number.dispatchEvent(new Event("change"));
        number.closest<HTMLElement>(".tinylab")?.focus();
      },
    },
  });
  const total = h("span", { class: "tl-total" });
  const forms = (["graph", "text", "diff"] as const).map((form) => formButton(form, view, signal));
  const go = (k: number): void => {
    const at = session.state.now.at;
    if (at) session.goTo({ pass: at.pass, k });
  };

  const first = button("|‹", "First step (Home)", () => go(0));
  const back = button("‹", "Previous match (←)", () => session.walk(-1), { name: "previous" });
  const forward = button("›", "Next match (→)", () => session.walk(1), { name: "next" });
  const last = button("›|", "Last step (End)", () => go(Number.MAX_SAFE_INTEGER));
  const passBack = button("«", "Previous pass ([)", () => session.passBy(-1));
  const passForward = button("»", "Next pass (])", () => session.passBy(1));

  const draw = (): void => {
    const at = session.state.now.at;
    const place = session.place(at?.pass);
    const { overview } = session.state.now;
    setText(stage, place ? `${stageTitle(overview, place.stage)} › ` : "");
    setText(pass, place?.pass.name ?? "nothing was rewritten");
    name.title = place ? `${place.pass.direction}, ${count(place.pass.nodes)} nodes` : "";
    const matches = place?.pass.matches ?? 0;
    slider.max = String(matches);
    slider.value = String(at?.k ?? 0);
    slider.disabled = matches === 0;
    number.value = String(at?.k ?? 0);
    setText(total, `/ ${count(matches)}`);
    first.disabled = (at?.k ?? 0) === 0;
    last.disabled = (at?.k ?? 0) >= matches;
    back.disabled = session.beside(-1) === null;
    forward.disabled = session.beside(1) === null;
  };
  session.state.watch(["at", "overview"], draw, signal);
  return h(
    "div",
    { class: "tl-stepper" },
    h("div", { class: "tl-buttons" }, passBack, passForward),
    name,
    h("div", { class: "tl-buttons" }, first, back, forward, last),
    h("label", { class: "tl-jump-box" }, number, " ", total),
    slider,
    h("div", { class: "tl-buttons tl-forms", role: "group", "aria-label": "form" }, ...forms),
  );
}

function formButton(form: Form, view: Context["view"], signal: AbortSignal): HTMLButtonElement {
  const titles = {
    graph: "The graph (t changes)",
    text: "The graph as text (t changes)",
    diff: "Lines that differ from the step before (t changes)",
  };
  const label = form === "graph" ? "Graph" : form === "text" ? "Text" : "Diff";
  const made = button(label, titles[form], () => view.set({ form }), { name: `form-${form}` });
  view.watch(
    ["form"],
    () => made.setAttribute("aria-pressed", String(view.now.form === form)),
    signal,
  );
  return made;
}
