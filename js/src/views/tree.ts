/** The stages and their passes, with how often each matched and how long it took. */
import { count, duration, plural, tail } from "../base/text.ts";
import { worthShowing } from "../protocol/session.ts";
import type { Overview, PassInfo, StageInfo } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { button, h, setText } from "./dom.ts";
import { stageTitle } from "./names.ts";

/** A record with more passes than this shows those of the stage where one stands, and of those opened. */
const MANY_PASSES = 300;

/** Passes that any code may ask for: only the place says what for. */
const GENERAL = new Set(["rewrite", "simplify"]);

/** A tree that one walks with the arrow keys; Enter shows a pass. */
export function treePanel({ session, view, signal }: Context): HTMLElement {
  const list = h("div", { class: "tl-tree", role: "tree", "aria-label": "stages and passes" });
  const toggle = button("", "Show or fold passes that changed nothing (u)", () =>
    view.set({ allPasses: !view.now.allPasses }),
  );
  toggle.classList.add("tl-quiet");
  /** What the user opened or closed; the rest is as the size of the record suggests. */
  const chosen = new Map<number, boolean>();
  let drawnStage: number | undefined;
  let rows = new Map<number, HTMLElement>();
  let stages = new Map<number, HTMLElement>();

  const isOpen = (stage: StageInfo): boolean =>
    chosen.get(stage.id) ?? (session.passes.length <= MANY_PASSES || stage.id === drawnStage);
  const here = (): number | undefined => session.place(session.state.now.at?.pass)?.stage.id;

  const stageRow = (stage: StageInfo): HTMLElement => {
    const matches = stage.passes.reduce((sum, pass) => sum + pass.matches, 0);
    const open = isOpen(stage);
    const name = stageTitle(session.state.now.overview, stage);
    const flip = (): void => {
      chosen.set(stage.id, !open);
      build();
      list.querySelector<HTMLElement>(`[data-stage="${stage.id}"]`)?.focus({ preventScroll: true });
    };
    const row = h(
      "div",
      {
        class: "tl-stage",
        role: "treeitem",
        tabindex: "-1",
        "aria-expanded": String(open),
        "data-stage": stage.id,
        title: `${name}: ${plural(stage.passes.length, "pass")}, ${plural(matches, "match")}`,
        on: {
          click: flip,
          keydown: (event: KeyboardEvent) => {
            if (event.key === "Enter" || event.key === " ") {
              event.preventDefault();
              flip();
            }
          },
        },
      },
      h("span", { class: "tl-twist", "aria-hidden": "true" }, open ? "▾" : "▸"),
      stageName(name),
      h("span", { class: "tl-number" }, count(matches)),
      h("span", { class: "tl-time" }, duration(stage.elapsed_us)),
    );
    if (stage.kernel !== null) stages.set(stage.kernel, row);
    return row;
  };

  const passRow = (pass: PassInfo, place: string): HTMLElement => {
    const go = (): void => {
      session.goTo({ pass: pass.id, k: 0 });
      view.set({ tab: "rewrites" });
    };
    const row = h(
      "div",
      {
        class: passLook(pass),
        role: "treeitem",
        tabindex: "-1",
        "data-pass": pass.id,
        title: passTitle(pass),
        on: {
          click: go,
          keydown: (event: KeyboardEvent) => {
            if (event.key === "Enter" || event.key === " ") {
              event.preventDefault();
              go();
            }
          },
        },
      },
      h(
        "span",
        { class: "tl-pass-name" },
        pass.name,
        place ? h("span", { class: "tl-pass-place tl-faint" }, ` ${place}`) : null,
      ),
      pass.failed ? h("span", { class: "tl-flag" }, failureWord(session.state.now.overview)) : null,
      h(
        "span",
        { class: "tl-number" },
        pass.matches > 0 ? count(pass.matches) : pass.changed ? "•" : "·",
      ),
      h("span", { class: "tl-time" }, duration(pass.elapsed_us)),
    );
    rows.set(pass.id, row);
    return row;
  };

  const passRows = (stage: StageInfo, shown: readonly PassInfo[]): HTMLElement[] => {
    const places = placesOf(stage);
    const several = new Set(stage.passes.map((pass) => pass.realize)).size > 1;
    return shown.flatMap((pass, i) => {
      const row = passRow(pass, places.get(pass.id) ?? "");
      const follows = !several || pass.realize === shown[i - 1]?.realize;
      return follows ? [row] : [realizeRow(pass), row];
    });
  };

  const build = (): void => {
    const overview = session.state.now.overview;
    const all = view.now.allPasses;
    rows = new Map();
    stages = new Map();
    drawnStage = here();
    const items: HTMLElement[] = [];
    let folded = 0;
    for (const stage of overview?.stages ?? []) {
      const shown = stage.passes.filter((pass) => all || worthShowing(pass));
      folded += stage.passes.length - stage.passes.filter(worthShowing).length;
      items.push(stageRow(stage));
      if (isOpen(stage)) items.push(...passRows(stage, shown));
    }
    list.replaceChildren(...items);
    const first = items[0];
    if (first) first.tabIndex = 0;
    setText(toggle, all ? "fold unchanged" : `+ ${count(folded)} unchanged`);
    toggle.hidden = folded === 0;
    mark();
  };

  const follow = (): void => {
    if (session.passes.length > MANY_PASSES && here() !== drawnStage) build();
    else mark();
  };
  const mark = (): void => {
    const at = session.state.now.at;
    const marks = session.state.now.marks;
    const lined = new Set(marks?.kernels);
    for (const [kernel, row] of stages) row.classList.toggle("tl-lined", lined.has(kernel));
    for (const [pass, row] of rows) {
      const isHere = pass === at?.pass;
      row.classList.toggle("tl-here", isHere);
      row.setAttribute("aria-selected", String(isHere));
      row.classList.toggle("tl-lined", (marks?.nodes[String(pass)]?.length ?? 0) > 0);
      if (isHere) scrollWithin(list, row);
    }
  };

  list.addEventListener("keydown", (event) => walk(list, event), { signal });
  session.state.watch(["overview"], build, signal);
  view.watch(["allPasses"], build, signal);
  session.state.watch(["at", "marks"], follow, signal);
  return h(
    "section",
    { class: "tl-panel tl-tree-panel" },
    h("header", { class: "tl-head" }, h("h3", {}, "Stages"), toggle),
    list,
  );
}

