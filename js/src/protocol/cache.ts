/** What a front end holds of a record: nodes by id, and the steps that were answered. */
import { reach } from "../base/graph.ts";
import type { Node, Step } from "./types.ts";

/** A place in a record: the graph of a pass after match k. */
export interface At {
  readonly pass: number;
  readonly k: number;
}

/** A step as the views draw it. */
export interface Shown {
  readonly step: Step;
  /** Sources first. */
  readonly order: readonly number[];
  readonly nodes: ReadonlyMap<number, Node>;
  /** Made by this step's rule: new, and under the node after. */
  readonly added: ReadonlySet<number>;
  /** Removed by this step's rule: under the node before, and in no later graph. */
  readonly gone: readonly number[];
  /** Rebuilt only because a source of theirs is another one. */
  readonly rebuilt: ReadonlySet<number>;
}

const KEPT_STEPS = 4000;
const KEPT_NODES = 400_000;
/** Steps that are described once: the one that is shown, and those that keys may ask for. */
const KEPT_SHOWN = 8;

export const keyOf = (at: At): string => `${at.pass}:${at.k}`;
export const sameAt = (a: At | null, b: At | null): boolean =>
  a === b || (a !== null && b !== null && a.pass === b.pass && a.k === b.k);

/**
 * Steps are kept as roots into one table of nodes, so that a step costs what it added.
 *
 * Ids are stable in a record: a node that is known never changes.
 */
export class StepCache {
  #nodes = new Map<number, Node>();
  #steps = new Map<string, Step>();
  #shown = new Map<string, Shown>();

  get nodes(): ReadonlyMap<number, Node> {
    return this.#nodes;
  }

  has(at: At): boolean {
    return this.#steps.has(keyOf(at));
  }

  put(step: Step): void {
    if (this.#nodes.size > KEPT_NODES) this.clear();
    for (const node of step.nodes) this.#nodes.set(node.id, node);
    for (const node of step.gone) this.#nodes.set(node.id, node);
    const kept = { ...step, nodes: [] };
    this.#steps.set(keyOf(step), kept);
    dropOldest(this.#steps, KEPT_STEPS);
  }

  clear(): void {
    this.#nodes = new Map();
    this.#steps = new Map();
    this.#shown = new Map();
  }

  /** The step as it is drawn, or null if it, or any node of its graph, is not here. */
  get(at: At): Shown | null {
    const key = keyOf(at);
    const known = this.#shown.get(key);
    if (known) return known;
    const step = this.#steps.get(key);
    if (!step) return null;
    const { order, missing } = reach(this.#nodes, [step.root]);
    if (missing.length > 0) {
      this.#steps.delete(key);
      return null;
    }
    const value = this.#describe(step, order);
    this.#shown.set(key, value);
    dropOldest(this.#shown, KEPT_SHOWN);
    return value;
  }

  #describe(step: Step, order: number[]): Shown {
    const under = (id: number | null): readonly number[] =>
      id === null ? [] : reach(this.#nodes, [id]).order;
    const now = new Set(order);
    const underAfter = new Set(under(step.after));
    const isGone = new Set(step.gone.map((node) => node.id));
    const added = new Set(step.added.filter((id) => now.has(id) && underAfter.has(id)));
    const rebuilt = new Set(step.added.filter((id) => now.has(id) && !underAfter.has(id)));
    const gone = under(step.before).filter((id) => isGone.has(id) && !now.has(id));
    return { step, order, nodes: this.#nodes, added, gone, rebuilt };
  }
}

/** Drops what came first from a map that has one entry too many. */
function dropOldest<V>(map: Map<string, V>, most: number): void {
  if (map.size <= most) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
