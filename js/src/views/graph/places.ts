/** Where nodes were, so that the next picture keeps them there. */
import { pairRebuilt } from "../../layout/pair.ts";
import type { OldPlace } from "../../layout/scene.ts";
import type { Shown } from "../../protocol/cache.ts";
import type { Drawn } from "./drafts.ts";
import type { Picture } from "./picture.ts";

/**
 * The old places of a new step's nodes: by id, or by the node that they were rebuilt from.
 *
 * Nodes outside the part that was drawn have none.
 */
export function oldPlaces(drawn: Drawn | null, next: Shown): (id: number) => OldPlace | undefined {
  if (!drawn) return () => undefined;
  const { scene, layout } = drawn.picture;
  const isOld = (id: number): boolean => scene.index.has(id);
  const pairs = pairRebuilt(next.nodes, next.step.root, drawn.shown.step.root, isOld);
  const { before, after } = next.step;
  return (id) => {
    const at = scene.index.get(id) ?? scene.index.get(pairs.get(id) ?? -1);
    if (at !== undefined) {
      // Of two nodes with the same old place the one that is still itself keeps it.
      return { x: layout.x[at]!, rank: layout.rank[at]! };
    }
    if (id === after && before !== null && scene.index.has(before)) {
      const was = scene.index.get(before)!;
      return { x: layout.x[was]! + scene.nodes[was]!.width + 40, rank: layout.rank[was]! };
    }
    return undefined;
  };
}

/** Places of a picture's nodes under the ids of the next one, for a smooth change. */
export function startPlaces(
  drawn: Drawn | null,
  next: Shown,
  nextPicture: Picture,
): Map<number, { x: number; y: number }> {
  const places = new Map<number, { x: number; y: number }>();
  if (!drawn) return places;
  const { picture, shown } = drawn;
  const isOld = (id: number): boolean => picture.scene.index.has(id);
  const pairs = pairRebuilt(next.nodes, next.step.root, shown.step.root, isOld);
  for (const node of nextPicture.scene.nodes) {
    const centre = picture.centre(node.id) ?? picture.centre(pairs.get(node.id) ?? -1);
    if (centre) places.set(node.id, centre);
  }
  return places;
}
