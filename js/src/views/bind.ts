/** Commands bound to keys. */
import { chord, keyLabel } from "../base/keys.ts";

export interface Command {
  readonly group: string;
  readonly keys: readonly string[];
  readonly what: string;
  readonly run: () => void;
}

/** A row of a table of commands: the keys are parted by spaces. */
export function command(group: string, keys: string, what: string, run: () => void): Command {
  return { group, keys: keys.split(" "), what, run };
}

const TYPING = "input:not([type=range]):not([type=checkbox]), select, textarea";

/**
 * Whether a key press is the notebook's: with Control, Command or Alt, or a function key.
 *
 * Others would edit the notebook while one works in a widget: "dd" deletes the cell.
 */
function isForNotebook(event: KeyboardEvent): boolean {
  const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
  if (key === "Tab" || /^F[0-9]+$/.test(key)) return true;
  return ctrlKey || metaKey || altKey || (shiftKey && key === "Enter");
}

/** Handles the keys of a view. Keys that it knows, and plain letters, never reach the notebook. */
export function bindKeys(
  root: HTMLElement,
  commands: readonly Command[],
  signal: AbortSignal,
): void {
  const byKey = new Map(
    commands.flatMap((command) => command.keys.map((key) => [key, command] as const)),
  );
  const commandFor = (event: KeyboardEvent, target: Element): Command | undefined => {
    const name = chord(event);
    const acts = !target.matches(TYPING) || name === "Escape" || name === "Ctrl+Enter";
    return acts ? byKey.get(name) : undefined;
  };
  // JupyterLab looks at the attribute before the event gets here, and takes no key where it is.
  window.addEventListener(
    "keydown",
    (event) => {
      const target = event.composedPath()[0];
      if (!(target instanceof Element) || !event.composedPath().includes(root)) return;
      const isOurs = commandFor(event, target) !== undefined || !isForNotebook(event);
      if (isOurs) root.dataset.lmSuppressShortcuts = "true";
      else delete root.dataset.lmSuppressShortcuts;
    },
    { signal, capture: true },
  );
  root.addEventListener(
    "keydown",
    (event) => {
      const command = commandFor(event, event.target as Element);
      if (command && !event.defaultPrevented) {
        event.preventDefault();
        command.run();
      }
      if (command || !isForNotebook(event)) event.stopPropagation();
    },
    { signal },
  );
}

/** "→ or n" */
export function keysText(command: Command): string[] {
  return command.keys.map(keyLabel);
}
