/** Names of key presses, as the table of commands writes them. */

interface KeyPress {
  readonly key: string;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/** Control or Command, Alt and Shift, then the key: "Ctrl+Enter", "Shift+ArrowRight", "?". */
export function chord(press: KeyPress): string {
  const printed = press.key.length === 1;
  const parts = [];
  if (press.ctrlKey || press.metaKey) parts.push("Ctrl");
  if (press.altKey) parts.push("Alt");
  // A printed character already says whether Shift was held.
  if (press.shiftKey && !printed) parts.push("Shift");
  parts.push(press.key === " " ? "Space" : press.key);
  return parts.join("+");
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

/** A chord as it is shown to people: "Shift+ArrowRight" -> "Shift →" */
export function keyLabel(name: string): string {
  if (name === "+") return "+";
  return name
    .split(/(?<=.)\+/)
    .map((part) => NAMES[part] ?? part)
    .join(" ");
}
