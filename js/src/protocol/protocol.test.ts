import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { doublingRecord, largeRecord, matmulRecord, stepOf } from "../../dev/record.ts";
import { StepCache } from "./cache.ts";
import { Client, type Reply } from "./client.ts";
import { unpackOverview } from "./pack.ts";
import { Session } from "./session.ts";
import type { Answers } from "./types.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function sessionOn(record = matmulRecord()): { host: FakeHost; session: Session } {
  const host = new FakeHost(record);
  return { host, session: new Session(host, record.overview, stepOf(record, 1, 0, null)) };
}

const settle = (ms = 50): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

describe("step cache", () => {
  it("derives a step from the difference to another", () => {
    const record = matmulRecord();
    const cache = new StepCache();
    cache.put(stepOf(record, 5, 0, null));
    const difference = stepOf(record, 5, 1, { pass: 5, k: 0 });
    cache.put(difference);
    const shown = cache.get({ pass: 5, k: 1 })!;
    const whole = stepOf(record, 5, 1, null);
    expect([...shown.order].sort()).toEqual(whole.nodes.map((node) => node.id).sort());
    expect(difference.nodes.length).toBeLessThan(whole.nodes.length);
  });

  it("tells what a rule made from what was only rebuilt", () => {
    const record = matmulRecord();
    const cache = new StepCache();
    cache.put(stepOf(record, 1, 1, null));
    const shown = cache.get({ pass: 1, k: 1 })!;
    expect(shown.added.size).toBe(0); // x * 1 -> x makes nothing
    expect(shown.gone.map((id) => shown.nodes.get(id)?.op)).toContain("MUL");
    expect(shown.rebuilt.size).toBeGreaterThan(0);
    expect(shown.rebuilt.has(shown.step.root)).toBe(true);
  });

  it("does not pretend to have a graph of which nodes are missing", () => {
    const record = matmulRecord();
    const cache = new StepCache();
    cache.put(stepOf(record, 5, 1, { pass: 5, k: 0 }));
    expect(cache.get({ pass: 5, k: 1 })).toBeNull();
    expect(cache.has({ pass: 5, k: 1 })).toBe(false);
  });
});

