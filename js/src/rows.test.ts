import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = dirname(fileURLToPath(import.meta.url));
/** A folder imports itself and the folders before it. */
const ROWS = ["base", "protocol", "layout", "views", "widgets"];

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .map((name) => join(SRC, name))
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
const rowOf = (file: string): number => ROWS.indexOf(relative(SRC, file).split("/")[0]!);

describe("rows of the front end", () => {
  it("has a row for every module", () => {
    expect(files.filter((file) => rowOf(file) < 0)).toEqual([]);
  });

  it.each(files)("%s imports nothing from a row above, and nothing from outside", (file) => {
    for (const [, path] of readFileSync(file, "utf8").matchAll(/ from "([^"]+)"/g)) {
      const plain = path!.replace(/^inline-worker:/, "");
      expect(plain.startsWith(".")).toBe(true);
      expect(rowOf(resolve(dirname(file), plain))).toBeLessThanOrEqual(rowOf(file));
    }
  });

  it.each(files)("%s has at most 600 lines, and parses no HTML", (file) => {
    const text = readFileSync(file, "utf8");
    expect(text.split("\n").length).toBeLessThanOrEqual(600);
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
  });

  it.each(files.filter((file) => rowOf(file) === ROWS.indexOf("views")))(
    "%s asks by the asker of its view, except for work that one view at a time may order",
    (file) => {
      const asks = readFileSync(file, "utf8").matchAll(/client\s*\.ask\(\s*"(\w+)"/g);
      for (const [, question] of asks) expect(["run", "count"]).toContain(question);
    },
  );
});

const sheets = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.endsWith(".css"),
);

describe.each(sheets)("the style sheet %s", (sheet) => {
  it("touches nothing outside the widget", () => {
    const css = readFileSync(join(SRC, sheet), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    const selectors = [...css.matchAll(/(^|[}\n])\s*([^{}@]+)\{/g)].map((match) =>
      match[2]!.trim(),
    );
    const outside = selectors
      .flatMap((selector) => selector.split(/,(?![^(]*\))/))
      .map((selector) => selector.trim())
      .filter((selector) => !selector.startsWith(".tinylab") && !/^(\d+%|from|to)$/.test(selector));
    expect(outside).toEqual([]);
    for (const [, name] of css.matchAll(/@keyframes (\S+)/g)) expect(name).toMatch(/^tl-/);
  });
});
