/** One record as the front end knows it: shared by all views of a model. */
import { Superseded } from "../base/lanes.ts";
import { Store } from "../base/store.ts";
import { type At, type Shown, StepCache, sameAt } from "./cache.ts";
import { Client, KernelGone, type Link, type Port, type Push } from "./client.ts";
import type {
  KernelDetail,
  LineMarks,
  NodeDetail,
  Overview,
  PassInfo,
  StageInfo,
  Step,
} from "./types.ts";

export interface SessionState {
  readonly overview: Overview | null;
  /** Where the user stands. It moves at once, whatever the kernel does. */
  readonly at: At | null;
  /** What is drawn: it follows `at` as answers come. */
  readonly shown: Shown | null;
  /** Steps that the next keys are likely to ask for, as far as they are here. */
  readonly ahead: readonly At[];
  readonly link: Link;
  /** A sentence about the last thing that failed. */
  readonly problem: string | null;
  readonly node: number | null;
  /** A node that was just chosen elsewhere than in the graph: views bring it into sight. */
  readonly sought: { readonly node: number } | null;
  /** Where the chosen node comes from, in the pass that is shown. */
  readonly origin: NodeDetail | null;
  readonly kernel: number | null;
  /** Lines of the cell that were chosen, and what descends from them. */
  readonly lines: readonly number[];
  readonly marks: LineMarks | null;
  /** A request from elsewhere to look here: which tab, and its number. */
  readonly reveal: Reveal | null;
}

export interface Reveal {
  readonly tab: "kernels" | "rewrites";
  readonly number: number;
}

/** Where in the record a pass stands. */
export interface PassPlace {
  readonly pass: PassInfo;
  readonly stage: StageInfo;
  /** Position among all passes of the record. */
  readonly index: number;
}

const PREFETCH = 2;

/**
 * Holds the step that is shown, what is chosen, and the answers that were given.
 *
 * Moving is immediate: `at` changes, a step that is here is shown at once, and one that is not is
 * asked for; while an answer is on its way only the last place waits.
 */
export class Session {
  readonly state: Store<SessionState>;
  readonly client: Client;
  readonly cache = new StepCache();
  /** Views that are open, for clean-up and for tests. */
  readonly views = new Set<object>();
  readonly #pushed = new Set<(push: Push) => void>();
  readonly #kernels = new Map<number, KernelDetail>();
  #places = new Map<number, PassPlace>();
  #passes: readonly PassPlace[] = [];
  /** The kernel of whose passes the marks know. */
  #marked: number | null = null;
  /** What `origin` was asked for. */
  #origin = "";

