import { describe, expect, it } from "vitest";
import { FakeHost } from "../../../dev/host.ts";
import { largeRecord, matmulRecord, stepOf } from "../../../dev/record.ts";
import { SCENE_OPTIONS } from "../../layout/scene.ts";
import { type Shown, StepCache } from "../../protocol/cache.ts";
import { Session } from "../../protocol/session.ts";
import { Drafts, type Drawn } from "./drafts.ts";

/** The first steps of a record. */
function stepsOf(count: number): Shown[] {
  const [record, cache] = [largeRecord(400, 3), new StepCache()];
  return Array.from({ length: count }, (_, k) => {
    cache.put(stepOf(record, 1, k, null));
    return cache.get({ pass: 1, k })!;
  });
}

describe("pictures in the making", () => {
  const [first, second, third] = stepsOf(3) as [Shown, Shown, Shown];

  it("are made ahead once, and are what would have been made when wanted", async () => {
    const drafts = new Drafts();
    const from = (await drafts.wanted({ shown: first, from: null, options: SCENE_OPTIONS }))!;
    const next = { shown: second, from, options: SCENE_OPTIONS };
    await drafts.ahead([next, { ...next, shown: third }]);
    const ahead = await Promise.race([drafts.wanted(next), Promise.resolve("not ready")]);
    expect(ahead).not.toBe("not ready");
    const anew = await new Drafts().wanted(next);
    expect((ahead as Drawn).picture.layout).toEqual(anew!.picture.layout);
    expect((ahead as Drawn).picture.scene).toEqual(anew!.picture.scene);
  });

  it("go when another step is wanted, or the same one drawn otherwise", async () => {
    const drafts = new Drafts();
    const from = (await drafts.wanted({ shown: first, from: null, options: SCENE_OPTIONS }))!;
    const begun = drafts.wanted({ shown: second, from, options: SCENE_OPTIONS });
    const other = drafts.wanted({
      shown: second,
      from,
      options: { ...SCENE_OPTIONS, ghosts: false },
    });
    expect(await begun).toBeNull();
    expect((await other)!.shown).toBe(second);
    void drafts.ahead([{ shown: third, from, options: SCENE_OPTIONS }]);
    const last = drafts.wanted({ shown: third, from, options: SCENE_OPTIONS });
    drafts.stop();
    expect(await last).toBeNull();
  });
});

describe("a session", () => {
  it("says which of the next steps are here", async () => {
    const host = new FakeHost(matmulRecord());
    const session = new Session(host, host.record.overview, stepOf(host.record, 1, 0, null));
    expect(session.state.now.ahead).toEqual([]);
    session.lookAhead();
    await expect.poll(() => session.state.now.ahead[0]).toEqual({ pass: 1, k: 1 });
    session.stepBy(1);
    const { shown } = session.state.now;
    expect(shown).toBe(session.cache.get({ pass: 1, k: 1 }));
  });
});
