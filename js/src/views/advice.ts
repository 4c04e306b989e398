/** What to try on a kernel, with the figures that say so; a click puts the opts into the editor. */
import { count, digits } from "../base/text.ts";
import { optText } from "../protocol/opts.ts";
import type { AdviceInfo, OptEdit } from "../protocol/types.ts";
import { h } from "./dom.ts";

export interface AdviceView {
  readonly el: HTMLElement;
  show(advice: readonly AdviceInfo[] | null): void;
}

/** `take` is called with all opts of the kernel to try. */
export function adviceView(take: (opts: readonly OptEdit[]) => void): AdviceView {
  const list = h("ol", { class: "tl-advice-list" });
  const el = h(
    "section",
    { class: "tl-panel tl-advice", hidden: "" },
    h("header", { class: "tl-head" }, h("h3", {}, "Advice")),
    list,
  );
  return {
    el,
    show(advice) {
      el.hidden = advice === null;
      list.replaceChildren(...(advice ?? []).map((each) => adviceRow(each, () => take(each.opts))));
      if (advice?.length === 0) {
        list.append(h("li", { class: "tl-hint" }, "Nothing stands out in the figures."));
      }
    },
  };
}

function adviceRow(advice: AdviceInfo, take: () => void): HTMLElement {
  const figures = advice.figures.map((figure) => {
    const value = Number.isInteger(figure.value) ? count(figure.value) : digits(figure.value);
    return `${figure.name}: ${value} ${figure.unit} (${figure.kind})`;
  });
  const last = advice.opts[advice.opts.length - 1];
  return h(
    "li",
    { class: "tl-advice-row" },
    h(
      "button",
      {
        type: "button",
        class: "tl-advice-button",
        "data-name": "advice",
        "data-advice": advice.name,
        title: `Put ${advice.opts.map(optText).join(" ")} into the editor`,
        on: { click: take },
      },
      h("span", { class: "tl-advice-title" }, advice.title),
      h("span", { class: "tl-advice-opt" }, last ? optText(last) : ""),
      h("span", { class: "tl-faint" }, figures.join(" · ")),
    ),
  );
}
