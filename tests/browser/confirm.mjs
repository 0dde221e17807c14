// Gives some beats of a labelling page several answers, and prints what becomes of them as JSON.
// node confirm.mjs WEB-FOLDER INPUT.json, where the input holds {data, answers: [[group, label], ...]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [web, input] = process.argv.slice(2);
globalThis.EcgChoose = require(`${web}/choose.js`);
const EcgLabelBook = require(`${web}/answers.js`);
const { data, answers: labels } = JSON.parse(readFileSync(input, "utf8"));
const book = EcgLabelBook.open(data);
const steps = labels.map(([group, label]) => {
  book.act({ do: "answer", group, label });
  const { entries, contested, covered, coveredBefore } = book.state();
  const { beat } = data.groups[group];
  const mine = entries.find((entry) => entry.beat === beat);
  return { source: mine.source, differs: mine.differs, contested: contested.some((entry) => entry.beat === beat), covered, coveredBefore };
});
process.stdout.write(JSON.stringify(steps));
