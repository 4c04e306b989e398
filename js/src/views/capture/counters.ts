/** Hardware counters: totals, ratios with their formulas, values by place, runs side by side. */
import { Superseded } from "../../base/lanes.ts";
import { count, digits, duration } from "../../base/text.ts";
import type {
  CaptureOverview,
  CounterRow,
  CounterRows,
  MetricRow,
  TogetherRow,
} from "../../protocol/capture_types.ts";
import { h, setText } from "../dom.ts";
import type { CaptureContext } from "./context.ts";
import { heatMap } from "./heat.ts";
import { changeText } from "./listing.ts";

const AXES = ["xcc", "inst", "se", "sa", "wgp"];
const AXIS_WORDS: Readonly<Record<string, string>> = {
  xcc: "die",
  inst: "instance",
  se: "shader engine",
  sa: "shader array",
  wgp: "WGP",
};

export interface CountersTab {
  readonly el: HTMLElement;
  themeChanged(): void;
}

export function countersTab(context: CaptureContext): CountersTab {
  const { session, asker, root, signal } = context;
  const heat = heatMap(root, signal);
  const table = h("div", { class: "tl-table-scroll tl-readout-table" });
  const ratios = h("div", { class: "tl-derivations" });
  const place = h("div", { class: "tl-part" });
  const placeTitle = h("h3", {}, "By place");
  const chips = h("div", {
    class: "tl-buttons tl-axes-choice",
    role: "group",
    "aria-label": "axes",
  });
  const fromLeast = h(
    "button",
    {
      type: "button",
      class: "tl-quiet",
      title: "Let colours begin at the least value: small differences are seen",
      "data-name": "from-least",
      "aria-pressed": "false",
      on: {
        click: () => {
          const next = fromLeast.getAttribute("aria-pressed") !== "true";
          fromLeast.setAttribute("aria-pressed", String(next));
          heat.setFromLeast(next);
        },
      },
    },
    "more contrast",
  );
  let found: CounterRows | null = null;
  /** Axes that were put side by side; until some were chosen, the innermost of each counter. */
  let chosenAcross: ReadonlySet<string> | null = null;
  const acrossOf = (row: CounterRow): ReadonlySet<string> =>
    chosenAcross ?? new Set(AXES.filter((axis) => axis in row.axes).slice(-1));

  const counter = (): CounterRow | null =>
    found?.rows.find((row) => row.name === session.state.now.counter) ?? found?.rows[0] ?? null;

  const drawGrid = async (): Promise<void> => {
    const row = counter();
    const [readout] = session.state.now.readouts;
    if (!row || readout === undefined) {
      heat.show(null);
      return;
    }
    const axes = AXES.filter((axis) => axis in row.axes);
    chips.replaceChildren(fromLeast, ...axes.map((axis) => axisChip(axis, row)));
    setText(placeTitle, `${row.name} by place`);
    setText(place, placeText(row));
    const across = acrossOf(row);
    const columns = axes.filter((axis) => across.has(axis));
    const rows = axes.filter((axis) => !across.has(axis));
    const grid = await asker.ask("grid", { readout, counter: row.name, rows, columns });
    heat.show({ rows: grid.rows, labels: grid.labels, values: grid.columns.values! });
    fromLeast.hidden = !heat.hasMoreContrast;
  };
  const axisChip = (axis: string, row: CounterRow): HTMLElement => {
    const isAcross = acrossOf(row).has(axis);
    const made = h(
      "button",
      {
        type: "button",
        title: `${AXIS_WORDS[axis]}s stand ${isAcross ? "side by side; click to put them under each other" : "under each other; click to put them side by side"}`,
        "data-name": `axis-${axis}`,
        "aria-pressed": String(isAcross),
        on: {
          click: () => {
            const next = new Set(acrossOf(row));
            if (!next.delete(axis)) next.add(axis);
            chosenAcross = next;
            run(drawGrid);
          },
        },
      },
      `${isAcross ? "→" : "↓"} ${AXIS_WORDS[axis]} × ${row.axes[axis]}`,
    );
    return made;
  };

  const draw = async (): Promise<void> => {
    const { readouts, overview } = session.state.now;
    const [first] = readouts;
    if (!overview || first === undefined) {
      table.replaceChildren(
        h(
          "p",
          { class: "tl-hint" },
          overview && overview.readouts.length > 0
            ? "Choose a run at the left."
            : "This capture has no counters.",
        ),
      );
      ratios.replaceChildren();
      found = null;
      await drawGrid();
      return;
    }
    const answer = await asker.ask("counters", { readout: first });
    const beside = readouts.length > 1 ? (await asker.ask("together", { readouts })).rows : null;
    if (readouts !== session.state.now.readouts) return;
    found = answer;
    ratios.replaceChildren(...answer.metrics.map((metric) => metricCard(metric, beside)));
    drawTable(beside);
    await drawGrid();
  };
  const drawTable = (beside: readonly TogetherRow[] | null): void => {
    const { readouts, overview } = session.state.now;
    const names = readouts.map((n) => readoutName(overview!, n).filter(Boolean).join(" · "));
    table.replaceChildren(
      h("p", { class: "tl-error", hidden: !found!.note }, found!.note),
      counterTable(found!.rows, beside, names, counter()?.name ?? "", (name) =>
        session.state.set({ counter: name }),
      ),
    );
  };
  const run = (work: () => Promise<void>): void => {
    work().catch((error) => {
      if (!(error instanceof Superseded)) session.report(error);
    });
  };
  session.state.watch(["readouts", "overview"], () => run(draw), signal);
  session.state.watch(
    ["counter"],
    () => {
      for (const row of table.querySelectorAll<HTMLElement>(".tl-counter")) {
        row.classList.toggle("tl-here", row.dataset.counter === counter()?.name);
      }
      run(drawGrid);
    },
    signal,
  );

  return {
    el: h(
      "div",
      { class: "tl-tab tl-counters-tab" },
      readoutList(context),
      h(
        "div",
        { class: "tl-main" },
        ratios,
        table,
        h(
          "section",
          { class: "tl-panel tl-place-panel" },
          h("header", { class: "tl-head" }, placeTitle, chips),
          place,
          heat.el,
        ),
      ),
    ),
    themeChanged: () => heat.themeChanged(),
  };
}

