/** A debugger over a synthetic record, for tests: mounted, and driven as a user would. */
import { vi } from "vitest";
import { Session } from "../src/protocol/session.ts";
import { mountDebugger } from "../src/views/debugger.ts";
import { FakeHost } from "./host.ts";
import { type FakeRecord, matmulRecord, stepOf } from "./record.ts";

export interface Mounted {
  readonly host: FakeHost;
  readonly session: Session;
  readonly root: HTMLElement;
}

export function mounted(
  record: FakeRecord = matmulRecord(),
  host: FakeHost = new FakeHost(record),
): Mounted {
  const el = document.createElement("div");
  document.body.append(el);
  const session = new Session(host, record.overview, stepOf(record, 1, 0, null));
  mountDebugger(el, session, new AbortController().signal);
  return { host, session, root: el.querySelector<HTMLElement>(".tinylab")! };
}

export const settle = (ms = 50): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

export function press(target: HTMLElement, key: string, more: KeyboardEventInit = {}): void {
  target.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }),
  );
}

export const named = (root: Element, name: string): HTMLElement =>
  root.querySelector<HTMLElement>(`[data-name="${name}"]`)!;

/** The texts of all elements that a selector finds. */
export const texts = (root: Element, selector: string): string[] =>
  [...root.querySelectorAll(selector)].map((element) => element.textContent ?? "");
