/** The overview as it travels: its passes are short rows, since there may be thousands. */
import type { Overview, PassInfo } from "./types.ts";

/** id, kind, matches, µs, changed, nodes, failed, parent, realize */
type PassRow = readonly [...Numbers, parent: number | null, realize?: number];
type Numbers = readonly [number, number, number, number, number, number, number];
type PassKind = readonly [name: string, direction: string, file: string, line: number];

/** An overview from the wire, with or without packed passes. */
export function unpackOverview(data: unknown): Overview | null {
  if (data === null || data === undefined) return null;
  const packed = data as Overview & { readonly kinds?: readonly PassKind[] };
  const { kinds, ...overview } = packed;
  if (!kinds) return packed;
  const stages = packed.stages.map((stage) => ({
    ...stage,
    passes: (stage.passes as unknown as readonly PassRow[]).map((row) => unpackPass(row, kinds)),
  }));
  return { ...overview, stages };
}

function unpackPass(row: PassRow, kinds: readonly PassKind[]): PassInfo {
  const [id, kind, matches, elapsed, changed, nodes, failed, parent, realize] = row;
  const [name, direction, file, line] = kinds[kind]!;
  return {
    id,
    name,
    matches,
    elapsed_us: elapsed,
    changed: changed === 1,
    direction,
    nodes,
    place: file ? { file, line } : null,
    failed: failed === 1,
    parent,
    realize,
  };
}
