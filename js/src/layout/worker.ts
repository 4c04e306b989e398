/** The layout off the main thread. It looks for newer orders between the steps of a layout. */
import { layered } from "./layered.ts";
import type { Layout, LayoutInput } from "./types.ts";

export interface LayoutOrder {
  readonly id: number;
  /** Null takes the order back. */
  readonly input: LayoutInput | null;
}

export interface LayoutDone {
  readonly id: number;
  readonly layout: Layout;
}

interface WorkerScope {
  onmessage: ((event: MessageEvent<LayoutOrder>) => void) | null;
  postMessage(message: LayoutDone, transfer: Transferable[]): void;
}

const SLICE_MS = 25;

/** Serves orders in the order of their arrival; one that is taken back stops at its next step. */
export function serve(scope: WorkerScope): void {
  const orders = new Map<number, LayoutInput>();
  let working = false;
  const breathe = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

  async function work(id: number, input: LayoutInput): Promise<void> {
    const steps = layered(input);
    let since = performance.now();
    while (orders.has(id)) {
      const { done, value } = steps.next();
      if (done) {
        orders.delete(id);
        const buffers = [value.x, value.y, value.rank, value.pointStart, value.points];
        scope.postMessage(
          { id, layout: value },
          buffers.map((array) => array.buffer as ArrayBuffer),
        );
        return;
      }
      if (performance.now() - since > SLICE_MS) {
        await breathe();
        since = performance.now();
      }
    }
  }

  async function drain(): Promise<void> {
    working = true;
    for (let next = first(orders); next; next = first(orders)) await work(...next);
    working = false;
  }

  scope.onmessage = ({ data }) => {
    if (data.input) orders.set(data.id, data.input);
    else orders.delete(data.id);
    if (!working) void drain();
  };
}

function first<K, V>(map: ReadonlyMap<K, V>): [K, V] | undefined {
  return map.entries().next().value;
}
