/** Every command of the viewer of captures, with its keys: for the keyboard and for the help. */
import type { CaptureTab } from "../../protocol/capture.ts";
import { type Command, command } from "../bind.ts";
import type { Notes } from "../help.ts";
import type { LaneCanvas } from "../lane_canvas.ts";
import type { CaptureContext } from "./context.ts";
import type { TraceTab } from "./trace.ts";

export const NOTES: Notes = [
  [
    "Lanes",
    "Wave slots show what the traced unit's waves issued: a bar is low while the wave stood still for the instruction, high while it worked. What runs at barriers and wait counts is waiting. Execution units show when units worked. Thin rows are waves of all units.",
  ],
  [
    "Pointer",
    "Drag to move; with Shift, or in the ruler, drag to mark a stretch. With the focus in the widget the wheel zooms, with Shift it moves, over the names it scrolls; elsewhere it scrolls the notebook. A double click goes to an event.",
  ],
  [
    "Figures",
    "Cycles of an instruction last until the next of its wave. Stall is what the wave stood still before it, or at the barrier that it is; heat is stall and work together. Bars shorter than a pixel are merged and counted.",
  ],
  [
    "Counters",
    "They count from one read-out to the next, so idle time is in them: ratios to active cycles come out small for short kernels. A zero is a unit that did nothing, or one that is switched off.",
  ],
];

interface Parts extends CaptureContext {
  readonly trace: TraceTab;
}

export function captureCommands(parts: Parts): Command[] {
  const { session, view, trace } = parts;
  const onLanes = (act: (lanes: LaneCanvas) => void) => () => {
    if (session.state.now.tab !== "trace") session.state.set({ tab: "trace" });
    const lanes = trace.lanes();
    if (lanes) act(lanes);
  };
  const streamBy = (step: number) => () => {
    const { stream } = session.state.now;
    if (stream !== null) session.chooseStream(stream + step);
  };
  const tabs: readonly CaptureTab[] = ["trace", "counters"];
  return [
    command(
      "Time",
      "ArrowRight d",
      "later",
      onLanes((lanes) => lanes.pan(0.25)),
    ),
    command(
      "Time",
      "ArrowLeft a",
      "earlier",
      onLanes((lanes) => lanes.pan(-0.25)),
    ),
    command(
      "Time",
      "+ = w",
      "closer",
      onLanes((lanes) => lanes.zoom(1.5)),
    ),
    command(
      "Time",
      "- s",
      "from farther",
      onLanes((lanes) => lanes.zoom(1 / 1.5)),
    ),
    command(
      "Time",
      "z",
      "the whole dispatch; again: all",
      onLanes((lanes) => lanes.showAll()),
    ),
    command(
      "Time",
      "f",
      "go to what is chosen or marked",
      onLanes((lanes) => goToChosen(lanes)),
    ),
    command(
      "Time",
      "Home",
      "the start",
      onLanes((lanes) => lanes.toEdge(-1)),
    ),
    command(
      "Time",
      "End",
      "the end",
      onLanes((lanes) => lanes.toEdge(1)),
    ),
    command(
      "Events",
      "Shift+ArrowRight",
      "next event of the lane",
      onLanes((lanes) => lanes.step(1)),
    ),
    command(
      "Events",
      "Shift+ArrowLeft",
      "event before",
      onLanes((lanes) => lanes.step(-1)),
    ),
    command(
      "Events",
      "Shift+ArrowDown",
      "what runs in the lane below",
      onLanes((lanes) => lanes.stepLane(1)),
    ),
    command(
      "Events",
      "Shift+ArrowUp",
      "what runs in the lane above",
      onLanes((lanes) => lanes.stepLane(-1)),
    ),
    command("Events", "n", "next event of the marked instruction", () => void trace.goToEvent(1)),
    command("Events", "p", "event before of the instruction", () => void trace.goToEvent(-1)),
    command(
      "Events",
      "ArrowDown",
      "lanes farther down",
      onLanes((lanes) => void lanes.scrollBy(60)),
    ),
    command(
      "Events",
      "ArrowUp",
      "lanes farther up",
      onLanes((lanes) => void lanes.scrollBy(-60)),
    ),
    command("View", "]", "next stream", streamBy(1)),
    command("View", "[", "stream before", streamBy(-1)),
    command("View", "/", "search instructions and events", () => view.set({ search: true })),
    command("View", "k", "counters, or back to the trace", () => {
      session.state.set({ tab: tabs[1 - tabs.indexOf(session.state.now.tab)]! });
    }),
    command("View", "?", "this help", () => view.set({ help: !view.now.help })),
    command("View", "Escape", "close, clear", () => closeOne(parts)),
  ];
}

function goToChosen(lanes: LaneCanvas): void {
  const target = lanes.selected ?? lanes.stretch;
  if (target) lanes.zoomTo(target, 0.5);
}

/** Closes or clears the uppermost thing. */
function closeOne({ session, view, root, trace }: Parts): void {
  const { problem, span, instruction, stretch } = session.state.now;
  if (view.now.help) view.set({ help: false });
  else if (view.now.search) view.set({ search: false });
  else if (problem) session.state.set({ problem: null });
  else if (stretch) trace.lanes()?.setStretch(null);
  else if (span || instruction !== null) {
    session.chooseSpan(null);
    session.chooseInstruction(null);
  }
  root.focus();
}
