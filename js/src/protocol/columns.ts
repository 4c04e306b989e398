/** Tables of numbers as they travel: one buffer, and where in it each column stands. */
import type { Column, Columns } from "../base/spans.ts";

export type { Column, Columns };

export interface ColumnSpec {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly offset: number;
}

const KINDS = {
  float64: Float64Array,
  float32: Float32Array,
  uint32: Uint32Array,
  int32: Int32Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint8: Uint8Array,
  int8: Int8Array,
} as const;

/** Puts pieces of a buffer together: a message has its limit. */
export function joined(pieces: readonly DataView[]): ArrayBuffer {
  const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength), at);
    at += piece.byteLength;
  }
  return whole.buffer;
}

/** Columns cut from a buffer; those of several dimensions stay flat, the last running fastest. */
export function unpackColumns(specs: readonly ColumnSpec[], buffer: ArrayBuffer): Columns {
  return Object.fromEntries(
    specs.map(({ name, type, shape, offset }) => {
      const Kind = KINDS[type as keyof typeof KINDS];
      if (!Kind) throw new Error(`the column ${name} has the type ${type}, which is not known`);
      const size = shape.reduce((product, each) => product * each, 1);
      return [name, new Kind(buffer, offset, size)];
    }),
  );
}
