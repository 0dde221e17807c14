// Gives some beats of a labelling page several answers, and prints what becomes of them as JSON.
// node confirm.mjs WEB-FOLDER INPUT.json, where the input holds {data, answers: [[group, label], ...]}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [web, input] = process.argv.slice(2);
globalThis.EcgChoose = require(`${web}/choose.js`);
const EcgAnswers = require(`${web}/answers.js`);
const { data, answers } = JSON.parse(readFileSync(input, "utf8"));
const book = EcgAnswers.open(data);
const steps = answers.map(([group, label]) => {
  book.act({ do: "answer", group, label });
  const { answered, contested } = book.state();
  const { beat } = data.groups[group];
  const mine = answered.find((one) => one.beat === beat);
  return { source: mine.source, differs: mine.differs, contested: contested.some((one) => one.beat === beat) };
});
process.stdout.write(JSON.stringify(steps));
