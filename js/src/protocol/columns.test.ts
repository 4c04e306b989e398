import { describe, expect, it } from "vitest";
import { Client, type Port, type Push, type Reply } from "./client.ts";
import { joined, unpackColumns } from "./columns.ts";

const bytes = (...numbers: number[]): DataView => new DataView(Uint8Array.from(numbers).buffer);

/** A view into a larger buffer, at an odd place, as messages bring them. */
function inside(...numbers: number[]): DataView {
  const whole = Uint8Array.from([9, 9, 9, ...numbers, 9]);
  return new DataView(whole.buffer, 3, numbers.length);
}

describe("columns", () => {
  it("are cut from a buffer that came in pieces", () => {
    const buffer = joined([inside(1, 0, 2, 0, 0, 0), bytes(0, 0, 7, 255)]);
    const columns = unpackColumns(
      [
        { name: "a", type: "uint16", shape: [2], offset: 0 },
        { name: "b", type: "int8", shape: [1, 2], offset: 8 },
      ],
      buffer,
    );
    expect([...columns.a!]).toEqual([1, 2]);
    expect([...columns.b!]).toEqual([7, -1]);
  });
  it("of a kind that is not known are refused by name", () => {
    const spec = { name: "when", type: "complex64", shape: [1], offset: 0 };
    expect(() => unpackColumns([spec], new ArrayBuffer(8))).toThrow(/when.*complex64/);
  });
});

describe("answers with columns", () => {
  interface All {
    readonly window: { readonly columns: ReturnType<typeof unpackColumns>; readonly level: string };
  }
  type Hear = (message: Reply | Push, buffers?: readonly DataView[]) => void;
  function client(): { ask: () => Promise<All["window"]>; hear: Hear } {
    let hear: Hear = () => undefined;
    const port: Port = {
      send: () => undefined,
      listen: (to) => (hear = to),
      onGone: () => undefined,
    };
    const made = new Client<All>(
      port,
      () => undefined,
      () => undefined,
    );
    return { ask: () => made.ask("window", {}), hear: (...args) => hear(...args) };
  }
  const specs = [{ name: "lane", type: "uint8", shape: [3], offset: 0 }];

  it("wait for all their pieces", async () => {
    const { ask, hear } = client();
    const answer = ask();
    hear({ id: 1, piece: 1 }, [bytes(1, 2)]);
    hear({ id: 1, ok: { level: "detail", columns: specs } }, [inside(3)]);
    const { level, columns } = await answer;
    expect(level).toBe("detail");
    expect([...columns.lane!]).toEqual([1, 2, 3]);
  });
  it("that are cut short are an error, not silence", async () => {
    const { ask, hear } = client();
    const answer = ask();
    hear({ id: 1, ok: { level: "detail", columns: specs } }, [bytes(1)]);
    await expect(answer).rejects.toThrow();
  });
});
