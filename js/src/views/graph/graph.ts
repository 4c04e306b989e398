/** The graph of the step that is shown: laid out in a worker, painted on a canvas. */
import { plural } from "../../base/text.ts";
import { SCENE_OPTIONS, type SceneOptions } from "../../layout/scene.ts";
import { keyOf, type Shown, sameAt } from "../../protocol/cache.ts";
import type { Session } from "../../protocol/session.ts";
import { h, onResize, perFrame, setText } from "../dom.ts";
import { type Palette, readPalette } from "../theme.ts";
import { type Camera, fitTo, type Size, seen } from "./camera.ts";
import { Drafts, type Drawn } from "./drafts.ts";
import { paint } from "./paint.ts";
import type { Picture } from "./picture.ts";
import { startPlaces } from "./places.ts";
import { watchPointer } from "./pointer.ts";
import { Sight } from "./sight.ts";

const MOVE_MS = 160;
const MOVE_UP_TO = 700;
/** Pictures of larger graphs are made when they are wanted, not on suspicion. */
const AHEAD_UP_TO = 5000;

export type Direction = "up" | "down" | "left" | "right";

/** One view's graph. It draws what the session shows, and follows it. */
export class GraphView {
  readonly el: HTMLElement;
  readonly #canvas = h("canvas", { class: "tl-canvas", role: "img" });
  readonly #note = h("div", { class: "tl-graph-note", hidden: true });
  readonly #legend = h("div", { class: "tl-graph-legend" });
  readonly #redraw: () => void;
  #drawn: Drawn | null = null;
  #painted = false;
  readonly #sight = new Sight();
  #palette: Palette | null = null;
  #hovered: number | null = null;
  readonly #drafts = new Drafts();
  /** The step whose picture is awaited. */
  #awaited: Shown | null = null;
  #from: Map<number, { x: number; y: number }> | null = null;
  #movedSince = 0;
  /** Nodes of which one is to be brought into sight, when the step is drawn. */
  #wanted: readonly number[] = [];
  /** The lines of which something was brought into sight. */
  #lines: readonly number[] = [];
  #options = SCENE_OPTIONS;

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
    session.state.watch(["ahead"], () => this.#lookAhead(), signal);
    signal.addEventListener("abort", () => this.#drafts.stop(), { once: true });
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
    const { inline, ghosts, foldAbove } = this.#options;
    return { inline, ghosts, fold: foldAbove === SCENE_OPTIONS.foldAbove };
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
    this.#open(id);
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
    const { inline, ghosts, fold } = this.options;
    if (option === "inline") this.#set({ inline: !inline });
    else if (option === "ghosts") this.#set({ ghosts: !ghosts });
    else this.#set({ foldAbove: fold ? Number.POSITIVE_INFINITY : SCENE_OPTIONS.foldAbove });
    void this.#follow(option === "fold");
  }

  /** Lays the graph out afresh. */
  relayout(): void {
    this.#sight.forget();
    void this.#follow(true);
  }

  /** Takes back the layout that is being made; true if there was one. */
  cancel(): boolean {
    if (!this.#awaited) return false;
    this.#drafts.stop();
    this.#awaited = null;
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

  get #picture(): Picture | null {
    return this.#drawn?.picture ?? null;
  }

  // How a step becomes a picture.

  async #follow(afresh: boolean): Promise<void> {
    const shown = this.session.state.now.shown;
    if (!shown) {
      this.#redraw();
      return;
    }
    this.#awaited = shown;
    this.#options = this.#optionsFor(shown);
    const slow = setTimeout(() => {
      if (this.#awaited === shown) {
        this.#say(`Laying out ${plural(shown.order.length, "node")} …`, true);
      }
    }, 150);
    try {
      const from = afresh ? null : this.#placesFor(shown);
      const made = await this.#drafts.wanted({ shown, from, options: this.#options });
      if (!made || this.#awaited !== shown || this.signal.aborted) return;
      this.#awaited = null;
      this.#canvas.dataset.slices = String(made.slices);
      this.#take(made, afresh);
    } catch (error) {
      this.session.report(error);
    } finally {
      clearTimeout(slow);
    }
  }

  /** Makes the pictures that the next keys may ask for, while nobody waits for one. */
  #lookAhead(): void {
    const from = this.#drawn;
    const { ahead, shown } = this.session.state.now;
    if (!from || !this.#painted || this.#awaited || from.shown !== shown) return;
    if (shown.order.length > AHEAD_UP_TO) return;
    const steps = ahead.map((at) => this.session.cache.get(at)).filter((step) => step !== null);
    const subjects = steps.map((next) => ({
      shown: next,
      from: this.#placesFor(next),
      options: this.#optionsFor(next),
    }));
    void this.#drafts.ahead(subjects);
  }

  /** The picture whose places a step's nodes keep: another graph is laid out for itself. */
  #placesFor(shown: Shown): Drawn | null {
    return this.#isNear(shown) ? this.#drawn : null;
  }

  /** What was opened in a folded graph stays open within its pass. */
  #optionsFor(shown: Shown): SceneOptions {
    const stays = shown.step.pass === this.#drawn?.shown.step.pass;
    return stays || this.#options.opened.length === 0
      ? this.#options
      : { ...this.#options, opened: [] };
  }

  #set(options: Partial<SceneOptions>): void {
    this.#options = { ...this.#options, ...options };
  }

  #open(id: number): void {
    this.#set({ opened: [...this.#options.opened, id].slice(-8) });
  }

  #take({ shown, picture }: Drawn, afresh: boolean): void {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const moves = !calm && picture.scene.nodes.length <= MOVE_UP_TO && this.#drawn !== null;
    this.#from = moves ? startPlaces(this.#drawn, shown, picture) : null;
    this.#movedSince = performance.now();
    this.#sight.take(!afresh && this.#isNear(shown));
    this.#drawn = { shown, picture };
    this.#painted = false;
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
    const drawn = this.#drawn?.shown;
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
    const wanted = this.#wanted;
    if (wanted.length === 0 || !this.#drawn) return;
    const { picture, shown } = this.#drawn;
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
    const { opened, ghosts } = this.#options;
    if (opened.includes(id) || !(isGone || shown.order.includes(id))) return false;
    this.#set({ ghosts: ghosts || isGone });
    this.#open(id);
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
    const context = this.#contextFor(Math.round(width * ratio), Math.round(height * ratio));
    if (!context || !this.#drawn) return;
    this.#palette ??= readPalette(this.root);
    const { shown, node, marks } = this.session.state.now;
    const { picture, shown: drawn } = this.#drawn;
    const camera = this.#sight.look(picture);
    const progress = this.#from ? (performance.now() - this.#movedSince) / MOVE_MS : 1;
    const marked = new Set(marks && shown ? (marks.nodes[String(shown.step.pass)] ?? []) : []);
    this.#canvas.dataset.marked = String(marked.size);
    paint(context, picture, {
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
    this.#canvas.dataset.painted = keyOf(drawn.step);
    this.#canvas.dataset.scale = camera.scale.toFixed(3);
    this.#canvas.dataset.sight = this.#inSight(camera, marked).join(" ");
    if (progress < 1) this.#redraw();
    else this.#from = null;
    if (this.#painted) return;
    this.#painted = true;
    setTimeout(() => this.#lookAhead());
  }

  /** The canvas at its size in pixels, which empties it when it is another. */
  #contextFor(width: number, height: number): CanvasRenderingContext2D | null {
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    return this.#canvas.getContext("2d");
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
