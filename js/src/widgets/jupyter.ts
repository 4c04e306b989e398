/** A session over a Jupyter widget's model. */
import type { Client, Port, Push, Reply } from "../protocol/client.ts";
import { unpackOverview } from "../protocol/pack.ts";
import { Session } from "../protocol/session.ts";
import type { Overview, Step } from "../protocol/types.ts";
import { keepShown } from "./kept.ts";
import { syncSelection } from "./selection.ts";

/** What is used of an anywidget model, and of the Backbone model behind it. */
export interface WidgetModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, callback: (...args: never[]) => void): void;
  readonly widget_manager?: Manager;
}

interface Manager {
  readonly isDisposed?: boolean;
  readonly context?: { readonly isDisposed?: boolean };
  readonly kernel?: Kernel | null;
}

/** The connection to a kernel, as far as JupyterLab's is used. */
interface Kernel {
  readonly status?: string;
  readonly statusChanged?: Signal<string>;
  readonly disposed?: Signal<unknown>;
}

interface Signal<T> {
  connect(hear: (sender: unknown, value: T) => void): unknown;
  disconnect(hear: (sender: unknown, value: T) => void): unknown;
}

/** Made once per model, by its loader; every view of the model gets the same one. */
export interface Shared {
  readonly model: WidgetModel;
  readonly signal?: AbortSignal;
  session?: Session;
  setUps?: number;
}

/** Views may move between places in the page: only then is a model without views released. */
const RELEASE_MS = 1500;

/** The session of a model: the same for all its views. */
export function sessionOf(shared: Shared): Session {
  const { model } = shared;
  if (!shared.session) {
    shared.setUps = (shared.setUps ?? 0) + 1;
    const session = new Session(portOf(model, shared.signal), overviewOf(model), firstOf(model));
    shared.session = session;
    model.on("change:overview", () => {
      const overview = overviewOf(model);
      if (overview) session.load(overview, firstOf(model));
    });
    syncSelection(session, model);
    keepShown(session, model);
  }
  if (shared.session.state.now.overview === null) tellRefill(shared.session.client);
  return shared.session;
}

/** What a session of any kind of view has. */
export interface Seen {
  readonly client: Pick<Client, "tell" | "link">;
  readonly views: ReadonlySet<object>;
}

export function releaseUnseen(shared: Shared): void {
  const { session } = shared;
  if (session)
    releaseWhenUnseen(shared, session, ["first", "overview"], () => session.load(null, null));
}

/**
 * When no view is left, what the model holds of the record is let go: a notebook that is saved
 * after its outputs were cleared keeps nothing of it.
 */
export function releaseWhenUnseen(
  { model }: Shared,
  session: Seen,
  traits: readonly string[],
  forget: () => void,
): void {
  setTimeout(() => {
    if (session.views.size > 0 || session.client.link === "gone") return;
    if (isClosing(model.widget_manager)) return;
    session.client.tell(plain("release"));
    // Here and now as well: the notebook may be saved before the kernel has answered.
    for (const trait of traits) model.set(trait, null);
    forget();
  }, RELEASE_MS);
}

/** Asks for what was let go. */
export function tellRefill(client: Seen["client"]): void {
  client.tell(plain("refill"));
}

/** A message that expects no answer. */
const plain = (ask: string): object => ({ id: 0, ask, args: {} });

/** A notebook that is being closed takes its views away too: nothing is to be released then. */
function isClosing(manager: Manager | undefined): boolean {
  return manager?.isDisposed === true || manager?.context?.isDisposed === true;
}

function overviewOf(model: WidgetModel): Overview | null {
  return unpackOverview(model.get("overview"));
}

function firstOf(model: WidgetModel): Step | null {
  return (model.get("first") as Step | null | undefined) ?? null;
}

export function portOf(model: WidgetModel, signal?: AbortSignal): Port {
  return {
    send: (message) => {
      if (model.widget_manager?.kernel === null) throw new Error("there is no kernel");
      model.send(message);
    },
    listen: (hear) =>
      model.on("msg:custom", ((message: Reply | Push, buffers?: DataView[]) =>
        hear(message, buffers)) as never),
    onGone: (tell) => {
      if (!isLive(model)) {
        tell();
        return;
      }
      // Of the models that lose their comms together, this one may be told before its layout.
      model.on("comm_live_update", () => setTimeout(() => isLive(model) || tell(), 0));
      model.on("destroy", tell as never);
      signal?.addEventListener("abort", tell, { once: true });
      onEnd(model.widget_manager?.kernel, tell, signal);
    },
    kernelIdle: () => model.widget_manager?.kernel?.status === "idle",
  };
}

/**
 * Whether something in a kernel is behind a model: not if it was restored from a notebook's file.
 *
 * What is seen of the model here says nothing of its comm. Its layout does: it is a model of its
 * own, which comes and goes with this one.
 */
function isLive(model: WidgetModel): boolean {
  if (model.widget_manager?.kernel === null) return false;
  const layout = model.get("layout") as { readonly comm_live?: boolean } | null | undefined;
  return layout?.comm_live !== false;
}

/** A kernel in one of these states has lost what it knew. */
const ENDS: ReadonlySet<string> = new Set(["restarting", "autorestarting", "terminating", "dead"]);

/** Calls back when a kernel ends or starts anew. */
function onEnd(kernel: Kernel | null | undefined, tell: () => void, signal?: AbortSignal): void {
  const hear = (_: unknown, status: string): void => {
    if (ENDS.has(status)) tell();
  };
  kernel?.statusChanged?.connect(hear);
  kernel?.disposed?.connect(tell);
  // A kernel outlives the models that were closed.
  const stop = (): void => {
    kernel?.statusChanged?.disconnect(hear);
    kernel?.disposed?.disconnect(tell);
  };
  signal?.addEventListener("abort", stop, { once: true });
}
