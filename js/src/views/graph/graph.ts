/** The graph of the step that is shown: laid out in a worker, painted on a canvas. */
import { inSlices, type Steps } from "../../base/slices.ts";
import { plural } from "../../base/text.ts";
import { LayoutCancelled, requestLayout } from "../../layout/client.ts";
import { type Scene, sceneSteps } from "../../layout/scene.ts";
import { type Shown, sameAt } from "../../protocol/cache.ts";
import type { Session } from "../../protocol/session.ts";
import { h, onResize, perFrame, setText } from "../dom.ts";
import { type Palette, readPalette } from "../theme.ts";
import { type Camera, fitTo, type Size, seen } from "./camera.ts";
import { paint } from "./paint.ts";
import { Picture } from "./picture.ts";
import { oldPlaces, startPlaces } from "./places.ts";
import { watchPointer } from "./pointer.ts";
import { Sight } from "./sight.ts";

const MOVE_MS = 160;
const MOVE_UP_TO = 700;
const FOLD_ABOVE = 2500;
const FOLD_KEEP = 600;
const CHAR_WIDTH = 6.65;

export type Direction = "up" | "down" | "left" | "right";

/** One view's graph. It draws what the session shows, and follows it. */
export class GraphView {
  readonly el: HTMLElement;
  readonly #canvas = h("canvas", { class: "tl-canvas", role: "img" });
  readonly #note = h("div", { class: "tl-graph-note", hidden: true });
  readonly #legend = h("div", { class: "tl-graph-legend" });
  readonly #redraw: () => void;
  #picture: Picture | null = null;
  #drawn: Shown | null = null;
  readonly #sight = new Sight();
  #palette: Palette | null = null;
  #hovered: number | null = null;
  #order: AbortController | null = null;
  #from: Map<number, { x: number; y: number }> | null = null;
  #movedSince = 0;
  /** Nodes of which one is to be brought into sight, when the step is drawn. */
  #wanted: readonly number[] = [];
  /** The lines of which something was brought into sight. */
  #lines: readonly number[] = [];
  #inline = true;
  #ghosts = true;
  #fold = true;
  #opened: number[] = [];

