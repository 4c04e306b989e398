/** Opts in words. */
import type { OptEdit } from "./types.ts";

/** "UPCAST(1, 4)" */
export function optText(opt: OptEdit): string {
  const parts = [opt.axis, Array.isArray(opt.arg) ? `(${opt.arg.join(", ")})` : opt.arg];
  return `${opt.op}(${parts.filter((part) => part !== null && part !== undefined).join(", ")})`;
}