  constructor(port: Port, overview: Overview | null, first: Step | null) {
    this.state = new Store<SessionState>({
      overview: null,
      at: null,
      shown: null,
      ahead: [],
      link: "ready",
      problem: null,
      node: null,
      sought: null,
      origin: null,
      kernel: null,
      lines: [],
      marks: null,
      reveal: null,
    });
    this.client = new Client(
      port,
      (link) => this.#onLink(link),
      (push) => {
        for (const hear of this.#pushed) hear(push);
      },
    );
    this.load(overview, first);
    this.state.watch(["node", "shown", "overview"], () => void this.#followNode(), NEVER);
    this.state.watch(["at"], () => this.#followMarks(), NEVER);
  }

  /** Takes over another overview: the record is ready, or was released and came back. */
  load(overview: Overview | null, first: Step | null): void {
    this.#passes = overview ? placesOf(overview) : [];
    this.#places = new Map(this.#passes.map((place) => [place.pass.id, place]));
    this.#kernels.clear();
    this.cache.clear();
    if (first) this.cache.put(first);
    const at = first ? { pass: first.pass, k: first.k } : this.#firstPlace(overview);
    this.state.set({
      overview,
      at,
      shown: at ? this.cache.get(at) : null,
      ahead: [],
      node: first?.failed?.node ?? overview?.error?.node ?? null,
      sought: null,
      kernel: overview?.kernels[0]?.id ?? null,
      lines: [],
      marks: null,
      problem: null,
    });
    if (at && !this.state.now.shown) this.goTo(at);
  }

  get passes(): readonly PassPlace[] {
    return this.#passes;
  }

  place(pass: number | undefined): PassPlace | undefined {
    return pass === undefined ? undefined : this.#places.get(pass);
  }

  onPush(hear: (push: Push) => void, signal: AbortSignal): void {
    this.#pushed.add(hear);
    signal.addEventListener("abort", () => this.#pushed.delete(hear), { once: true });
  }

  /** Stands at match k of a pass; k is held within the pass. */
  goTo(at: At): void {
    const place = this.#places.get(at.pass);
    if (!place) return;
    const wanted = { pass: at.pass, k: Math.min(Math.max(0, at.k), place.pass.matches) };
    const here = this.cache.get(wanted);
    // Without a kernel one can go only to what is here; the status line says why.
    if (!here && this.state.now.link === "gone") return;
    // A kernel's passes bring the kernel along: its table and bench show what is stepped through.
    const kernel = place.stage.kernel ?? this.state.now.kernel;
    const next = { at: wanted, kernel, sought: null };
    this.state.set(here ? { ...next, shown: here } : next);
    if (here) this.#prefetch(wanted);
    else void this.#fetch(wanted);
  }

  /** Moves by some matches within the pass. */
  stepBy(delta: number): void {
    const at = this.state.now.at;
    if (at) this.goTo({ pass: at.pass, k: at.k + delta });
  }

  /** Moves by one match, over the ends of passes: one key leads through the whole record. */
  walk(direction: 1 | -1): void {
    const to = this.beside(direction);
    if (to) this.goTo(to);
  }

  /** The next pass in a direction that changed something, or failed; at its start. */
  passBy(direction: 1 | -1): void {
    const next = this.#passBeside(direction);
    if (next) this.goTo({ pass: next.id, k: 0 });
  }

  /** Where `walk` leads from here; null at the ends of the record. */
  beside(direction: 1 | -1): At | null {
    const at = this.state.now.at;
    const here = this.place(at?.pass)?.pass;
    if (!at || !here) return null;
    const k = at.k + direction;
    if (k >= 0 && k <= here.matches) return { pass: here.id, k };
    const next = this.#passBeside(direction);
    return next ? { pass: next.id, k: direction === 1 ? 0 : next.matches } : null;
  }

  #passBeside(direction: 1 | -1): PassInfo | null {
    const here = this.place(this.state.now.at?.pass);
    let index = (here?.index ?? -1) + direction;
    while (this.#passes[index] && !worthShowing(this.#passes[index]!.pass)) index += direction;
    return this.#passes[index]?.pass ?? null;
  }

  /** Chooses a node; unless it was chosen where it is seen, the views bring it into sight. */
  choose(node: number | null, seek = true): void {
    this.state.set(node === null || !seek ? { node } : { node, sought: { node } });
  }

  chooseKernel(kernel: number): void {
    this.state.set({ kernel });
  }

  /** Chooses lines of the cell and asks what descends from them. */
  async chooseLines(lines: readonly number[]): Promise<void> {
    this.#marked = null;
    if (lines.length === 0) {
      this.state.set({ lines, marks: null });
      return;
    }
    this.state.set({ lines });
    await this.#askMarks();
  }

  /** Marks come with the nodes of the kernel where one stands; elsewhere they are asked for anew. */
  #followMarks(): void {
    const { lines, marks, at } = this.state.now;
    const kernel = this.place(at?.pass)?.stage.kernel ?? null;
    if (lines.length === 0 || kernel === null || kernel === this.#marked) return;
    if (marks && !marks.kernels.includes(kernel)) return;
    void this.#askMarks();
  }

  async #askMarks(): Promise<void> {
    const { lines, at } = this.state.now;
    const pass = at?.pass ?? null;
    const kernel = this.place(pass ?? undefined)?.stage.kernel ?? null;
    this.#marked = kernel;
    try {
      const marks = await this.client.ask("lines", { lines, pass });
      if (this.state.now.lines === lines && this.#marked === kernel) this.state.set({ marks });
    } catch (error) {
      this.report(error);
    }
  }

  /** Asks where the chosen node comes from: once in a pass, since a node's id means the node. */
  async #followNode(): Promise<void> {
    const { node, shown } = this.state.now;
    const here = node !== null && shown?.nodes.has(node) ? `${shown.step.pass}:${node}` : "";
    if (here === this.#origin) return;
    this.#origin = here;
    this.state.set({ origin: null });
    if (here === "" || node === null || !shown) return;
    try {
      const origin = await this.client.ask("node", { pass: shown.step.pass, node });
      if (this.#origin === here) this.state.set({ origin });
    } catch {
      // Without an answer the rest of what is shown is still true.
      if (this.#origin === here) this.#origin = "";
    }
  }

  async kernelDetail(kernel: number): Promise<KernelDetail> {
    const known = this.#kernels.get(kernel);
    if (known) return known;
    const detail = await this.client.ask("kernel", { kernel });
    this.#kernels.set(kernel, detail);
    return detail;
  }

  /** A run changed this kernel's history: ask again next time. */
  forgetKernel(kernel: number): void {
    this.#kernels.delete(kernel);
  }

  /** Shows an error once; that a request gave way to a newer one is none. */
  report(error: unknown): void {
    const problem = problemText(error);
    if (problem !== null) this.state.set({ problem });
  }

  /** Someone is about to step: what they are likely to want is asked for now. */
  lookAhead(): void {
    const { at, shown } = this.state.now;
    if (at && shown) this.#prefetch(at);
  }

  /** Where the cell ended early, else before the first match. */
  #firstPlace(overview: Overview | null): At | null {
    const { pass_id = null, match = null } = overview?.error ?? {};
    if (pass_id !== null && this.#places.has(pass_id)) return { pass: pass_id, k: match ?? 0 };
    const first = this.#passes.find((place) => worthShowing(place.pass)) ?? this.#passes[0];
    return first ? { pass: first.pass.id, k: 0 } : null;
  }

  async #fetch(at: At): Promise<void> {
    try {
      let here = await this.#load(at, this.#base());
      if (!here && sameAt(this.state.now.at, at)) here = await this.#load(at, null);
      if (here && sameAt(this.state.now.at, at)) {
        this.state.set({ shown: here, problem: null });
        this.#prefetch(at);
      }
    } catch (error) {
      this.report(error);
    }
  }

  /** Asks for a step, page by page; null if it leaned on nodes that were dropped here. */
  async #load(at: At, from: At | null): Promise<Shown | null> {
    const step = await this.client.ask("step", { ...at, from }, "step");
    const nodes = [...step.nodes];
    for (let more = step.more ?? false; more && sameAt(this.state.now.at, at); ) {
      const args = { kind: "nodes", ...at, from, after: nodes.length };
      const page = await this.client.ask("more", args, "more");
      nodes.push(...page.nodes);
      more = page.more;
    }
    this.cache.put({ ...step, nodes });
    return sameAt(this.state.now.at, at) ? this.cache.get(at) : null;
  }

  /** A step that is certainly here, to answer with a difference to it. */
  #base(): At | null {
    const shown = this.state.now.shown;
    if (!shown || !this.cache.nodes.has(shown.step.root)) return null;
    return { pass: shown.step.pass, k: shown.step.k };
  }

  /** Asks, one after the other, for what the next keys are likely to want. */
  #prefetch(at: At): void {
    const near = this.#near(at);
    this.state.set({ ahead: near.filter((place) => this.cache.has(place)) });
    if (this.client.link !== "ready" || this.client.isBusy("prefetch")) return;
    const next = near.find((place) => !this.cache.has(place));
    if (!next) return;
    this.client
      .ask("step", { ...next, from: at }, "prefetch")
      .then((step) => {
        if (step.more) return; // too large to be fetched on suspicion
        this.cache.put(step);
        if (sameAt(this.state.now.at, at)) this.#prefetch(at);
      })
      .catch(() => {});
  }

  /** The next match first, then the next pass. */
  #near(at: At): At[] {
    const matches = this.place(at.pass)?.pass.matches ?? 0;
    const ahead = Array.from({ length: PREFETCH }, (_, n) => ({ pass: at.pass, k: at.k + n + 1 }));
    const pass = this.#passBeside(1);
    const [first, ...more] = ahead.filter(({ k }) => k <= matches);
    const next = pass ? { pass: pass.id, k: 0 } : undefined;
    return [first, next, ...more].filter((place) => place !== undefined);
  }

  #onLink(link: Link): void {
    const { at, shown } = this.state.now;
    // What was asked for will not come: one stands at what is shown.
    const here = shown ? { pass: shown.step.pass, k: shown.step.k } : at;
    const stays = link !== "gone" || sameAt(at, here);
    this.state.set(stays ? { link } : { link, at: here });
  }
}

/** A session lives as long as its model. */
const NEVER = new AbortController().signal;

/** What an error says; null where a request gave way to a newer one, or the kernel went. */
export function problemText(error: unknown): string | null {
  if (error instanceof Superseded || error instanceof KernelGone) return null;
  return error instanceof Error ? error.message : String(error);
}

/** Whether a pass did anything that one would look at. */
export function worthShowing(pass: PassInfo): boolean {
  return pass.changed || pass.failed || pass.matches > 0;
}

function placesOf(overview: Overview): PassPlace[] {
  return overview.stages
    .flatMap((stage) => stage.passes.map((pass) => ({ pass, stage })))
    .map((place, index) => ({ ...place, index }));
}
