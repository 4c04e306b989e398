/** A scene with its places: what the canvas paints, and what is under the pointer. */
import { ROWS_A_STEP, type Steps } from "../../base/slices.ts";
import type { Scene, SceneNode } from "../../layout/scene.ts";
import type { Layout } from "../../layout/types.ts";
import type { Box } from "./camera.ts";

/** Of a step that changed more than this, not each node needs to be in sight. */
const MOST_CHANGED = 60;

interface Row {
  top: number;
  bottom: number;
  readonly nodes: number[];
}

export class Picture {
  readonly box: Box;
  /** Nodes by row, each row by x: to find what a point or a window meets without looking at all. */
  readonly #rows: readonly Row[];

  private constructor(
    readonly scene: Scene,
    readonly layout: Layout,
    rows: readonly Row[],
  ) {
    this.box = boundsOf(rows, scene, layout);
    this.#rows = rows;
  }

  /** Makes a picture; it may pause. */
  static *steps(scene: Scene, layout: Layout): Steps<Picture> {
    const rows: Row[] = [];
    for (const [i, node] of scene.nodes.entries()) {
      if (i % (4 * ROWS_A_STEP) === 0) yield;
      const rank = layout.rank[i]!;
      const y = layout.y[i]!;
      rows[rank] ??= { top: Number.POSITIVE_INFINITY, bottom: Number.NEGATIVE_INFINITY, nodes: [] };
      const row = rows[rank]!;
      row.nodes.push(i);
      row.top = Math.min(row.top, y - node.height / 2);
      row.bottom = Math.max(row.bottom, y + node.height / 2);
    }
    yield;
    for (const row of rows) row?.nodes.sort((a, b) => layout.x[a]! - layout.x[b]!);
    yield;
    return new Picture(scene, layout, rows.filter(Boolean));
  }

  node(id: number | null): SceneNode | undefined {
    const at = id === null ? undefined : this.scene.index.get(id);
    return at === undefined ? undefined : this.scene.nodes[at];
  }

  centre(id: number | null): { x: number; y: number } | null {
    const at = id === null ? undefined : this.scene.index.get(id);
    return at === undefined ? null : { x: this.layout.x[at]!, y: this.layout.y[at]! };
  }

  boxOf(id: number): Box | null {
    const node = this.node(id);
    const centre = this.centre(id);
    if (!node || !centre) return null;
    return {
      left: centre.x - node.width / 2,
      right: centre.x + node.width / 2,
      top: centre.y - node.height / 2,
      bottom: centre.y + node.height / 2,
    };
  }

  /** Indices of the nodes that a window meets. */
  inside(window: Box): number[] {
    const found: number[] = [];
    for (const row of this.#rows) {
      if (row.bottom < window.top || row.top > window.bottom) continue;
      for (const i of row.nodes) {
        const half = this.scene.nodes[i]!.width / 2;
        const x = this.layout.x[i]!;
        if (x + half >= window.left && x - half <= window.right) found.push(i);
      }
    }
    return found;
  }

  /** The id of the node at a point, or null. */
  at(x: number, y: number): number | null {
    for (const i of this.inside({ left: x, right: x, top: y, bottom: y })) {
      const node = this.scene.nodes[i]!;
      if (Math.abs(y - this.layout.y[i]!) <= node.height / 2) return node.id;
    }
    return null;
  }

  /** The neighbour of a node in its row, to the right (1) or to the left (-1). */
  beside(id: number, direction: 1 | -1): number | null {
    const at = this.scene.index.get(id);
    if (at === undefined) return null;
    const row = this.#rows.find((each) => each.nodes.includes(at));
    const next = row?.nodes[(row.nodes.indexOf(at) ?? 0) + direction];
    return next === undefined ? null : this.scene.nodes[next]!.id;
  }

  /** The last node of the graph, which all others serve. */
  get root(): number {
    return this.scene.nodes.find((node) => node.root)?.id ?? -1;
  }

  /** Where a step changed something; parts that are not drawn are left out. */
  change(): Change {
    const failed = this.boxOf(this.scene.failed ?? -1);
    if (failed) return { whole: null, ends: null, end: failed };
    const [before, after] = [this.scene.before, this.scene.after].map((id) => this.boxOf(id ?? -1));
    const changed = this.scene.nodes
      .filter((node) => node.mark === "added" || node.mark === "gone")
      .slice(0, MOST_CHANGED)
      .map((node) => this.boxOf(node.id)!);
    const ends = before && after ? around([before, after]) : null;
    const end = after ?? before ?? changed.at(-1) ?? null;
    return { whole: end && around([...(ends ? [ends] : []), end, ...changed]), ends, end };
  }
}

/** Boxes around what a step changed, each within the one before it. */
export interface Change {
  /** All that came and went. */
  readonly whole: Box | null;
  /** The node before and the node after, where both are drawn. */
  readonly ends: Box | null;
  /** The node after; where nothing came, the node before; where a rule raised, its node. */
  readonly end: Box | null;
}

export function around(boxes: readonly Box[]): Box {
  return {
    left: Math.min(...boxes.map((box) => box.left)),
    top: Math.min(...boxes.map((box) => box.top)),
    right: Math.max(...boxes.map((box) => box.right)),
    bottom: Math.max(...boxes.map((box) => box.bottom)),
  };
}

/** The box around all nodes. */
function boundsOf(rows: readonly Row[], scene: Scene, layout: Layout): Box {
  let [left, top, right, bottom] = rows.length > 0 ? NOWHERE : [0, 0, 0, 0];
  for (const row of rows) {
    top = Math.min(top, row.top);
    bottom = Math.max(bottom, row.bottom);
    for (const i of row.nodes) {
      const half = scene.nodes[i]!.width / 2;
      left = Math.min(left, layout.x[i]! - half);
      right = Math.max(right, layout.x[i]! + half);
    }
  }
  return { left, top, right, bottom };
}

const NOWHERE = [
  Number.POSITIVE_INFINITY,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
] as const;
