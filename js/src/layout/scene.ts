/** From a step to boxes and arrows: what is drawn, what is written in it, and how large it is. */
import { consumersOf } from "../base/graph.ts";
import { atOnce, ROWS_A_STEP, type Steps } from "../base/slices.ts";
import { clip } from "../base/text.ts";
import type { Shown } from "../protocol/cache.ts";
import type { Kind, Node } from "../protocol/types.ts";
import { near } from "./fold.ts";
import type { LayoutInput } from "./types.ts";

export type NodeMark = "" | "added" | "gone" | "rebuilt";
export type Role = "" | "before" | "after" | "failed";

export interface SceneNode {
  readonly id: number;
  readonly title: string;
  readonly detail: string;
  readonly type: string;
  readonly kind: Kind;
  readonly mark: NodeMark;
  readonly role: Role;
  readonly root: boolean;
  /** Neighbours that are folded away. */
  readonly hiddenSources: number;
  readonly hiddenUses: number;
  readonly width: number;
  readonly height: number;
}

export interface SceneEdge {
  readonly from: number;
  readonly to: number;
  readonly slot: number;
  /** Only there to keep the node before near to the node after. */
  readonly invisible: boolean;
}

export interface Scene {
  readonly nodes: readonly SceneNode[];
  readonly edges: readonly SceneEdge[];
  readonly input: LayoutInput;
  readonly index: ReadonlyMap<number, number>;
  readonly before: number | null;
  readonly after: number | null;
  /** The node on which a rule raised. */
  readonly failed: number | null;
  /** All nodes of the graph, drawn or not. */
  readonly total: number;
  readonly folded: boolean;
}

export interface SceneOptions {
  /** Write constants into the nodes that use them. */
  readonly inline: boolean;
  /** Draw what the step removed. */
  readonly ghosts: boolean;
  /** Fold graphs with more nodes than this. */
  readonly foldAbove: number;
  /** How many nodes of a folded graph are drawn. */
  readonly keep: number;
  /** Nodes that the user asked for: they are drawn as nodes, and their surroundings with them. */
  readonly opened: readonly number[];
  readonly charWidth: number;
}

/** How a graph is drawn until the user asks for another way. */
export const SCENE_OPTIONS: SceneOptions = {
  inline: true,
  ghosts: true,
  foldAbove: 2500,
  keep: 600,
  opened: [],
  charWidth: 6.65,
};

export interface OldPlace {
  readonly x: number;
  readonly rank: number;
}

const LINE = 14;
const PAD_X = 9;
const PAD_Y = 6;
const MAX_CHARS = 34;

export function buildScene(
  shown: Shown,
  options: SceneOptions,
  old: (id: number) => OldPlace | undefined,
): Scene {
  return atOnce(sceneSteps(shown, options, old));
}

/** The same, which may pause: a graph of ten thousand nodes takes longer than a frame. */
export function* sceneSteps(
  shown: Shown,
  options: SceneOptions,
  old: (id: number) => OldPlace | undefined,
): Steps<Scene> {
  const { step, nodes } = shown;
  const ghosts = options.ghosts ? shown.gone : [];
  const order = mergeOrders(shown, ghosts);
  const failed = step.failed?.node ?? null;
  const ends = [step.root, step.after, step.before, failed].filter((id) => id !== null);
  const special = new Set([...ends, ...options.opened]);
  const inlined = options.inline ? inlineTexts(nodes, order, special) : new Map<number, string>();
  yield;
  const uses = consumersOf(nodes, order);
  yield;
  const whole = order.filter((id) => !inlined.has(id));
  const folded = whole.length > options.foldAbove;
  const kept = folded
    ? near(nodes, uses, centresOf(shown, options.opened), options.keep)
    : new Set(whole);
  const drawn = whole.filter((id) => kept.has(id));
  const index = new Map(drawn.map((id, i) => [id, i]));
  const gone = new Set(ghosts);
  yield;
  const boxes: SceneNode[] = [];
  for (const id of drawn) {
    if (boxes.length % ROWS_A_STEP === 0) yield;
    boxes.push(boxOf(id, shown, { inlined, index, uses, gone, charWidth: options.charWidth }));
  }
  yield;
  const edges = edgesOf(shown, drawn, index, uses);
  yield;
  const input = yield* inputOf(boxes, edges, index, old);
  return {
    nodes: boxes,
    edges,
    input,
    index,
    before: step.before,
    after: step.after,
    failed,
    total: shown.order.length,
    folded,
  };
}

/** What boxes are made of, apart from their node. */
interface Around {
  readonly inlined: ReadonlyMap<number, string>;
  readonly index: ReadonlyMap<number, number>;
  readonly uses: ReadonlyMap<number, readonly number[]>;
  readonly gone: ReadonlySet<number>;
  readonly charWidth: number;
}

function boxOf(id: number, shown: Shown, around: Around): SceneNode {
  const { inlined, index, uses, gone, charWidth } = around;
  const node = shown.nodes.get(id)!;
  const drawable = node.src.filter((src) => !inlined.has(src));
  const users = uses.get(id) ?? [];
  const hidden = (ids: readonly number[]): number => ids.filter((each) => !index.has(each)).length;
  return box(node, inlined, charWidth, {
    mark: markOf(id, shown, gone),
    role: roleOf(id, shown, gone),
    root: id === shown.step.root,
    hiddenSources: hidden(drawable),
    hiddenUses: hidden(users),
  });
}

function markOf(id: number, shown: Shown, gone: ReadonlySet<number>): NodeMark {
  if (gone.has(id)) return "gone";
  if (shown.added.has(id)) return "added";
  return shown.rebuilt.has(id) ? "rebuilt" : "";
}

