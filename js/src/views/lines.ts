/** A long list of rows of equal height, of which only those in sight are in the page. */
import { h, onResize, perFrame } from "./dom.ts";

export interface Lines {
  readonly el: HTMLElement;
  /** Shows `count` rows; `keep` leaves the list where it is scrolled to. */
  show(count: number, render: (row: number) => HTMLElement, keep?: boolean): void;
  /** Draws again what is in sight. */
  refresh(): void;
  scrollTo(row: number): void;
}

const AROUND = 12;

export function lineList(rowHeight: number, className: string, signal: AbortSignal): Lines {
  const content = h("div", { class: "tl-lines-content" });
  const el = h("div", { class: `tl-lines ${className}`, tabindex: "0" }, content);
  let count = 0;
  let render: (row: number) => HTMLElement = () => h("div");
  let drawn: readonly [number, number] = [-1, -1];

  const draw = (): void => {
    const height = el.clientHeight || 300;
    const first = Math.max(0, Math.floor(el.scrollTop / rowHeight) - AROUND);
    const last = Math.min(count, Math.ceil((el.scrollTop + height) / rowHeight) + AROUND);
    if (first === drawn[0] && last === drawn[1]) return;
    drawn = [first, last];
    const rows: HTMLElement[] = [];
    for (let row = first; row < last; row += 1) {
      const line = render(row);
      line.style.top = `${row * rowHeight}px`;
      rows.push(line);
    }
    content.replaceChildren(...rows);
  };
  const redraw = perFrame(draw, signal);
  el.addEventListener("scroll", redraw, { signal, passive: true });
  onResize(el, redraw, signal);

  const refresh = (): void => {
    drawn = [-1, -1];
    draw();
  };
  return {
    el,
    refresh,
    show(rows, make, keep = false) {
      count = rows;
      render = make;
      content.style.height = `${rows * rowHeight}px`;
      if (!keep) el.scrollTop = 0;
      refresh();
    },
    scrollTo(row) {
      const top = row * rowHeight;
      const inSight = top >= el.scrollTop && top + rowHeight <= el.scrollTop + el.clientHeight;
      if (!inSight) el.scrollTop = Math.max(0, top - el.clientHeight / 2);
      redraw();
    },
  };
}
