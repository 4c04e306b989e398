/**
 * What each widget carries: about 1 kB that fetches a shared bundle from the Assets model.
 *
 * The bundle is imported once per page and digest; the module scope here is one model's own.
 */
interface Model {
  get(name: string): unknown;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
}
interface Host {
  getModel(ref: unknown): Promise<Model>;
}
interface Bundle {
  render(view: { el: HTMLElement; signal: AbortSignal; shared: object }): void;
}

const key = Symbol.for("tinylab.bundles.v1");
const page = globalThis as { [key]?: Map<unknown, Promise<Bundle>> };
let shared: object;

function load(code: string, digest: unknown): Promise<Bundle> {
  page[key] ??= new Map();
  let found = page[key].get(digest);
  if (!found) {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    found = import(url);
    page[key].set(digest, found);
  }
  return found;
}

export default {
  initialize({ model, signal }: { model: Model; signal: AbortSignal }): void {
    shared = { model, signal };
  },
  async render(view: {
    model: Model;
    el: HTMLElement;
    host: Host;
    signal: AbortSignal;
  }): Promise<void> {
    const { model, el, host, signal } = view;
    try {
      const assets = await host.getModel(model.get("_assets"));
      const bundle = await load(assets.get("code") as string, assets.get("digest"));
      if (!signal.aborted) bundle.render({ el, signal, shared });
    } catch (error) {
      el.textContent = `The view could not be loaded: ${error}`;
      throw error;
    }
  },
};
