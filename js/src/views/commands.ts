/** Every command of the debugger, with its keys: one table for the keyboard and for the help. */
import type { BenchView } from "./bench.ts";
import { type Command, command } from "./bind.ts";
import type { Context } from "./context.ts";
import { zoomAt } from "./graph/camera.ts";
import type { GraphView } from "./graph/graph.ts";
import type { Notes } from "./help.ts";
import { sortedKernels } from "./kernels.ts";

export const NOTES: Notes = [
  [
    "Views",
    "All views of one record stand at the same step and share what is chosen. Zoom, form and tab are each view's own.",
  ],
  [
    "Colours",
    "The bar at the left of a node is its kind. Green: made by this step. Red, dashed: removed by it. The green arrow leads from the node before to the node after. Ochre frames descend from the chosen lines of the cell.",
  ],
  [
    "Pointer",
    "Drag to move. With the focus in the widget the wheel zooms; elsewhere it scrolls the notebook, and Ctrl with the wheel zooms. A double click opens the surroundings in a folded graph.",
  ],
  [
    "Counters",
    "Count runs the kernel with the opts of the editor once more, built to count itself. Measured: by the processor and the system. Counted: by the kernel, the same on every machine; misses are those of a model of the caches. Estimated: from the graph, for a GPU that is not here. Heat is a line's share of the largest figure.",
  ],
  [
    "Layout",
    "The borders between the cell, the graph, the table and the panels are dragged, or focused and moved by the arrow keys; Enter gives one its own size back. A click on a heading of the table of kernels sorts by it.",
  ],
  [
    "Times",
    "Times of passes include recording. Kernel times are measured; GFLOP/s counts the kernel's useful float operations, whatever its opts add, and GB/s estimated bytes, by measured time.",
  ],
];

interface Parts extends Context {
  readonly graph: GraphView;
  readonly bench: BenchView;
}

const FORMS = ["graph", "text", "diff"] as const;

export function commandsOf(parts: Parts): Command[] {
  const { session, view, graph, bench, root } = parts;
  const rewrites = (act: () => void) => () => {
    if (view.now.tab !== "rewrites") view.set({ tab: "rewrites" });
    act();
  };
  const toK = (k: number): void => {
    const at = session.state.now.at;
    if (at) session.goTo({ pass: at.pass, k });
  };
  const zoom = (factor: number): void =>
    graph.setCamera(zoomAt(graph.camera, factor, graph.size.width / 2, graph.size.height / 2));
  const focus = (name: string): void =>
    root.querySelector<HTMLElement>(`[data-name="${name}"]`)?.focus();
  const kernelBy = (delta: number): void => {
    const { overview, kernel } = session.state.now;
    const kernels = sortedKernels(overview?.kernels ?? [], view.now.sort);
    const next = kernels[kernels.findIndex((each) => each.id === kernel) + delta];
    if (next) session.chooseKernel(next.id);
    view.set({ tab: "kernels" });
  };
  return [
    command(
      "Steps",
      "ArrowRight n",
      "next match, then on to the next pass",
      rewrites(() => session.walk(1)),
    ),
    command(
      "Steps",
      "ArrowLeft p",
      "previous match, or back to the pass before",
      rewrites(() => session.walk(-1)),
    ),
    command(
      "Steps",
      "Shift+ArrowRight",
      "ten matches on",
      rewrites(() => session.stepBy(10)),
    ),
    command(
      "Steps",
      "Shift+ArrowLeft",
      "ten matches back",
      rewrites(() => session.stepBy(-10)),
    ),
    command(
      "Steps",
      "Home",
      "before the first match",
      rewrites(() => toK(0)),
    ),
    command(
      "Steps",
      "End",
      "after the last match",
      rewrites(() => toK(Number.MAX_SAFE_INTEGER)),
    ),
    command(
      "Steps",
      "] ArrowDown",
      "next pass",
      rewrites(() => session.passBy(1)),
    ),
    command(
      "Steps",
      "[ ArrowUp",
      "previous pass",
      rewrites(() => session.passBy(-1)),
    ),
    command(
      "Steps",
      "g",
      "jump to a match",
      rewrites(() => focus("jump")),
    ),
    command("Steps", "/", "search ops, rules and labels", () => view.set({ search: true })),
    command(
      "Graph",
      "t",
      "graph, text, difference",
      rewrites(() => {
        view.set({ form: FORMS[(FORMS.indexOf(view.now.form) + 1) % FORMS.length]! });
      }),
    ),
    command(
      "Graph",
      "Alt+ArrowUp",
      "choose a source",
      rewrites(() => graph.move("up")),
    ),
    command(
      "Graph",
      "Alt+ArrowDown",
      "choose a user",
      rewrites(() => graph.move("down")),
    ),
    command(
      "Graph",
      "Alt+ArrowLeft",
      "choose the node to the left",
      rewrites(() => graph.move("left")),
    ),
    command(
      "Graph",
      "Alt+ArrowRight",
      "choose the node to the right",
      rewrites(() => graph.move("right")),
    ),
    command(
      "Graph",
      "z",
      "show the whole graph",
      rewrites(() => graph.fitAll()),
    ),
    command(
      "Graph",
      "c",
      "go to the change",
      rewrites(() => graph.centreOnChange()),
    ),
    command(
      "Graph",
      "+ =",
      "zoom in",
      rewrites(() => zoom(1.25)),
    ),
    command(
      "Graph",
      "-",
      "zoom out",
      rewrites(() => zoom(0.8)),
    ),
    command(
      "Graph",
      "b",
      "show or hide what the step removed",
      rewrites(() => graph.toggle("ghosts")),
    ),
    command(
      "Graph",
      "i",
      "constants inside their users, or as nodes",
      rewrites(() => graph.toggle("inline")),
    ),
    command(
      "Graph",
      "f",
      "fold a huge graph, or show all of it",
      rewrites(() => graph.toggle("fold")),
    ),
    command(
      "Graph",
      "r",
      "lay the graph out afresh",
      rewrites(() => graph.relayout()),
    ),
    command("Kernels", "k", "kernels, or back to the rewrites", () =>
      view.set({ tab: view.now.tab === "kernels" ? "rewrites" : "kernels" }),
    ),
    command("Kernels", ".", "next kernel", () => kernelBy(1)),
    command("Kernels", ",", "previous kernel", () => kernelBy(-1)),
    command("Kernels", "Ctrl+Enter", "run with the edited opts", () => {
      if (view.now.tab === "kernels") bench.run();
    }),
    command("Kernels", "C", "count what the kernel does", () => {
      if (view.now.tab === "kernels") bench.count();
    }),
    command("View", "u", "show or fold passes that changed nothing", () =>
      view.set({ allPasses: !view.now.allPasses }),
    ),
    command("View", "?", "this help", () => view.set({ help: !view.now.help })),
    command("View", "Escape", "close, cancel, clear", () => closeOne(parts)),
  ];
}

/** Closes the uppermost thing that is open. */
function closeOne({ session, view, graph, bench, root }: Parts): void {
  if (view.now.help) view.set({ help: false });
  else if (view.now.search) view.set({ search: false });
  else if (graph.cancel()) return;
  else if (session.state.now.problem) session.state.set({ problem: null });
  else if (session.state.now.lines.length > 0) void session.chooseLines([]);
  else if (session.state.now.node !== null) session.choose(null);
  else bench.stop();
  root.focus();
}
