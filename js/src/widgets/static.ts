/** The static form under a live view: shown to readers without a kernel, hidden while it lives. */

/**
 * Hides the output that follows a widget's own, until the signal aborts.
 *
 * The magic puts a picture and tables under each view, for notebooks that are opened without
 * its state. Only that output is touched.
 */
export function hideStatic(el: HTMLElement, signal: AbortSignal): void {
  const output = el.closest(".jp-OutputArea-child, .output_area, .cell-output");
  const area = output?.parentElement;
  if (!output || !area || signal.aborted) return;
  let hidden: HTMLElement | null = null;
  const hide = (): boolean => {
    const next = output.nextElementSibling as HTMLElement | null;
    if (!next?.querySelector(".tinylab-static")) return false;
    hidden = next;
    hidden.style.display = "none";
    return true;
  };
  if (!hide()) {
    const observer = new MutationObserver(() => hide() && observer.disconnect());
    observer.observe(area, { childList: true, subtree: true });
    const stop = (): void => observer.disconnect();
    setTimeout(stop, 10_000);
    signal.addEventListener("abort", stop, { once: true });
  }
  signal.addEventListener("abort", () => hidden?.style.removeProperty("display"), { once: true });
}
