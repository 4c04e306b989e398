/** Which part of the picture is seen: a shift and a scale, and the ways in which they change. */

export interface Camera {
  /** Where the picture's origin stands on the canvas, in CSS pixels. */
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export const MIN_SCALE = 0.02;
export const MAX_SCALE = 3;
/** Below this scale the letters of nodes cannot be read. */
export const READABLE = 0.62;
const MARGIN = 24;
/** What had to be brought into sight stands this far from the border. */
const AIR = 72;

const clampScale = (scale: number): number => Math.min(MAX_SCALE, Math.max(MIN_SCALE, scale));

/** Scales about a point of the canvas, which stays where it is. */
export function zoomAt(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = clampScale(camera.scale * factor);
  const ratio = scale / camera.scale;
  return { scale, x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio };
}

/** The same at another scale, about the middle of the canvas. */
export function rescaled(camera: Camera, scale: number, size: Size): Camera {
  return zoomAt(camera, scale / camera.scale, size.width / 2, size.height / 2);
}

/** The largest scale at which a box fits on a canvas. */
export function fitScale(box: Box, size: Size): number {
  const width = Math.max(1, box.right - box.left);
  const height = Math.max(1, box.bottom - box.top);
  return clampScale(
    Math.min((size.width - 2 * MARGIN) / width, (size.height - 2 * MARGIN) / height),
  );
}

/** The whole picture, as large as it fits, but never larger than life. */
export function fitTo(box: Box, size: Size): Camera {
  const scale = Math.min(1, fitScale(box, size));
  return {
    scale,
    x: (size.width - scale * (box.left + box.right)) / 2,
    y: (size.height - scale * (box.top + box.bottom)) / 2,
  };
}

/** A box of the picture in the middle of the canvas. */
export function centreOn(camera: Camera, box: Box, size: Size): Camera {
  return {
    scale: camera.scale,
    x: size.width / 2 - ((box.left + box.right) / 2) * camera.scale,
    y: size.height / 2 - ((box.top + box.bottom) / 2) * camera.scale,
  };
}

/** Shifts the camera so that no side of the canvas is emptier than it must be. */
export function keepInside(camera: Camera, box: Box, size: Size): Camera {
  const axis = (shift: number, low: number, high: number, room: number): number => {
    const from = low * camera.scale + shift;
    const to = high * camera.scale + shift;
    if (to - from <= room - 2 * MARGIN) return shift + (room - from - to) / 2;
    if (from > MARGIN) return shift - (from - MARGIN);
    if (to < room - MARGIN) return shift + (room - MARGIN - to);
    return shift;
  };
  return {
    scale: camera.scale,
    x: axis(camera.x, box.left, box.right, size.width),
    y: axis(camera.y, box.top, box.bottom, size.height),
  };
}

/** Moves as little as shows a box; a box that is seen already moves nothing. */
export function reveal(camera: Camera, box: Box, size: Size): Camera {
  const axis = (shift: number, low: number, high: number, room: number): number => {
    const from = low * camera.scale + shift;
    const to = high * camera.scale + shift;
    if (from >= MARGIN && to <= room - MARGIN) return shift;
    const air = Math.max(0, Math.min(AIR, (room - (to - from)) / 2));
    return from < MARGIN ? shift + air - from : shift + room - air - to;
  };
  return {
    scale: camera.scale,
    x: axis(camera.x, box.left, box.right, size.width),
    y: axis(camera.y, box.top, box.bottom, size.height),
  };
}

/** The part of the picture that a canvas shows. */
export function seen(camera: Camera, size: Size): Box {
  return {
    left: -camera.x / camera.scale,
    top: -camera.y / camera.scale,
    right: (size.width - camera.x) / camera.scale,
    bottom: (size.height - camera.y) / camera.scale,
  };
}

/** Whether two boxes have a part in common. */
export function meets(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}
