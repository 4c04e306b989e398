/** Painting a picture on a canvas. */
import type { SceneNode } from "../../layout/scene.ts";
import type { Palette } from "../theme.ts";
import { type Box, type Camera, READABLE, type Size, seen } from "./camera.ts";
import type { Picture } from "./picture.ts";

export interface PaintState {
  readonly camera: Camera;
  readonly size: Size;
  readonly ratio: number;
  readonly palette: Palette;
  readonly selected: number | null;
  readonly hovered: number | null;
  /** Nodes that descend from the chosen lines of the cell. */
  readonly marked: ReadonlySet<number>;
  /** Where nodes come from while they move to their places, and how far they are: 0 to 1. */
  readonly from: ReadonlyMap<number, { x: number; y: number }> | null;
  readonly progress: number;
}

const RADIUS = 4;
/** Below this scale boxes carry no text. */
const TEXT_SCALE = 0.3;

export function paint(
  context: CanvasRenderingContext2D,
  picture: Picture,
  state: PaintState,
): void {
  const { camera, size, ratio, palette } = state;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette.background;
  context.fillRect(0, 0, size.width, size.height);
  context.setTransform(
    ratio * camera.scale,
    0,
    0,
    ratio * camera.scale,
    ratio * camera.x,
    ratio * camera.y,
  );
  const painter = new Painter(context, picture, state);
  painter.edges();
  painter.becomes();
  painter.nodes();
}

