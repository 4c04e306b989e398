import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [
    {
      // The bundler inlines the worker's text; tests lay out in slices on the main thread instead.
      name: "no-worker",
      enforce: "pre",
      resolveId: (id) => (id.startsWith("inline-worker:") ? `\0${id}` : undefined),
      load: (id) => (id.startsWith("\0inline-worker:") ? 'export default "";' : undefined),
    },
    {
      name: "style-text",
      enforce: "pre",
      load: (id) =>
        id.endsWith(".css")
          ? `export default ${JSON.stringify(readFileSync(id, "utf8"))};`
          : undefined,
    },
  ],
  test: {
    // Machines are shared: how long a test takes says nothing of what it tests.
    testTimeout: 120_000,
    environment: "happy-dom",
    include: ["src/**/*.test.ts"],
  },
});