/** Runs at the left: the first that is chosen is shown, the others stand beside it. */
function readoutList({ session, signal }: CaptureContext): HTMLElement {
  const list = h("div", { class: "tl-tree tl-readouts" });
  const toggle = (number: number, only: boolean): void => {
    const { readouts } = session.state.now;
    if (only) session.state.set({ readouts: [number] });
    else if (readouts.includes(number))
      session.state.set({ readouts: readouts.filter((each) => each !== number) });
    else session.state.set({ readouts: [...readouts, number] });
  };
  session.state.watch(
    ["overview", "readouts"],
    () => {
      const { overview, readouts } = session.state.now;
      list.replaceChildren(
        ...(overview?.readouts ?? []).map((info, number) => {
          const [name, more] = readoutName(overview!, number);
          const box = h("input", {
            type: "checkbox",
            title: "Show it beside the others",
            on: {
              change: () => toggle(number, false),
              click: (event: Event) => event.stopPropagation(),
            },
          });
          box.checked = readouts.includes(number);
          return h(
            "div",
            {
              class: `tl-readout${readouts[0] === number ? " tl-here" : ""}`,
              "data-readout": String(number),
              on: { click: () => toggle(number, true) },
            },
            box,
            h(
              "span",
              { class: "tl-readout-name", title: `${name} ${more}` },
              name,
              more && h("small", {}, more),
            ),
            h(
              "span",
              { class: "tl-time" },
              info.elapsed_ns === null ? "" : duration(info.elapsed_ns / 1000),
            ),
          );
        }),
      );
    },
    signal,
  );
  return h(
    "div",
    { class: "tl-left" },
    h(
      "section",
      { class: "tl-panel tl-grow" },
      h("header", { class: "tl-head" }, h("h3", {}, "Runs")),
      list,
      h("p", { class: "tl-hint" }, "Tick several to compare them."),
    ),
  );
}