class Painter {
  private readonly window;
  private readonly lineWidth: number;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly picture: Picture,
    private readonly state: PaintState,
  ) {
    this.window = seen(state.camera, state.size);
    this.lineWidth = Math.max(1, 0.8 / state.camera.scale);
  }

  /** How far a node still is from its place. */
  private shift(i: number): { x: number; y: number } {
    const { from, progress } = this.state;
    const old = from?.get(this.picture.scene.nodes[i]!.id);
    if (!old || progress >= 1) return { x: 0, y: 0 };
    const left = (1 - progress) ** 3;
    const { x, y } = this.picture.layout;
    return { x: (old.x - x[i]!) * left, y: (old.y - y[i]!) * left };
  }

  edges(): void {
    const { scene } = this.picture;
    const { palette, selected, hovered } = this.state;
    const strong: number[] = [];
    this.context.lineWidth = this.lineWidth;
    for (let pass = 0; pass < 2; pass += 1) {
      const gone = pass === 1;
      this.context.strokeStyle = gone ? palette.gone : palette.edge;
      this.context.setLineDash(gone ? [4, 3] : []);
      this.context.beginPath();
      scene.edges.forEach((edge, e) => {
        if (edge.invisible) return;
        const to = scene.nodes[scene.index.get(edge.to)!]!;
        if ((to.mark === "gone") !== gone) return;
        const near = [selected, hovered].some(
          (id) => id !== null && (id === edge.from || id === edge.to),
        );
        if (near) strong.push(e);
        else this.trace(e);
      });
      this.context.stroke();
    }
    this.context.setLineDash([]);
    this.context.lineWidth = 2 * this.lineWidth;
    this.context.strokeStyle = palette.accent;
    this.context.beginPath();
    for (const e of strong) this.trace(e);
    this.context.stroke();
    if (this.state.camera.scale > TEXT_SCALE) this.arrowHeads(new Set(strong));
  }

  /** One edge as smooth curves from point to point, if it meets the window. */
  private trace(e: number): void {
    const { layout, scene } = this.picture;
    const first = layout.pointStart[e]!;
    const end = layout.pointStart[e + 1]!;
    if (!this.meets(first, end)) return;
    const { points } = layout;
    const edge = scene.edges[e]!;
    const start = this.shift(scene.index.get(edge.from)!);
    const stop = this.shift(scene.index.get(edge.to)!);
    const count = end - first;
    // Bends move between the ends, in proportion.
    const shiftAt = (p: number, key: "x" | "y"): number =>
      start[key] + ((stop[key] - start[key]) * (p - first)) / Math.max(1, count - 1);
    let x = points[2 * first]! + shiftAt(first, "x");
    let y = points[2 * first + 1]! + shiftAt(first, "y");
    this.context.moveTo(x, y);
    for (let p = first + 1; p < end; p += 1) {
      const nextX = points[2 * p]! + shiftAt(p, "x");
      const nextY = points[2 * p + 1]! + shiftAt(p, "y");
      if (Math.abs(nextX - x) < 0.5) this.context.lineTo(nextX, nextY);
      else {
        const reach = Math.max(8, Math.min(48, Math.abs(nextY - y) / 2));
        this.context.bezierCurveTo(x, y + reach, nextX, nextY - reach, nextX, nextY);
      }
      x = nextX;
      y = nextY;
    }
  }

  private meets(first: number, end: number): boolean {
    const { points } = this.picture.layout;
    const { left, right, top, bottom } = this.window;
    let [lowX, highX] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    let [lowY, highY] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let p = first; p < end; p += 1) {
      lowX = Math.min(lowX, points[2 * p]!);
      highX = Math.max(highX, points[2 * p]!);
      lowY = Math.min(lowY, points[2 * p + 1]!);
      highY = Math.max(highY, points[2 * p + 1]!);
    }
    return highX >= left && lowX <= right && highY >= top && lowY <= bottom;
  }

  private arrowHeads(strong: ReadonlySet<number>): void {
    const { scene, layout } = this.picture;
    const { palette } = this.state;
    const { left, right, top, bottom } = this.window;
    scene.edges.forEach((edge, e) => {
      if (edge.invisible) return;
      const p = layout.pointStart[e + 1]! - 1;
      const shift = this.shift(scene.index.get(edge.to)!);
      const x = layout.points[2 * p]! + shift.x;
      const y = layout.points[2 * p + 1]! + shift.y;
      if (x < left || x > right || y < top || y > bottom) return;
      const gone = scene.nodes[scene.index.get(edge.to)!]!.mark === "gone";
      this.context.fillStyle = strong.has(e) ? palette.accent : gone ? palette.gone : palette.edge;
      this.context.beginPath();
      this.context.moveTo(x, y);
      this.context.lineTo(x - 3.2, y - 6);
      this.context.lineTo(x + 3.2, y - 6);
      this.context.fill();
    });
  }

  /** A dashed arrow from the node before to the node after. */
  becomes(): void {
    const { scene } = this.picture;
    const from = this.picture.boxOf(scene.before ?? -1);
    const to = this.picture.boxOf(scene.after ?? -1);
    if (!from || !to || scene.before === scene.after) return;
    const { context } = this;
    const way = wayBetween(from, to);
    context.strokeStyle = this.state.palette.added;
    context.fillStyle = this.state.palette.added;
    context.lineWidth = 1.6 * this.lineWidth;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(way.startX, way.startY);
    context.bezierCurveTo(way.bendX, way.startY, way.turnX, way.endY, way.endX, way.endY);
    context.stroke();
    context.setLineDash([]);
    const tip = way.turnX < way.endX ? -7 : 7;
    context.beginPath();
    context.moveTo(way.endX, way.endY);
    context.lineTo(way.endX + tip, way.endY - 4);
    context.lineTo(way.endX + tip, way.endY + 4);
    context.fill();
  }

  nodes(): void {
    const { scene, layout } = this.picture;
    const margin = 40;
    const window = {
      left: this.window.left - margin,
      right: this.window.right + margin,
      top: this.window.top - margin,
      bottom: this.window.bottom + margin,
    };
    for (const i of this.picture.inside(window)) {
      const shift = this.shift(i);
      this.node(scene.nodes[i]!, layout.x[i]! + shift.x, layout.y[i]! + shift.y);
    }
  }

  private node(node: SceneNode, x: number, y: number): void {
    const { context } = this;
    const { palette, camera, selected, hovered, marked } = this.state;
    const left = x - node.width / 2;
    const top = y - node.height / 2;
    const look = lookOf(node, palette);
    context.fillStyle = look.fill;
    context.strokeStyle = look.line;
    context.lineWidth = (look.strong ? 2 : 1) * this.lineWidth;
    context.setLineDash(node.mark === "gone" ? [4, 3] : []);
    context.beginPath();
    context.roundRect(left, top, node.width, node.height, RADIUS);
    context.fill();
    context.stroke();
    context.setLineDash([]);
    if (marked.has(node.id)) this.outline(node, left, top, palette.line, 3);
    if (node.role === "failed") this.outline(node, left, top, palette.gone, 7);
    if (node.id === selected) this.outline(node, left, top, palette.accent, 4);
    else if (node.id === hovered) this.outline(node, left, top, palette.edgeStrong, 2);
    if (camera.scale < TEXT_SCALE) return;
    context.fillStyle = palette.kinds[node.kind].line;
    context.beginPath();
    context.roundRect(left, top, 4, node.height, [RADIUS, 0, 0, RADIUS]);
    context.fill();
    this.text(node, left + 9, top + 6);
    if (node.role) this.badge(node, left, top);
    this.foldMarks(node, x, top);
  }

  private outline(node: SceneNode, left: number, top: number, colour: string, gap: number): void {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = 2 * this.lineWidth;
    context.beginPath();
    context.roundRect(
      left - gap,
      top - gap,
      node.width + 2 * gap,
      node.height + 2 * gap,
      RADIUS + gap,
    );
    context.stroke();
  }

  private text(node: SceneNode, left: number, top: number): void {
    const { context } = this;
    const { palette } = this.state;
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.font = `600 11px ${palette.font}`;
    context.fillText(node.title, left, top + 7);
    if (node.detail) {
      const width = context.measureText(`${node.title} `).width;
      context.font = `11px ${palette.font}`;
      context.fillText(node.detail, left + width, top + 7);
    }
    if (node.type) {
      context.fillStyle = palette.faint;
      context.font = `10px ${palette.font}`;
      context.fillText(node.type, left, top + 21);
    }
  }

  private badge(node: SceneNode, left: number, top: number): void {
    const { context } = this;
    const { palette, camera } = this.state;
    const grow = camera.scale < READABLE ? READABLE / camera.scale : 1;
    context.font = `600 ${9 * grow}px ${palette.font}`;
    const text = node.role;
    const width = context.measureText(text).width + 8 * grow;
    context.fillStyle = node.role === "after" ? palette.added : palette.gone;
    context.beginPath();
    context.roundRect(left - 1, top - 14 * grow, width, 13 * grow, 3);
    context.fill();
    context.fillStyle = palette.background;
    context.fillText(text, left - 1 + 4 * grow, top - 7 * grow);
  }

  /** Small notes where neighbours are folded away. */
  private foldMarks(node: SceneNode, x: number, top: number): void {
    const { context } = this;
    const { palette } = this.state;
    context.font = `10px ${palette.font}`;
    context.fillStyle = palette.faint;
    context.textAlign = "center";
    if (node.hiddenSources > 0 && !node.role) {
      context.fillText(`⋯ ${node.hiddenSources}`, x, top - 8);
    }
    if (node.hiddenUses > 0) context.fillText(`⋯ ${node.hiddenUses}`, x, top + node.height + 9);
    context.textAlign = "left";
  }
}

