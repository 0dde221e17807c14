// Applies edits to beats as the page of a report does, and prints the counts: node edits.mjs WEB GIVEN.json
// GIVEN is a list of {editing, edits, reviewed}; the page's own scripts do the work.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [web, file] = process.argv.slice(2);
const load = createRequire(import.meta.url);
const [edits, counts] = ["edits.js", "counts.js"].map((name) => load(join(web, name)));
const answers = JSON.parse(readFileSync(file, "utf8")).map((one) => {
  const base = edits.open(one.editing);
  const given = edits.apply(base, one.edits, one.reviewed);
  const start = performance.now();
  const found = counts.count(given, base.rules, edits.rhythmsOf(base, one.edits), base.withheld);
  return { counts: found, ms: performance.now() - start };
});
process.stdout.write(JSON.stringify(answers));
