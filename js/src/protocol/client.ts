/** Questions to the kernel, and what is known of the way there. */
import { Lane } from "../base/lanes.ts";
import { type ColumnSpec, joined, unpackColumns } from "./columns.ts";
import type { Answers } from "./types.ts";

/** How messages travel: a Jupyter comm, or anything else that carries JSON both ways. */
export interface Port {
  /** Throws if the other side has gone. */
  send(message: unknown): void;
  listen(hear: (message: Reply | Push, buffers?: readonly DataView[]) => void): void;
  /** Calls back when the other side goes for good. */
  onGone(tell: () => void): void;
  /** Whether the kernel says that it has nothing to do, where that is known. */
  kernelIdle?(): boolean;
}

export interface Reply {
  readonly id: number;
  /** A part of the answer's buffer, sent ahead; the answer brings the last. */
  readonly piece?: number;
  /** The question has come, and its answer takes a while: the kernel is there. */
  readonly heard?: boolean;
  readonly ok?: unknown;
  readonly error?: string;
}

export interface Push {
  readonly event: string;
  readonly [key: string]: unknown;
}

export type Link = "ready" | "waiting" | "busy" | "gone";

/** The kernel is not there any more. */
export class KernelGone extends Error {
  constructor() {
    super("the kernel of this record has gone: run the cell again");
  }
}

interface Pending {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly patient: boolean;
  readonly since: number;
  readonly pieces: DataView[];
  heard: boolean;
}

const WAITING_MS = 120;
const BUSY_MS = 600;
/** An idle kernel that has not answered for so long does not know this record (any more). */
const LOST_MS = 6000;
const LOOK_MS = 1000;
const IDLE_LOOKS = 4;

/** Work takes as long as it takes: it says nothing about whether the kernel answers. */
const WORK: ReadonlySet<string> = new Set(["run", "count"]);

type Send = (question: string, args: object) => Promise<unknown>;

/**
 * One asker's questions, by lane: what may be asked, and what answers it, is told by `All`.
 *
 * Of each lane one is on its way and one waits, the newest: it takes the place of an older one.
 */
export class Asker<All extends object> {
  readonly #lanes = new Map<string, Lane<readonly [string, object], unknown>>();

  constructor(private readonly send: Send) {}

  /** Rejects with Superseded when a newer question of this asker took its place. */
  ask<Q extends keyof All & string>(
    question: Q,
    args: object,
    lane: string = question,
  ): Promise<All[Q]> {
    let queue = this.#lanes.get(lane);
    if (!queue) {
      queue = new Lane(([name, given]) => this.send(name, given));
      this.#lanes.set(lane, queue);
    }
    return queue.ask([question, args]) as Promise<All[Q]>;
  }

  isBusy(lane: string): boolean {
    return this.#lanes.get(lane)?.busy ?? false;
  }

  /** Forgets what waits. What is on its way is still answered. */
  drop(): void {
    for (const lane of this.#lanes.values()) lane.drop();
  }
}

/**
 * The way to the kernel, shared by all views of a model.
 *
 * What the views have in common is asked for by `ask`; what one view shows for itself, by an asker of its
 * own, see `askerFor`: otherwise one view's question would take the place of another's.
 *
 * `onLink` hears how the kernel answers: ready, waiting (asked a moment ago), busy (no answer for
 * over half a second), gone.
 */
export class Client<All extends object = Answers> {
  readonly #shared = new Asker<All>((question, args) => this.#send(question, args));
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #link: Link = "ready";
  #timer: ReturnType<typeof setTimeout> | null = null;
  #idleLooks = 0;

  constructor(
    private readonly port: Port,
    private readonly onLink: (link: Link) => void,
    private readonly onPush: (push: Push) => void,
  ) {
    port.listen((message, buffers) => this.#hear(message, buffers ?? []));
    port.onGone(() => this.#end());
  }

  get link(): Link {
    return this.#link;
  }

  /** How many messages were sent so far. */
  get sent(): number {
    return this.#lastId;
  }

  ask<Q extends keyof All & string>(
    question: Q,
    args: object,
    lane: string = question,
  ): Promise<All[Q]> {
    return this.#shared.ask(question, args, lane);
  }

  /** An asker for one view: its questions take the place of its own older ones, and of no others. */
  askerFor(signal: AbortSignal): Asker<All> {
    const own = new Asker<All>((question, args) => this.#send(question, args));
    signal.addEventListener("abort", () => own.drop(), { once: true });
    return own;
  }

  /** A message that expects no answer. Nothing happens if the kernel has gone. */
  tell(message: object): void {
    if (this.#link === "gone") return;
    try {
      this.port.send(message);
    } catch {
      this.#end();
    }
  }

  isBusy(lane: string): boolean {
    return this.#shared.isBusy(lane);
  }

  #send(question: string, args: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#link === "gone") {
        reject(new KernelGone());
        return;
      }
      this.#lastId += 1;
      const id = this.#lastId;
      const patient = WORK.has(question);
      this.#pending.set(id, {
        resolve,
        reject,
        patient,
        since: Date.now(),
        pieces: [],
        heard: false,
      });
      try {
        this.port.send({ id, ask: question, args });
        this.#look();
      } catch {
        this.#end();
      }
    });
  }

  #hear(message: Reply | Push, buffers: readonly DataView[]): void {
    if ("event" in message) {
      this.onPush(message);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    pending.pieces.push(...buffers);
    pending.heard = true;
    if (message.piece !== undefined || message.heard) return;
    this.#pending.delete(message.id);
    if (message.error !== undefined) pending.reject(new Error(message.error));
    else settle(pending, message.ok);
    // The next request of the lane is sent in a microtask: look after that.
    setTimeout(() => this.#look(), 0);
  }

  #end(): void {
    const left = [...this.#pending.values()];
    this.#pending.clear();
    this.#setLink("gone");
    for (const pending of left) pending.reject(new KernelGone());
  }

  #setLink(link: Link): void {
    if (this.#link === link || this.#link === "gone") return;
    this.#link = link;
    this.onLink(link);
  }

  #look(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const waiting = [...this.#pending.values()].filter((pending) => !pending.patient);
    if (waiting.length === 0) {
      this.#idleLooks = 0;
      this.#setLink("ready");
      return;
    }
    const age = Date.now() - Math.min(...waiting.map((pending) => pending.since));
    this.#idleLooks = this.port.kernelIdle?.() === true ? this.#idleLooks + 1 : 0;
    const isLost = waiting.some((each) => !each.heard && Date.now() - each.since >= LOST_MS);
    if (isLost && this.#idleLooks >= IDLE_LOOKS) {
      this.#end();
      return;
    }
    if (age >= BUSY_MS) this.#setLink("busy");
    else if (age >= WAITING_MS && this.#link === "ready") this.#setLink("waiting");
    const next = age < WAITING_MS ? WAITING_MS - age : age < BUSY_MS ? BUSY_MS - age : LOOK_MS;
    this.#timer = setTimeout(() => this.#look(), next + 1);
  }
}

function settle(pending: Pending, answer: unknown): void {
  try {
    pending.resolve(withColumns(answer, pending.pieces));
  } catch (error) {
    pending.reject(error);
  }
}

/** An answer with its columns in place of where they stand in the buffer. */
function withColumns(answer: unknown, pieces: readonly DataView[]): unknown {
  const specs = (answer as { columns?: readonly ColumnSpec[] } | null)?.columns;
  if (pieces.length === 0 || !specs) return answer;
  return { ...(answer as object), columns: unpackColumns(specs, joined(pieces)) };
}
