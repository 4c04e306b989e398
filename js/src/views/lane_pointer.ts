/** Dragging, zooming, choosing and marking with the pointer, in lanes over time. */
import { moveRange, type Range, width } from "../base/range.ts";
import type { LaneCanvas } from "./lane_canvas.ts";

const CLICK_SLOP = 4;

interface Drag {
  readonly x: number;
  readonly y: number;
  readonly view: Range;
  readonly scrollTop: number;
  /** Whether a stretch of time is being marked, or the picture moved. */
  readonly marks: boolean;
  far: boolean;
}

/**
 * Dragging moves; with Shift, or in the ruler, it marks a stretch. The wheel zooms where the widget
 * has the focus, or with Control; sideways, or with Shift, it moves; over the names it scrolls.
 */
export function watchLanePointer(
  canvas: HTMLElement,
  lanes: LaneCanvas,
  signal: AbortSignal,
): void {
  let drag: Drag | null = null;
  const at = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const begin = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = at(event);
    const marks = event.shiftKey || y < lanes.frame.ruler;
    drag = { x, y, view: lanes.view, scrollTop: lanes.scrollTop, marks, far: false };
  };
  const move = (event: PointerEvent): void => {
    const [x, y] = at(event);
    if (!drag) {
      lanes.hover(x, y);
      return;
    }
    drag.far ||= Math.hypot(x - drag.x, y - drag.y) > CLICK_SLOP;
    if (!drag.far) return;
    if (drag.marks) markStretch(lanes, drag.x, x);
    else moveBy(lanes, drag, x, y);
  };
  const finish = (event: PointerEvent): void => {
    if (drag && !drag.far) lanes.click(...at(event));
    drag = null;
  };
  canvas.addEventListener("pointerdown", begin, { signal });
  canvas.addEventListener("pointermove", move, { signal });
  canvas.addEventListener("pointerup", finish, { signal });
  canvas.addEventListener("pointercancel", () => (drag = null), { signal });
  canvas.addEventListener("pointerleave", () => !drag && lanes.hover(-1e6, -1e6), { signal });
  canvas.addEventListener("dblclick", (event) => lanes.open(...at(event)), { signal });
  canvas.addEventListener("wheel", (event) => turn(canvas, lanes, event, at(event)), {
    signal,
    passive: false,
  });
}

function markStretch(lanes: LaneCanvas, from: number, to: number): void {
  const [a, b] = [lanes.timeAt(Math.min(from, to)), lanes.timeAt(Math.max(from, to))];
  const { bounds } = lanes.limits;
  const start = Math.max(bounds.start, Math.floor(a));
  lanes.setStretch({ start, end: Math.min(bounds.end, Math.max(start + 1, Math.ceil(b))) });
}

function moveBy(lanes: LaneCanvas, drag: Drag, x: number, y: number): void {
  const { frame, limits } = lanes;
  const perPixel = width(drag.view) / Math.max(1, frame.width - frame.gutter);
  lanes.setView(moveRange(drag.view, (drag.x - x) * perPixel, limits));
  lanes.scrollBy(drag.scrollTop + drag.y - y - lanes.scrollTop);
}

function turn(
  canvas: HTMLElement,
  lanes: LaneCanvas,
  event: WheelEvent,
  [x]: [number, number],
): void {
  const focused = canvas.closest(".tinylab")?.matches(":focus-within") ?? false;
  const zooms = event.ctrlKey || event.metaKey;
  if (!focused && !zooms) return;
  const unit = event.deltaMode === 1 ? 16 : 1;
  const [sideways, down] = [event.deltaX * unit, event.deltaY * unit];
  event.preventDefault();
  event.stopPropagation();
  if (x < lanes.frame.gutter && !zooms) {
    lanes.scrollBy(down);
    return;
  }
  const across = event.shiftKey && sideways === 0 ? down : sideways;
  if (!zooms && (event.shiftKey || Math.abs(sideways) > Math.abs(down))) {
    lanes.pan(across / Math.max(1, lanes.frame.width));
    return;
  }
  lanes.zoom(Math.exp(-Math.max(-60, Math.min(60, down)) * 0.005), x);
}
