// Builds the bundles into widgets/tinylab_widgets/static; with --dev, serves a page with a
// synthetic record instead; with --bench, times layouts.
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.TINYLAB_STATIC ?? join(here, "../widgets/tinylab_widgets/static");

/** @type {import("esbuild").BuildOptions} */
const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
};

/** `import text from "inline-worker:./x.ts"` is the text of x.ts, bundled to run by itself. */
const inlineWorker = {
  name: "inline-worker",
  setup(plugin) {
    plugin.onResolve({ filter: /^inline-worker:/ }, (args) => ({
      path: join(args.resolveDir, args.path.slice("inline-worker:".length)),
      namespace: "inline-worker",
    }));
    plugin.onLoad({ filter: /.*/, namespace: "inline-worker" }, async (args) => {
      const { outputFiles, metafile } = await build({
        ...common,
        entryPoints: [args.path],
        format: "iife",
        write: false,
        metafile: true,
      });
      return {
        contents: outputFiles[0].text,
        loader: "text",
        watchFiles: Object.keys(metafile.inputs).map((file) => join(here, file)),
      };
    });
  },
};

/** Style sheets become text, without what only people read. */
const styleText = {
  name: "style-text",
  setup(plugin) {
    plugin.onLoad({ filter: /\.css$/ }, async (args) => {
      const { outputFiles } = await build({
        ...common,
        stdin: { contents: await readFile(args.path, "utf8"), loader: "css" },
        write: false,
      });
      return { contents: outputFiles[0].text.trim(), loader: "text" };
    });
  },
};

const plugins = [inlineWorker, styleText];

if (process.argv.includes("--dev")) {
  const dev = await context({
    ...common,
    plugins,
    minify: false,
    sourcemap: "inline",
    entryPoints: ["dev/page.ts"],
    outdir: "dev/out",
  });
  const { port } = await dev.serve({ servedir: "dev", port: 5173, host: "127.0.0.1" });
  console.log(`http://127.0.0.1:${port}/`);
} else if (process.argv.includes("--bench")) {
  const { outputFiles } = await build({
    ...common,
    plugins,
    entryPoints: ["dev/bench.ts"],
    write: false,
  });
  await import(
    `data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`
  );
} else {
  await build({
    ...common,
    plugins,
    entryPoints: {
      debugger: "src/widgets/debugger.ts",
      profile: "src/widgets/profile.ts",
      loader: "src/widgets/loader.ts",
    },
    outdir: out,
  });
}
