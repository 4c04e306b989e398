/** Which part of a huge graph is drawn: what is near to where something happens. */

const MOST_USERS = 8;
const MOST_SOURCES = 24;

/**
 * The ids nearest to some centres, by edges in either direction, at most `limit` of them.
 *
 * Breadth-first from all centres at once, so that each of them keeps its surroundings.
 */
export function near(
  sources: ReadonlyMap<number, { readonly src: readonly number[] }>,
  uses: ReadonlyMap<number, readonly number[]>,
  centres: readonly number[],
  limit: number,
): Set<number> {
  const kept = new Set<number>(centres.filter((id) => uses.has(id)));
  const queue = [...kept];
  for (let head = 0; head < queue.length && kept.size < limit; head += 1) {
    const id = queue[head]!;
    // A value that is used everywhere, or a sink of everything, would draw in the whole graph at once.
    const users = (uses.get(id) ?? []).slice(0, MOST_USERS);
    const from = (sources.get(id)?.src ?? []).slice(0, MOST_SOURCES);
    for (const other of [...from, ...users]) {
      if (kept.size >= limit) break;
      if (kept.has(other) || !uses.has(other)) continue;
      kept.add(other);
      queue.push(other);
    }
  }
  return kept;
}
