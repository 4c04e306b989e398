/** Light or dark, as the page around the widget is, and the colours that the canvas draws with. */
import type { Kind } from "../protocol/types.ts";

export interface Palette {
  readonly background: string;
  readonly raised: string;
  readonly grid: string;
  readonly text: string;
  readonly faint: string;
  readonly edge: string;
  readonly edgeStrong: string;
  readonly accent: string;
  readonly added: string;
  readonly addedFill: string;
  readonly gone: string;
  readonly goneFill: string;
  readonly line: string;
  readonly kinds: Readonly<Record<Kind, { readonly line: string; readonly fill: string }>>;
  readonly font: string;
  readonly sans: string;
}

const KINDS: readonly Kind[] = [
  "movement",
  "alu",
  "reduce",
  "memory",
  "const",
  "range",
  "control",
  "other",
];

/** The colours as the style sheet has them for the theme that is on. */
export function readPalette(root: HTMLElement): Palette {
  const style = getComputedStyle(root);
  const of = (name: string, fallback: string): string =>
    style.getPropertyValue(`--tl-${name}`).trim() || fallback;
  const kinds = Object.fromEntries(
    KINDS.map((kind) => [
      kind,
      { line: of(`kind-${kind}`, "#57606a"), fill: of(`fill-${kind}`, "#f6f8fa") },
    ]),
  ) as Palette["kinds"];
  return {
    background: of("canvas", "#ffffff"),
    raised: of("raised", "#f6f8fa"),
    grid: of("border", "#d8dee4"),
    text: of("text", "#1f2328"),
    faint: of("faint", "#57606a"),
    edge: of("edge", "#8c959f"),
    edgeStrong: of("edge-strong", "#424a53"),
    accent: of("accent", "#0969da"),
    added: of("added", "#1a7f37"),
    addedFill: of("added-fill", "#dafbe1"),
    gone: of("gone", "#cf222e"),
    goneFill: of("gone-fill", "#ffebe9"),
    line: of("line-mark", "#9a6700"),
    kinds,
    font: of("mono", "ui-monospace, monospace"),
    sans: of("sans", "system-ui, sans-serif"),
  };
}

/** Colours of the style sheet by name, each with what is best read on it: black or white. */
export interface Swatch {
  readonly fill: string;
  readonly ink: string;
}

/** "cat-vector" -> the value of --tl-cat-vector, in the theme that is on. */
export function readSwatches(root: HTMLElement, names: readonly string[]): Swatch[] {
  const style = getComputedStyle(root);
  return names.map((name) => {
    const fill = style.getPropertyValue(`--tl-${name}`).trim() || "#8c959f";
    return { fill, ink: inkOn(fill) };
  });
}

/** Black or white, whichever has more contrast with a colour: one always has 4.5 or more. */
export function inkOn(hex: string): string {
  const parts = /^#(..)(..)(..)$/.exec(hex);
  if (!parts) return "#000000";
  const [r, g, b] = parts.slice(1).map((part) => {
    const x = Number.parseInt(part, 16) / 255;
    return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

/** Keeps `data-theme` of the root in step with the page, and tells when it changed. */
export function followTheme(root: HTMLElement, changed: () => void, signal: AbortSignal): void {
  const look = (): void => {
    const theme = isDark(root) ? "dark" : "light";
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    changed();
  };
  const observer = new MutationObserver(() => {
    look();
    // JupyterLab loads a theme's sheet after it has named it.
    setTimeout(look, 150);
    setTimeout(() => {
      look();
      changed();
    }, 600);
  });
  const attributes = [
    "data-jp-theme-light",
    "data-jp-theme-name",
    "data-vscode-theme-kind",
    "class",
  ];
  observer.observe(document.body, { attributes: true, attributeFilter: attributes });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: attributes });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", look, { signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  root.dataset.theme = isDark(root) ? "dark" : "light";
}

/** Whether the page around an element is dark: it says so, or its background does. */
export function isDark(root: HTMLElement): boolean {
  const light = document.body.dataset.jpThemeLight;
  if (light !== undefined) return light === "false";
  for (let el: Element | null = root.parentElement; el; el = el.parentElement) {
    const shade = brightness(getComputedStyle(el).backgroundColor);
    if (shade !== null) return shade < 0.5;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** 0 is black, 1 is white; null for a colour that lets the background through. */
export function brightness(colour: string): number | null {
  const parts = colour.match(/[\d.]+/g)?.map(Number);
  if (!parts || parts.length < 3 || (parts.length > 3 && parts[3]! < 0.5)) return null;
  return (0.2126 * parts[0]! + 0.7152 * parts[1]! + 0.0722 * parts[2]!) / 255;
}
