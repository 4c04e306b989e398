/** How long layouts take: `npm run bench`. Figures to look at, never a test. */
import { layoutNow } from "../src/layout/layered.ts";
import { buildScene, SCENE_OPTIONS } from "../src/layout/scene.ts";
import { StepCache } from "../src/protocol/cache.ts";
import { largeRecord, stepOf } from "./record.ts";

for (const nodes of [320, 2_000, 10_000, 70_000]) {
  const record = largeRecord(nodes);
  const cache = new StepCache();
  cache.put(stepOf(record, 1, 0, null));
  const shown = cache.get({ pass: 1, k: 0 })!;
  for (const foldAbove of nodes > 10_000 ? [2500] : [2500, Number.POSITIVE_INFINITY]) {
    const times: number[] = [];
    let text = "";
    for (let run = 0; run < 5; run += 1) {
      const start = performance.now();
      const scene = buildScene(shown, { ...SCENE_OPTIONS, foldAbove }, () => undefined);
      const middle = performance.now();
      const layout = layoutNow(scene.input);
      times.push(performance.now() - start);
      text = `${scene.nodes.length} drawn, scene ${(middle - start).toFixed(1)} ms, ${layout.dummies} bends, ${layout.crossings} crossings`;
    }
    times.sort((a, b) => a - b);
    console.log(`${nodes} nodes: ${times[2]!.toFixed(1)} ms (${text})`);
  }
}
