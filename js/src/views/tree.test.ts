import { expect, it } from "vitest";
import { FakeHost } from "../../dev/host.ts";
import { matmulRecord, stepOf } from "../../dev/record.ts";
import { Session } from "../protocol/session.ts";
import { mountDebugger } from "./debugger.ts";

/** The rows of the tree of stages, where the passes of the first stage ran in these realizes. */
function rowsOf(realizes: readonly number[]): string[] {
  const record = matmulRecord();
  const [stage, ...others] = record.overview.stages;
  const [pass] = stage!.passes;
  const passes = realizes.map((realize, i) => ({ ...pass!, id: 100 + i, realize }));
  const stages = [{ ...stage!, passes }, ...others];
  const session = new Session(
    new FakeHost(record),
    { ...record.overview, stages },
    stepOf(record, 1, 0, null),
  );
  const [el, end] = [document.createElement("div"), new AbortController()];
  document.body.append(el);
  mountDebugger(el, session, end.signal);
  const root = el.querySelector(".tinylab") ?? el.shadowRoot!.querySelector(".tinylab")!;
  const rows = [...root.querySelectorAll(".tl-realize")].map((row) => row.textContent ?? "");
  end.abort();
  el.remove();
  return rows;
}

it("names the realize of passes where a record has several", () => {
  expect(rowsOf([1, 1, 1])).toEqual([]);
  expect(rowsOf([0, 1, 1, 0, 2])).toEqual([
    "between realizes",
    "realize 1",
    "between realizes",
    "realize 2",
  ]);
});
