/** Dragging, zooming and choosing with the pointer. */
import { type Camera, type Size, zoomAt } from "./camera.ts";

export interface PointerTarget {
  readonly camera: Camera;
  readonly size: Size;
  setCamera(camera: Camera): void;
  hover(x: number, y: number): void;
  click(x: number, y: number): void;
  open(x: number, y: number): void;
}

const CLICK_SLOP = 4;

/**
 * The wheel zooms only where the widget has the focus, or with Control: over a widget that one only
 * scrolls past, it scrolls the notebook.
 */
export function watchPointer(
  canvas: HTMLElement,
  target: PointerTarget,
  signal: AbortSignal,
): void {
  let drag: { x: number; y: number; camera: Camera; far: boolean } | null = null;
  const at = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      drag = { x, y, camera: target.camera, far: false };
    },
    { signal },
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      const [x, y] = at(event);
      if (!drag) {
        target.hover(x, y);
        return;
      }
      drag.far ||= Math.hypot(x - drag.x, y - drag.y) > CLICK_SLOP;
      if (!drag.far) return;
      const { camera } = drag;
      target.setCamera({ ...camera, x: camera.x + x - drag.x, y: camera.y + y - drag.y });
    },
    { signal },
  );
  canvas.addEventListener(
    "pointerup",
    (event) => {
      if (drag && !drag.far) target.click(...at(event));
      drag = null;
    },
    { signal },
  );
  canvas.addEventListener("pointercancel", () => (drag = null), { signal });
  canvas.addEventListener("pointerleave", () => !drag && target.hover(-1e6, -1e6), { signal });
  canvas.addEventListener("dblclick", (event) => target.open(...at(event)), { signal });
  canvas.addEventListener(
    "wheel",
    (event) => {
      const focused = canvas.closest(".tinylab")?.matches(":focus-within") ?? false;
      if (!focused && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      const unit = event.deltaMode === 1 ? 16 : 1;
      const factor = Math.exp(-Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.005);
      target.setCamera(zoomAt(target.camera, factor, ...at(event)));
    },
    { signal, passive: false },
  );
}