function roleOf(id: number, { step }: Shown, gone: ReadonlySet<number>): Role {
  if (id === step.failed?.node) return "failed";
  if (id === step.after) return "after";
  return id === step.before && gone.has(id) ? "before" : "";
}

/** Constants, and stacks of constants, as the text that their users show instead. */
export function inlineTexts(
  nodes: ReadonlyMap<number, Node>,
  order: readonly number[],
  except: ReadonlySet<number>,
): Map<number, string> {
  const texts = new Map<number, string>();
  for (const id of order) {
    const node = nodes.get(id)!;
    if (except.has(id)) continue;
    if (node.op === "CONST") texts.set(id, clip(node.arg || node.label, 14));
    else if (node.op === "STACK" && node.src.every((src) => texts.has(src))) {
      texts.set(id, clip(`(${node.src.map((src) => texts.get(src)).join(", ")})`, 26));
    } else if (node.op === "NOOP" && node.src.length === 0) texts.set(id, "–");
  }
  return texts;
}

function box(
  node: Node,
  inlined: ReadonlyMap<number, string>,
  charWidth: number,
  rest: Omit<SceneNode, "id" | "title" | "detail" | "type" | "kind" | "width" | "height">,
): SceneNode {
  const detail = clip(detailOf(node, inlined), MAX_CHARS);
  const type = clip(typeOf(node), MAX_CHARS);
  const first = node.op.length + (detail ? detail.length + 1 : 0);
  const chars = Math.max(first, type.length, 3);
  return {
    id: node.id,
    title: node.op,
    detail,
    type,
    kind: node.kind,
    ...rest,
    width: Math.ceil(chars * charWidth) + 2 * PAD_X,
    height: (type ? 2 : 1) * LINE + 2 * PAD_Y,
  };
}

/** The argument of a node, then its operands if some are written here: "• 4". */
function detailOf(node: Node, inlined: ReadonlyMap<number, string>): string {
  const parts = [];
  const label = labelOf(node);
  if (label) parts.push(label);
  // A range's label says its size already.
  if (node.kind !== "range" && node.src.some((src) => inlined.has(src))) {
    parts.push(node.src.map((src) => inlined.get(src) ?? "•").join(" "));
  }
  return parts.join(" ");
}

/** What a label says beyond the op: "RANGE 0 REDUCE x64" -> "0 REDUCE x64" */
function labelOf(node: Node): string {
  if (!node.label.startsWith(node.op)) return node.label;
  return node.label.slice(node.op.length).trim();
}

function typeOf(node: Node): string {
  const shape = node.shape && node.shape.length > 0 ? ` ${node.shape.join("×")}` : "";
  const dtype = node.dtype === "void" ? "" : node.dtype;
  return `${dtype}${shape}`.trim();
}

function centresOf(shown: Shown, opened: readonly number[]): number[] {
  const { before, after, root, failed } = shown.step;
  const centres = [failed?.node ?? null, after, before, ...opened].filter(
    (id): id is number => id !== null,
  );
  return centres.length > 0 ? centres : [root];
}

/**
 * Sources before users, with the removed nodes among them: they are drawn from nodes that are old,
 * and the node before stands beside the users of the node after, which were rebuilt.
 */
function mergeOrders(shown: Shown, ghosts: readonly number[]): number[] {
  if (ghosts.length === 0) return [...shown.order];
  const { order, rebuilt } = shown;
  return [
    ...order.filter((id) => !rebuilt.has(id)),
    ...ghosts,
    ...order.filter((id) => rebuilt.has(id)),
  ];
}

/** All edges into each drawn node, in the order in which the nodes are drawn. */
function edgesOf(
  shown: Shown,
  drawn: readonly number[],
  index: ReadonlyMap<number, number>,
  uses: ReadonlyMap<number, readonly number[]>,
): SceneEdge[] {
  const { before, after } = shown.step;
  // Only users that were rebuilt: an older one may be a source of the node before.
  const beside = new Set(
    before !== null && after !== null && before !== after && index.has(before)
      ? (uses.get(after) ?? []).filter((id) => shown.rebuilt.has(id))
      : [],
  );
  const edges: SceneEdge[] = [];
  for (const id of drawn) {
    shown.nodes.get(id)!.src.forEach((src, slot) => {
      if (index.has(src)) edges.push({ from: src, to: id, slot, invisible: false });
    });
    if (beside.has(id)) edges.push({ from: before!, to: id, slot: -1, invisible: true });
  }
  return edges;
}

function* inputOf(
  boxes: readonly SceneNode[],
  edges: readonly SceneEdge[],
  index: ReadonlyMap<number, number>,
  old: (id: number) => OldPlace | undefined,
): Steps<LayoutInput> {
  const srcStart = new Int32Array(boxes.length + 1);
  for (const edge of edges) srcStart[index.get(edge.to)! + 1]! += 1;
  for (let i = 0; i < boxes.length; i += 1) srcStart[i + 1]! += srcStart[i]!;
  const src = Int32Array.from(edges, (edge) => index.get(edge.from)!);
  yield;
  const oldX = new Float32Array(boxes.length).fill(Number.NaN);
  const oldRank = new Int32Array(boxes.length).fill(-1);
  for (let i = 0; i < boxes.length; i += 1) {
    if (i % ROWS_A_STEP === 0) yield;
    const was = old(boxes[i]!.id);
    if (!was) continue;
    oldX[i] = was.x;
    oldRank[i] = was.rank;
  }
  return {
    count: boxes.length,
    widths: Float32Array.from(boxes, (node) => node.width),
    heights: Float32Array.from(boxes, (node) => node.height),
    srcStart,
    src,
    oldX,
    oldRank,
  };
}
