/** A browser's canvas and sizes, for tests: what was drawn is noted. */
import { vi } from "vitest";

export interface Drawn {
  readonly texts: string[];
  rectangles: number;
}

/** Until `vi.restoreAllMocks` and `vi.unstubAllGlobals`: all elements have one size. */
export function stubCanvas(width: number, height: number): Drawn {
  const drawn: Drawn = { texts: [], rectangles: 0 };
  vi.stubGlobal(
    "ResizeObserver",
    class {
      constructor(private readonly tell: (entries: object[]) => void) {}
      observe(): void {
        this.tell([{ contentRect: { width, height } }]);
      }
      disconnect(): void {}
    },
  );
  const context = new Proxy({} as Record<string, unknown>, {
    get: (target, name) => {
      if (name === "fillText") return (text: string) => drawn.texts.push(text);
      if (name === "measureText") return (text: string) => ({ width: 6 * text.length });
      if (name === "fillRect")
        return () => {
          drawn.rectangles += 1;
        };
      return target[String(name)] ?? (() => undefined);
    },
    set: (target, name, value) => {
      target[String(name)] = value;
      return true;
    },
  });
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(context as never);
  return drawn;
}
