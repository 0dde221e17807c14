// Says why files of edits cannot be used: node edits_files.mjs WEB GIVEN.json
// GIVEN is {editing, files}: the page's data and the text of each file; "" for a file that can be used.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [web, file] = process.argv.slice(2);
const edits = createRequire(import.meta.url)(join(web, "edits.js"));
const { editing, files } = JSON.parse(readFileSync(file, "utf8"));
const base = edits.open(editing);
process.stdout.write(JSON.stringify(files.map((text) => edits.problemOf(base, JSON.parse(text)))));