  constructor(
    private readonly session: Session,
    private readonly root: HTMLElement,
    private readonly signal: AbortSignal,
  ) {
    this.el = h("div", { class: "tl-graph" }, this.#canvas, this.#legend, this.#note);
    this.#redraw = perFrame(() => this.#paint(), signal);
    onResize(this.el, (width, height) => this.#resize(width, height), signal);
    watchPointer(this.#canvas, this, signal);
    session.state.watch(["shown"], () => void this.#follow(false), signal);
    session.state.watch(["node", "marks"], this.#redraw, signal);
    session.state.watch(["at"], () => this.#want([]), signal);
    session.state.watch(["sought"], () => this.#wantNode(), signal);
    session.state.watch(["marks"], () => this.#wantLines(), signal);
    signal.addEventListener("abort", () => this.#order?.abort(), { once: true });
  }

  // What the keys and the pointer ask for.

  get camera(): Camera {
    return this.#sight.camera;
  }

  setCamera(camera: Camera): void {
    this.#sight.move(camera);
    this.#redraw();
  }

  get size(): Size {
    return this.#sight.size;
  }

  get options(): { inline: boolean; ghosts: boolean; fold: boolean } {
    return { inline: this.#inline, ghosts: this.#ghosts, fold: this.#fold };
  }

  hover(x: number, y: number): void {
    const id = this.#at(x, y);
    this.#canvas.style.cursor = id === null ? "grab" : "pointer";
    if (id === this.#hovered) return;
    this.#hovered = id;
    const node = this.#picture?.node(id);
    this.#canvas.title = node ? `${node.title} ${node.detail}\n${node.type}`.trim() : "";
    this.#redraw();
  }

  click(x: number, y: number): void {
    this.session.choose(this.#at(x, y), false);
  }

  /** Opens the surroundings of a node in a folded graph. */
  open(x: number, y: number): void {
    const id = this.#at(x, y);
    if (id === null || !this.#picture?.scene.folded) return;
    this.#opened = [...this.#opened, id].slice(-8);
    this.#wanted = [id];
    void this.#follow(false);
  }

  fitAll(): void {
    if (this.#picture) this.setCamera(fitTo(this.#picture.box, this.size));
  }

  centreOnChange(): void {
    this.#sight.centre();
    this.#redraw();
  }

  toggle(option: "inline" | "ghosts" | "fold"): void {
    if (option === "inline") this.#inline = !this.#inline;
    else if (option === "ghosts") this.#ghosts = !this.#ghosts;
    else this.#fold = !this.#fold;
    void this.#follow(option === "fold");
  }

  /** Lays the graph out afresh. */
  relayout(): void {
    this.#sight.forget();
    void this.#follow(true);
  }

  /** Takes back the layout that is being made; true if there was one. */
  cancel(): boolean {
    if (!this.#order) return false;
    this.#order.abort();
    this.#order = null;
    this.#say("The layout was cancelled. Press r to lay the graph out.", false);
    return true;
  }

  themeChanged(): void {
    this.#palette = null;
    this.#paintLegend();
    this.#redraw();
  }

  /** Chooses the neighbour of the chosen node: a source above, a user below, or beside it. */
  move(direction: Direction): void {
    const picture = this.#picture;
    const { node, shown } = this.session.state.now;
    if (!picture || !shown) return;
    const here = node !== null && picture.scene.index.has(node) ? node : null;
    const next =
      here === null
        ? (shown.step.failed?.node ?? shown.step.after ?? shown.step.root)
        : neighbour(picture, here, direction);
    if (next !== null) this.session.choose(next);
  }

  // How a step becomes a picture.

  async #follow(afresh: boolean): Promise<void> {
    const shown = this.session.state.now.shown;
    if (!shown) {
      this.#redraw();
      return;
    }
    this.#order?.abort();
    const order = new AbortController();
    this.#order = order;
    if (shown.step.pass !== this.#drawn?.step.pass) this.#opened = [];
    const slow = setTimeout(() => {
      if (!order.signal.aborted) {
        this.#say(`Laying out ${plural(shown.order.length, "node")} …`, true);
      }
    }, 150);
    try {
      const built = await inSlices(this.#scene(shown, afresh), order.signal);
      if (!built) return;
      const layout = await requestLayout(built.value.input, order.signal);
      const drawn = await inSlices(Picture.steps(built.value, layout), order.signal);
      if (!drawn || this.#order !== order || this.signal.aborted) return;
      this.#order = null;
      this.#canvas.dataset.slices = String(built.slices);
      this.#take(shown, drawn.value, afresh);
    } catch (error) {
      if (!(error instanceof LayoutCancelled)) this.session.report(error);
    } finally {
      clearTimeout(slow);
    }
  }

  *#scene(shown: Shown, afresh: boolean): Steps<Scene> {
    const old = afresh ? () => undefined : oldPlaces(this.#picture, this.#drawn, shown);
    yield;
    return yield* sceneSteps(
      shown,
      {
        inline: this.#inline,
        ghosts: this.#ghosts,
        foldAbove: this.#fold ? FOLD_ABOVE : Number.POSITIVE_INFINITY,
        keep: FOLD_KEEP,
        opened: this.#opened,
        charWidth: CHAR_WIDTH,
      },
      old,
    );
  }

  #take(shown: Shown, picture: Picture, afresh: boolean): void {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const moves = !calm && picture.scene.nodes.length <= MOVE_UP_TO && this.#picture !== null;
    this.#from = moves ? startPlaces(this.#picture, this.#drawn, shown, picture) : null;
    this.#movedSince = performance.now();
    this.#sight.take(!afresh && this.#isNear(shown));
    this.#picture = picture;
    this.#drawn = shown;
    this.#seek();
    this.#say(
      picture.scene.folded
        ? `${plural(picture.scene.nodes.length, "node")} of ${plural(picture.scene.total, "node")}, around the change · f shows all`
        : "",
      false,
    );
    this.#paintLegend();
    const { nodes } = picture.scene;
    this.#canvas.setAttribute("aria-label", `graph of ${plural(nodes.length, "node")}`);
    this.#canvas.dataset.nodes = String(nodes.length);
    this.#canvas.dataset.failed = String(picture.node(picture.scene.failed)?.title ?? "");
    this.#redraw();
  }

  /** Whether a step continues the one that is drawn: its own pass, or a pass that takes its graph. */
  #isNear(shown: Shown): boolean {
    const drawn = this.#drawn;
    return drawn?.step.pass === shown.step.pass || drawn?.step.root === shown.step.root;
  }

  #wantNode(): void {
    const { sought } = this.session.state.now;
    if (sought) this.#want([sought.node]);
  }

  /** When lines of the cell were chosen: something that descends from them. */
  #wantLines(): void {
    const { marks, lines, shown } = this.session.state.now;
    if (!marks || !shown || lines === this.#lines) return;
    this.#lines = lines;
    this.#want(marks.nodes[String(shown.step.pass)] ?? []);
  }

  #want(nodes: readonly number[]): void {
    this.#wanted = nodes;
    this.#seek();
  }

  /** Brings what is wanted into sight, once its step is drawn. */
  #seek(): void {
    const [wanted, picture, shown] = [this.#wanted, this.#picture, this.#drawn];
    if (wanted.length === 0 || !picture || !shown) return;
    if (!sameAt(this.session.state.now.at, shown.step)) return;
    const drawn = wanted.filter((id) => picture.scene.index.has(id));
    if (drawn.length === 0 && this.#unfold(wanted.at(-1)!, shown)) return;
    this.#wanted = [];
    this.#sight.seek(drawn);
    this.#redraw();
  }

  /** Draws a node that is folded away, written into its users, or hidden as gone. */
  #unfold(id: number, shown: Shown): boolean {
    const isGone = shown.gone.includes(id);
    if (this.#opened.includes(id) || !(isGone || shown.order.includes(id))) return false;
    this.#ghosts ||= isGone;
    this.#opened = [...this.#opened, id].slice(-8);
    void this.#follow(false);
    return true;
  }

  #resize(width: number, height: number): void {
    this.#sight.resize({ width, height });
    if (width > 0 && height > 0) this.#redraw();
  }

  #paint(): void {
    const { width, height } = this.size;
    if (width < 2 || height < 2) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const pixelWidth = Math.round(width * ratio);
    const pixelHeight = Math.round(height * ratio);
    if (this.#canvas.width !== pixelWidth || this.#canvas.height !== pixelHeight) {
      this.#canvas.width = pixelWidth;
      this.#canvas.height = pixelHeight;
    }
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    this.#palette ??= readPalette(this.root);
    const { shown, node, marks } = this.session.state.now;
    if (!this.#picture) {
      context.clearRect(0, 0, pixelWidth, pixelHeight);
      return;
    }
    const camera = this.#sight.look(this.#picture);
    const progress = this.#from ? (performance.now() - this.#movedSince) / MOVE_MS : 1;
    const marked = new Set(marks && shown ? (marks.nodes[String(shown.step.pass)] ?? []) : []);
    this.#canvas.dataset.marked = String(marked.size);
    paint(context, this.#picture, {
      camera,
      size: this.size,
      ratio,
      palette: this.#palette,
      selected: node,
      hovered: this.#hovered,
      marked,
      from: this.#from,
      progress: Math.min(1, progress),
    });
    this.#canvas.dataset.painted = `${this.#drawn?.step.pass}:${this.#drawn?.step.k}`;
    this.#canvas.dataset.scale = camera.scale.toFixed(3);
    this.#canvas.dataset.sight = this.#inSight(camera, marked).join(" ");
    if (progress < 1) this.#redraw();
    else this.#from = null;
  }

  /** What of the step, and of what is chosen, is in sight: for tests, and for whom sees nothing. */
  #inSight(camera: Camera, marked: ReadonlySet<number>): string[] {
    const picture = this.#picture!;
    const { before, after, failed, nodes } = picture.scene;
    const chosen = this.session.state.now.node;
    const inside = picture.inside(seen(camera, this.size)).map((i) => nodes[i]!.id);
    const named = Object.entries({ before, after, failed, node: chosen })
      .filter(([, id]) => id !== null && inside.includes(id))
      .map(([name]) => name);
    return inside.some((id) => marked.has(id)) ? [...named, "line"] : named;
  }

  #at(x: number, y: number): number | null {
    const { scale, x: shiftX, y: shiftY } = this.camera;
    return this.#picture?.at((x - shiftX) / scale, (y - shiftY) / scale) ?? null;
  }

  #say(text: string, cancellable: boolean): void {
    this.#note.replaceChildren(text);
    if (cancellable) {
      this.#note.append(
        h(
          "button",
          { type: "button", class: "tl-link", on: { click: () => this.cancel() } },
          "Cancel",
        ),
      );
    }
    this.#note.hidden = text === "";
  }

  #paintLegend(): void {
    const kinds = new Set(this.#picture?.scene.nodes.map((node) => node.kind) ?? []);
    const rows = [...kinds]
      .sort()
      .map((kind) =>
        h(
          "span",
          { class: "tl-legend-item" },
          h("i", { class: `tl-swatch tl-kind-${kind}` }),
          kind,
        ),
      );
    this.#legend.replaceChildren(...rows);
    setText(this.#note, this.#note.textContent ?? "");
  }
}

function neighbour(picture: Picture, id: number, direction: Direction): number | null {
  if (direction === "left") return picture.beside(id, -1);
  if (direction === "right") return picture.beside(id, 1);
  const edges = picture.scene.edges.filter((edge) => !edge.invisible);
  if (direction === "up") return edges.find((edge) => edge.to === id)?.from ?? null;
  return edges.find((edge) => edge.from === id)?.to ?? null;
}