describe("session", () => {
  it("stands at once where it is told to, within the pass", () => {
    const { session } = sessionOn();
    session.goTo({ pass: 5, k: 99 });
    expect(session.state.now.at).toEqual({ pass: 5, k: 3 });
    session.stepBy(-99);
    expect(session.state.now.at).toEqual({ pass: 5, k: 0 });
  });

  it("walks match by match, over the ends of passes, through the whole record", () => {
    const { session } = sessionOn();
    const stepped = session.passes.filter(({ pass }) => pass.changed || pass.matches > 0);
    session.goTo({ pass: stepped[0]!.pass.id, k: 0 });
    expect(session.beside(-1)).toBeNull();
    const walked = [session.state.now.at];
    while (session.beside(1)) {
      session.walk(1);
      walked.push(session.state.now.at);
    }
    expect(walked).toEqual(
      stepped.flatMap(({ pass }) =>
        Array.from({ length: pass.matches + 1 }, (_, k) => ({ pass: pass.id, k })),
      ),
    );
    session.walk(1);
    expect(session.state.now.at).toEqual(walked.at(-1));
    const back = walked.map(() => {
      const here = session.state.now.at;
      session.walk(-1);
      return here;
    });
    expect(back.reverse()).toEqual(walked);
  });

  it("looks ahead to the next matches and the next pass, one question at a time", async () => {
    const { host, session } = sessionOn();
    expect(host.count("step")).toBe(0); // nothing is asked before someone steps
    session.lookAhead();
    expect(host.count("step")).toBe(1);
    await settle();
    const asked = host.count("step");
    const { matches } = session.place(1)!.pass;
    expect(asked).toBe(Math.min(matches, 2) + 1);
    for (let k = 1; k <= Math.min(matches, 2); k += 1) {
      expect(session.cache.has({ pass: 1, k })).toBe(true);
    }
    session.passBy(1);
    expect(session.state.now.shown?.step.pass).toBe(session.state.now.at?.pass);
    expect(session.state.now.at?.pass).not.toBe(1);
  });

  it("skips passes that changed nothing", () => {
    const { session } = sessionOn();
    session.passBy(1);
    expect(session.place(session.state.now.at!.pass)?.pass.name).toBe("assign_ranges");
    session.passBy(-1);
    session.passBy(-1);
    expect(session.state.now.at?.pass).toBe(1);
  });

  it("shows a step that it has without asking", async () => {
    const { host, session } = sessionOn();
    session.goTo({ pass: 5, k: 0 });
    await settle();
    const asked = host.count("step");
    session.goTo({ pass: 1, k: 0 });
    expect(session.state.now.shown?.step.pass).toBe(1);
    session.goTo({ pass: 5, k: 0 });
    expect(session.state.now.shown?.step.pass).toBe(5);
    await settle();
    expect(host.heard.slice(asked).every(({ args }) => args.k > 0)).toBe(true); // only what is ahead
  });

  it("merges forty key presses on a busy kernel into a handful of messages", async () => {
    const { host, session } = sessionOn(largeRecord(800));
    await settle();
    const before = host.heard.length;
    host.busy = true;
    for (let i = 0; i < 30; i += 1) {
      session.stepBy(1);
      await settle(100);
    }
    expect(session.state.now.link).toBe("busy");
    for (let i = 0; i < 10; i += 1) {
      session.stepBy(-1);
      await settle(100);
    }
    const matches = session.place(1)!.pass.matches;
    expect(session.state.now.at?.k).toBe(Math.min(matches, 30) - 10);
    expect(host.heard.length - before).toBeLessThanOrEqual(2);
    host.resume();
    await settle(300);
    expect(session.state.now.shown?.step.k).toBe(session.state.now.at?.k);
    expect(session.state.now.link).toBe("ready");
    expect(host.heard.length - before).toBeLessThanOrEqual(5);
  });

  it("shows what it has while the kernel is busy", async () => {
    const { host, session } = sessionOn();
    session.goTo({ pass: 5, k: 0 });
    await settle();
    host.busy = true;
    session.goTo({ pass: 5, k: 3 });
    await settle(700);
    expect(session.state.now.shown?.step.k).toBe(0);
    session.goTo({ pass: 1, k: 0 });
    expect(session.state.now.shown?.step.pass).toBe(1);
  });

  it("stops asking when the kernel has gone, and keeps what it shows", async () => {
    const { host, session } = sessionOn();
    await settle();
    host.go();
    const heard = host.heard.length;
    const at = session.state.now.at;
    session.passBy(1);
    session.passBy(1);
    await settle(5000);
    expect(session.state.now.at).toEqual(at); // it stays at what it shows
    expect(session.state.now.link).toBe("gone");
    expect(session.state.now.problem).toBeNull();
    expect(session.state.now.shown?.step.k).not.toBeNull();
    expect(host.heard.length).toBe(heard);
  });

  it("takes an idle kernel that never answers for one that does not know the record", async () => {
    const record = matmulRecord();
    const host = Object.assign(new FakeHost(record), { kernelIdle: () => true });
    host.busy = true;
    const session = new Session(host, record.overview, stepOf(record, 1, 0, null));
    session.goTo({ pass: 5, k: 1 });
    await settle(20_000);
    expect(session.state.now.link).toBe("gone");
  });

  it("waits for what an idle kernel says that it has heard", async () => {
    const sent: { id: number }[] = [];
    let hear: (reply: Reply) => void = () => undefined;
    const client = new Client<Answers>(
      {
        send: (message) => sent.push(message as { id: number }),
        listen: (tell) => {
          hear = tell;
        },
        onGone: () => undefined,
        kernelIdle: () => true,
      },
      () => undefined,
      () => undefined,
    );
    const answer = client.ask("search", { text: "x" });
    await settle(1000);
    hear({ id: sent[0]!.id, heard: true });
    await settle(60_000);
    expect(client.link).toBe("busy");
    hear({ id: sent[0]!.id, ok: { hits: [] } });
    expect(await answer).toEqual({ hits: [] });
    await settle();
    expect(client.link).toBe("ready");
  });

  it.each(["run", "count"] as const)("lets a %s take as long as it takes", async (work) => {
    const record = matmulRecord();
    const host = Object.assign(new FakeHost(record), { kernelIdle: () => true });
    host.busy = true;
    const session = new Session(host, record.overview, stepOf(record, 1, 0, null));
    const ended = session.client.ask(work, { kernel: 0, opts: [] }).catch(String);
    await settle(60_000);
    expect(session.state.now.link).toBe("ready");
    host.go();
    expect(await ended).toContain("the kernel of this record has gone");
  });

  it("waits as long as it takes for a kernel that is busy", async () => {
    const { host, session } = sessionOn();
    host.busy = true;
    session.goTo({ pass: 5, k: 1 });
    await settle(60_000);
    expect(session.state.now.link).toBe("busy");
    host.resume();
    await settle();
    expect(session.state.now.shown?.step.k).toBe(1);
  });

  it("reports what the kernel refuses, once, and goes on", async () => {
    const { session } = sessionOn();
    session.client.ask("text", { pass: 99, k: 0 }).catch((error) => session.report(error));
    await settle();
    expect(session.state.now.problem).toBeTruthy();
    session.goTo({ pass: 5, k: 1 });
    await settle();
    expect(session.state.now.problem).toBeNull();
  });

  it("asks for the lines' kernels and nodes", async () => {
    const { session } = sessionOn();
    void session.chooseLines([3]);
    await settle();
    expect(session.state.now.marks?.kernels).toEqual([0]);
    void session.chooseLines([]);
    expect(session.state.now.marks).toBeNull();
  });

  it("brings the kernel of a kernel's pass along", () => {
    const { session } = sessionOn();
    session.state.set({ kernel: null });
    session.goTo({ pass: 5, k: 0 });
    expect(session.state.now.kernel).toBe(0);
  });

  it("shows an empty record", () => {
    const host = new FakeHost(doublingRecord(1));
    const overview = { ...host.record.overview, stages: [], kernels: [] };
    const session = new Session(host, overview, null);
    expect([session.state.now.at, session.state.now.shown]).toEqual([null, null]);
    session.stepBy(1);
    session.passBy(1);
    expect(host.heard).toEqual([]);
  });
});

