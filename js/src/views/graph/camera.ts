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

/** The whole picture, as large as it fits, but never larger than life. */
export function fitTo(box: Box, size: Size): Camera {
  const width = Math.max(1, box.right - box.left);
  const height = Math.max(1, box.bottom - box.top);
  const scale = clampScale(
    Math.min(1, (size.width - 2 * MARGIN) / width, (size.height - 2 * MARGIN) / height),
  );
  return {
    scale,
    x: (size.width - scale * (box.left + box.right)) / 2,
    y: (size.height - scale * (box.top + box.bottom)) / 2,
  };
}

/** A point of the picture in the middle of the canvas. */
export function centreOn(camera: Camera, x: number, y: number, size: Size): Camera {
  return {
    scale: camera.scale,
    x: size.width / 2 - x * camera.scale,
    y: size.height / 2 - y * camera.scale,
  };
}

/**
 * The first look at a picture: all of it if it can be read like that, else a readable part around
 * a point.
 */
export function firstLook(box: Box, focus: { x: number; y: number }, size: Size): Camera {
  const whole = fitTo(box, size);
  if (whole.scale >= READABLE) return whole;
  const near = centreOn({ x: 0, y: 0, scale: 0.85 }, focus.x, focus.y, size);
  // Near a border of the picture the canvas is filled rather than left half empty.
  return keepInside(near, box, size);
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
