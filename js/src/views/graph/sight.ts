/** What of the picture is in sight, and what is brought there: the change of a step, a chosen node. */
import {
  type Box,
  type Camera,
  centreOn,
  fitScale,
  fitTo,
  keepInside,
  meets,
  READABLE,
  rescaled,
  reveal,
  type Size,
  seen,
} from "./camera.ts";
import type { Picture } from "./picture.ts";

/** What is to be seen, from all that one would like to see to what must be in sight. */
export interface Wish {
  readonly box: Box;
  /** The scale below which the box is given up for the next one. */
  readonly least: number;
}

/** The scale at which a part of a large picture is shown first. */
const CLOSE = 0.85;

/** Moves and shrinks as little as shows the first of some boxes that fits; the last one always. */
export function toward(camera: Camera, wishes: readonly Wish[], size: Size): Camera {
  for (const [i, { box, least }] of wishes.entries()) {
    const scale = Math.min(camera.scale, fitScale(box, size));
    if (scale < least && i < wishes.length - 1) continue;
    return reveal(rescaled(camera, scale, size), box, size);
  }
  return camera;
}

/** What a step changed: all of it, the nodes before and after, the node after; null at a start. */
function changeWishes(picture: Picture, scale: number): Wish[] {
  const { whole, ends, end } = picture.change();
  const wishes: Wish[] = [];
  if (whole) wishes.push({ box: whole, least: scale });
  if (ends) wishes.push({ box: ends, least: Math.min(scale, READABLE) });
  if (end) wishes.push({ box: end, least: 0 });
  return wishes;
}

type Aim = "change" | "centre" | readonly number[];

/** The camera of one view, and what it was asked to show when there is a canvas again. */
export class Sight {
  #camera: Camera | null = null;
  #size: Size = { width: 0, height: 0 };
  #aim: Aim | null = null;
  /** Whether the user chose what is seen. Until then a new size means another first look. */
  #moved = false;

  get camera(): Camera {
    return this.#camera ?? { x: 0, y: 0, scale: 1 };
  }

  get size(): Size {
    return this.#size;
  }

  /** The user moves or zooms. */
  move(camera: Camera): void {
    this.#camera = camera;
    this.#moved = true;
    this.#aim = null;
  }

  /** Another picture: one that continues the last is seen from the same place, if that will do. */
  take(continues: boolean): void {
    if (!continues) this.#camera = null;
    this.#aim = "change";
  }

  /** Looks at the next picture afresh. */
  forget(): void {
    this.#camera = null;
    this.#moved = false;
  }

  /** Brings the nearest of some nodes into sight, unless one of them is. */
  seek(nodes: readonly number[]): void {
    this.#aim = nodes;
  }

  /** Brings the change into the middle, and no smaller than it can be read. */
  centre(): void {
    this.#aim = "centre";
    this.#moved = true;
  }

  resize(size: Size): void {
    const old = this.#size;
    this.#size = size;
    if (size.width === 0 || old.width === 0 || !this.#camera) return;
    if (!this.#moved) {
      this.#camera = null;
      return;
    }
    // What was in the middle stays there.
    const { x, y, scale } = this.#camera;
    const [right, down] = [(size.width - old.width) / 2, (size.height - old.height) / 2];
    this.#camera = { scale, x: x + right, y: y + down };
  }

  /** The camera for a picture; only where there is a canvas. */
  look(picture: Picture): Camera {
    const aim = this.#aim;
    this.#aim = null;
    let camera = this.#camera ?? this.#first(picture);
    if (aim === "centre") camera = this.#centred(picture, camera);
    else if (aim === "change") camera = this.#changeSeen(picture, camera);
    else if (aim) camera = this.#oneSeen(picture, aim, camera);
    this.#camera = camera;
    return camera;
  }

  /** All of the picture if it can be read like that, else a part of it around the change. */
  #first(picture: Picture): Camera {
    const whole = fitTo(picture.box, this.#size);
    if (whole.scale >= READABLE) return whole;
    const start = { x: 0, y: 0, scale: CLOSE };
    const near = this.#centred(picture, start);
    // Near a border of the picture the canvas is filled rather than left half empty.
    return this.#changeSeen(picture, keepInside(near, picture.box, this.#size));
  }

  #centred(picture: Picture, from: Camera): Camera {
    const start = { ...from, scale: Math.max(CLOSE, from.scale) };
    const wishes = changeWishes(picture, start.scale);
    const box = wishes.length > 0 ? null : picture.boxOf(picture.root);
    if (box) wishes.push({ box, least: 0 });
    const scaled = toward(start, wishes, this.#size);
    const chosen = wishes.find((w) => fitScale(w.box, this.#size) >= w.least) ?? wishes.at(-1);
    return chosen ? centreOn(scaled, chosen.box, this.#size) : scaled;
  }

  #changeSeen(picture: Picture, camera: Camera): Camera {
    const wishes = changeWishes(picture, camera.scale);
    if (wishes.length > 0) return toward(camera, wishes, this.#size);
    const some = picture.inside(seen(camera, this.#size)).length > 0;
    return some ? camera : fitTo(picture.box, this.#size);
  }

  #oneSeen(picture: Picture, nodes: readonly number[], camera: Camera): Camera {
    const boxes = nodes.map((id) => picture.boxOf(id)).filter((box) => box !== null);
    const window = seen(camera, this.#size);
    const x = (window.left + window.right) / 2;
    const y = (window.top + window.bottom) / 2;
    const away = (box: Box): number =>
      Math.hypot((box.left + box.right) / 2 - x, (box.top + box.bottom) / 2 - y);
    // Of several any will do; of one all of it is wanted.
    if (boxes.length > 1 && boxes.some((box) => meets(box, window))) return camera;
    const nearest = boxes.reduce<Box | null>(
      (best, box) => (best === null || away(box) < away(best) ? box : best),
      null,
    );
    return nearest ? toward(camera, [{ box: nearest, least: 0 }], this.#size) : camera;
  }
}