/** A kernel, and which run of it in which capture, as far as that is not plain. */
export function readoutName(
  overview: Pick<CaptureOverview, "readouts" | "captures">,
  number: number,
): readonly [name: string, more: string] {
  const info = overview.readouts[number]!;
  const same = overview.readouts.filter(
    (each) => each.kernel === info.kernel && each.capture === info.capture,
  );
  const more = [
    same.length > 1 && `run ${info.run}`,
    overview.captures.length > 1 && overview.captures[info.capture]!.name,
  ];
  return [info.kernel || info.name, more.filter(Boolean).join(" · ")];
}

function placeText(row: CounterRow): string {
  const where = Object.entries(row.max_at ?? {})
    .filter(([axis]) => axis in row.axes)
    .map(([axis, number]) => `${axis}${number}`)
    .join(" ");
  const zero = row.count - row.nonzero;
  const zeros = zero > 0 ? `; ${count(zero)} are zero: idle, or switched off` : "";
  if (row.count === 1) return `one value for the whole chip: ${count(row.sum)}`;
  return row.max === 0
    ? `all ${count(row.count)} values are zero`
    : `${count(row.count)} values, the largest ${count(row.max)} at ${where}${zeros}`;
}

function metricCard(metric: MetricRow, beside: readonly TogetherRow[] | null): HTMLElement {
  const row = beside?.find((each) => each.percent && each.name === metric.label);
  const values = row ? row.values.map(fineText) : [percent(metric.value)];
  const ratio = changeText(row?.change ?? null);
  return h(
    "div",
    { class: "tl-derived", title: metric.note },
    h("span", { class: "tl-derived-name" }, metric.label),
    h("b", {}, ...values.map((text) => h("span", {}, text)), ratio && h("small", {}, ratio)),
    h("span", { class: "tl-formula" }, metric.formula),
    metric.counted
      ? h("span", { class: "tl-formula" }, `= ${metric.counted}`)
      : h("span", { class: "tl-formula" }, "a counter of it was not read"),
  );
}

const percent = (value: number | null): string => (value === null ? "–" : `${value.toFixed(1)} %`);

/** With digits enough to see what a ratio is made of: 0.034 %, not 0.0 %. */
const fineText = (value: number | null): string =>
  value === null || Math.abs(value) >= 10 || value === 0 ? percent(value) : `${digits(value)} %`;

function counterTable(
  rows: readonly CounterRow[],
  beside: readonly TogetherRow[] | null,
  names: readonly string[],
  chosen: string,
  choose: (name: string) => void,
): HTMLElement {
  const num = (word: string, title?: string): HTMLElement =>
    h("th", { class: "tl-num", title: title ?? word }, word);
  const single = [
    num("sum"),
    num("largest"),
    num("mean", "Sum by the number of values"),
    num("values"),
    num("not zero"),
  ];
  const several = [...names.map((name) => num(name)), num("change", "Last over first")];
  const list = beside ? beside.filter((row) => !row.percent) : null;
  const body = list
    ? list.map((row) =>
        counterRow(
          row.name,
          rows.find((each) => each.name === row.name)?.block ?? "",
          row.name === chosen,
          choose,
          [
            ...row.values.map((value) => cell(value === null ? "–" : count(value))),
            cell(changeText(row.change)),
          ],
        ),
      )
    : rows.map((row) =>
        counterRow(row.name, row.block, row.name === chosen, choose, [
          cell(count(row.sum)),
          cell(count(row.max)),
          cell(count(row.sum / row.count)),
          cell(count(row.count)),
          cell(count(row.nonzero)),
        ]),
      );
  return h(
    "table",
    { class: "tl-table" },
    h(
      "thead",
      {},
      h("tr", {}, h("th", {}, "counter"), h("th", {}, "block"), ...(list ? several : single)),
    ),
    h("tbody", {}, ...body),
  );
}

const cell = (text: string): HTMLElement => h("td", { class: "tl-num" }, text);

function counterRow(
  name: string,
  block: string,
  isChosen: boolean,
  choose: (name: string) => void,
  cells: readonly HTMLElement[],
): HTMLElement {
  return h(
    "tr",
    {
      class: `tl-counter${isChosen ? " tl-here" : ""}`,
      "data-counter": name,
      tabindex: "0",
      on: {
        click: () => choose(name),
        keydown: (event: KeyboardEvent) => event.key === "Enter" && choose(name),
      },
    },
    h("td", { class: "tl-counter-name" }, name),
    h("td", {}, block),
    ...cells,
  );
}