describe("packed overviews", () => {
  it("come out as they went in", () => {
    const { overview } = matmulRecord();
    const kinds: unknown[] = [];
    const stages = overview.stages.map((stage) => ({
      ...stage,
      passes: stage.passes.map((pass) => {
        kinds.push([pass.name, pass.direction, pass.place?.file, pass.place?.line]);
        return [
          pass.id,
          kinds.length - 1,
          pass.matches,
          pass.elapsed_us,
          Number(pass.changed),
          pass.nodes,
          Number(pass.failed),
          null,
        ];
      }),
    }));
    const unpacked = unpackOverview({ ...overview, stages, kinds })!;
    const plain = overview.stages.map((stage) => ({
      ...stage,
      passes: stage.passes.map((pass) => ({ ...pass, parent: null })),
    }));
    expect(unpacked.stages).toEqual(plain);
    expect(unpackOverview(overview)).toBe(overview);
    expect(unpackOverview(null)).toBeNull();
  });
});

describe("marks of cell lines", () => {
  it("are asked for again where one comes to another kernel", async () => {
    const { host, session } = sessionOn();
    void session.chooseLines([3]);
    await settle();
    session.goTo({ pass: 3, k: 0 });
    await settle();
    expect(host.count("lines")).toBe(1);
    session.goTo({ pass: 5, k: 0 });
    session.goTo({ pass: 5, k: 1 });
    await settle();
    const asked = host.heard.filter(({ ask }) => ask === "lines").map(({ args }) => args.pass);
    expect(asked).toEqual([1, 5]);
  });
});

describe("the origin of a node", () => {
  it("is asked for once in a pass", async () => {
    const { host, session } = sessionOn();
    const { step } = session.state.now.shown!;
    session.choose(step.root);
    await settle();
    expect(session.state.now.origin?.lines).toEqual([3]);
    session.choose(null);
    expect(session.state.now.origin).toBeNull();
    session.choose(step.root);
    session.choose(step.root);
    await settle();
    expect(host.count("node")).toBe(2);
  });
});