function lookOf(
  node: SceneNode,
  palette: Palette,
): { fill: string; line: string; strong: boolean } {
  if (node.role === "failed") return { fill: palette.goneFill, line: palette.gone, strong: true };
  if (node.mark === "gone") return { fill: palette.goneFill, line: palette.gone, strong: true };
  if (node.mark === "added" || node.role === "after") {
    return { fill: palette.addedFill, line: palette.added, strong: true };
  }
  return { ...palette.kinds[node.kind], strong: false };
}

interface Way {
  readonly startX: number;
  readonly startY: number;
  readonly bendX: number;
  readonly turnX: number;
  readonly endX: number;
  readonly endY: number;
}

/** From one box to another: across the gap between them, or around their right if there is none. */
function wayBetween(from: Box, to: Box): Way {
  const startY = (from.top + from.bottom) / 2;
  const endY = (to.top + to.bottom) / 2;
  if (to.left >= from.right || to.right <= from.left) {
    const rightwards = to.left >= from.right;
    const startX = rightwards ? from.right : from.left;
    const endX = rightwards ? to.left : to.right;
    const bow = (endX - startX) / 2;
    return { startX, startY, bendX: startX + bow, turnX: endX - bow, endX, endY };
  }
  const outside = Math.max(from.right, to.right) + 36;
  return { startX: from.right, startY, bendX: outside, turnX: outside, endX: to.right, endY };
}
