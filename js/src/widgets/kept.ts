/** What a notebook's file keeps of a debugger, where it is saved with the state of its widgets. */
import type { Shown } from "../protocol/cache.ts";
import type { Session } from "../protocol/session.ts";
import type { Step } from "../protocol/types.ts";
import type { WidgetModel } from "./jupyter.ts";
import { NEVER } from "./selection.ts";

/** Only where the views come to rest is kept. */
const REST_MS = 300;
/** As much as the first step may take there. */
const MOST_LETTERS = 250_000;
const MOST_NODES = 4000;

/** Keeps the step that is shown in place of the first one: opened again, the debugger shows it. */
export function keepShown(session: Session, model: WidgetModel): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const keep = (): void => {
    const { shown } = session.state.now;
    const held = model.get("first") as object | null | undefined;
    if (shown && held) replace(held, shown);
  };
  const rest = (): void => {
    clearTimeout(timer);
    timer = setTimeout(keep, REST_MS);
  };
  session.state.watch(["shown"], rest, NEVER);
}

/** In place: what is set on the model is sent to the kernel, which has no use for it. */
function replace(held: object, shown: Shown): void {
  if (shown.order.length > MOST_NODES) return;
  const step = wholeStep(shown);
  if (JSON.stringify(step).length > MOST_LETTERS) return;
  for (const key of Object.keys(held)) Reflect.deleteProperty(held, key);
  Object.assign(held, step);
}

/** A step with all nodes of its graph, whatever it was a difference to. */
function wholeStep({ step, order, nodes }: Shown): Step {
  return { ...step, nodes: order.map((id) => nodes.get(id)!), more: false };
}
