/** One line at the foot: what went wrong, how the kernel is, what the step did. */
import { count, plural } from "../base/text.ts";
import { sameAt } from "../protocol/cache.ts";
import type { SessionState } from "../protocol/session.ts";
import type { Overview } from "../protocol/types.ts";
import type { Context } from "./context.ts";
import { type Look, statusLine } from "./frame.ts";

export function statusBar({ session, signal }: Context): HTMLElement {
  return statusLine(
    (tell) => session.state.watch(["link", "problem", "at", "shown", "overview"], tell, signal),
    () => statusOf(session.state.now),
  );
}

type CellError = NonNullable<Overview["error"]>;

/** How the line looks and what it says: the gravest thing first. */
export function statusOf(state: SessionState): readonly [Look, string] {
  const { link, problem, at, shown, overview } = state;
  const follows = at !== null && !sameAt(at, shown?.step ?? null) ? at : null;
  if (link === "gone") {
    return [
      "gone",
      "The kernel of this record has gone: what was loaded stays. Run the cell again for a live view.",
    ];
  }
  if (problem) return ["problem", problem];
  if (link === "busy") {
    return ["busy", `The kernel is busy${follows ? `; match ${count(follows.k)} follows` : ""}.`];
  }
  if (link === "waiting" && follows) return ["waiting", `Loading match ${count(follows.k)} …`];
  const failed = overview?.error;
  if (overview && failed) return ["problem", endText(overview, failed)];
  return ["ready", stepText(state)];
}

/** What ended the cell. */
function endText(overview: Overview, failed: CellError): string {
  if (failed.type === "KeyboardInterrupt") return interruptText(overview, failed);
  const message = failed.message.trim().replace(/\s*\n\s*/g, " · ");
  const by = failed.rule ? `, raised by the rule ${failed.rule}` : "";
  return `The cell ended with ${failed.type}${by}${message && `: ${message}`}`;
}

/** Where an interrupt came: no rule raised it. */
function interruptText({ stages }: Overview, { pass_id, match }: CellError): string {
  const stage = stages.find(({ passes }) => passes.some(({ id }) => id === pass_id));
  const pass = stage?.passes.find(({ id }) => id === pass_id);
  if (!stage || !pass) return "The cell was interrupted, in no pass: what was recorded stays.";
  const after = match ? `after match ${count(match)}` : "before its first match";
  return `The cell was interrupted in the pass ${pass.name} (${stage.name}), ${after}.`;
}

function stepText({ overview, shown }: SessionState): string {
  if (overview?.hint) return overview.hint;
  if (!shown) return "Nothing was rewritten.";
  const { rule, k, total } = shown.step;
  if (!rule && total === 0) return "no rule fired in this pass";
  if (!rule) return k === 0 ? `before the first of ${plural(total, "match")}` : `match ${count(k)}`;
  return `match ${count(k)}: ${rule.name}${rule.law ? `   ${rule.law}` : ""}`;
}