/** "/a/schedule/add_buffers.py" -> "add_buffers", "/a/codegen/__init__.py" -> "codegen" */
export function moduleOf(file: string): string {
  return tail(file.replace(/([\\/]__init__)?\.py$/, ""), 1);
}

function passTitle(pass: PassInfo): string {
  const place = pass.place ? `\n${pass.place.file}:${pass.place.line}` : "";
  return (
    `${pass.name}: ${plural(pass.matches, "match")}, ${plural(pass.nodes, "node")}, ` +
    `${duration(pass.elapsed_us)}, ${pass.direction}${place}`
  );
}

/** A name and the number that tells twins apart, which stays in sight when the name is cut. */
function stageName(title: string): HTMLElement {
  const [name, number] = title.split(" #");
  return h(
    "span",
    { class: "tl-stage-name" },
    h("span", { class: "tl-clip" }, name),
    number ? ` #${number}` : null,
  );
}

/** Tells the passes of one realize from those of the next, which bear the same names. */
function realizeRow({ realize }: PassInfo): HTMLElement {
  const text = realize ? `realize ${realize}` : "between realizes";
  return h("div", { class: "tl-realize tl-faint", role: "presentation" }, text);
}

const isNested = ({ parent }: PassInfo): boolean => parent !== null && parent !== undefined;

function passLook(pass: PassInfo): string {
  const nested = isNested(pass) ? " tl-nested" : "";
  const idle = worthShowing(pass) ? "" : " tl-idle";
  return `tl-pass${nested}${idle}${pass.failed ? " tl-failed" : ""}`;
}

/** Where passes within passes stand in the code, for those whose name does not say which it is. */
function placesOf(stage: StageInfo): ReadonlyMap<number, string> {
  const times = new Map<string, number>();
  for (const { name } of stage.passes) times.set(name, (times.get(name) ?? 0) + 1);
  const found = stage.passes.filter(
    (pass) => GENERAL.has(pass.name) || (isNested(pass) && times.get(pass.name)! > 1),
  );
  const words = ({ place }: PassInfo): string =>
    place ? `${moduleOf(place.file)}:${place.line}` : "";
  return new Map(found.map((pass) => [pass.id, words(pass)]));
}

/** Scrolls a list, and nothing around it, so that a row of it is in sight, under `head` pixels. */
export function scrollWithin(list: HTMLElement, row: HTMLElement, head = 0): void {
  const [box, at] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
  const above = box.top + head - at.top;
  const below = at.bottom - (box.top + list.clientHeight);
  if (above > 0) list.scrollTop -= above + 8;
  else if (below > 0) list.scrollTop += below + 8;
}

/** How a pass that did not end is marked: an interrupt is nobody's fault. */
function failureWord(overview: Overview | null): string {
  return overview?.error?.type === "KeyboardInterrupt" ? "interrupted" : "failed";
}

/** Arrow keys move the focus among the rows of a list. */
export function walk(list: HTMLElement, event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  const items = [...list.querySelectorAll<HTMLElement>("[tabindex]")];
  const here = items.indexOf(event.target as HTMLElement);
  const next = items[here + step];
  if (here < 0 || !next) return;
  next.focus();
  event.preventDefault();
  event.stopPropagation();
}
