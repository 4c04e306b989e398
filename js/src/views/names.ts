/** Names of kernels and stages; equal ones are told apart by the kernel's place in the schedule. */
import type { Overview, StageInfo } from "../protocol/types.ts";

const known = new WeakMap<Overview, ReadonlySet<string>>();

/** Names that more than one kernel has. */
function twins(overview: Overview): ReadonlySet<string> {
  let found = known.get(overview);
  if (!found) {
    const seen = new Set<string>();
    const names = overview.kernels.map((kernel) => kernel.name);
    found = new Set(names.filter((name) => seen.size === seen.add(name).size));
    known.set(overview, found);
  }
  return found;
}

/** "r_64_64", or "r_64_64 #3" where another kernel is called that too. */
export function kernelTitle(overview: Overview | null, id: number): string {
  const kernel = overview?.kernels.find((each) => each.id === id);
  if (!overview || !kernel) return `kernel ${id}`;
  return twins(overview).has(kernel.name) ? `${kernel.display} #${id}` : kernel.display;
}

/** The same for the stage in which a kernel is lowered. */
export function stageTitle(overview: Overview | null, stage: StageInfo): string {
  const isTwin = overview !== null && stage.kernel !== null && twins(overview).has(stage.name);
  return isTwin ? `${stage.name} #${stage.kernel}` : stage.name;
}
