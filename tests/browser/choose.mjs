// Answers the questions of a labelling page by its own scripts, without a browser, and prints what was asked as JSON.
// node choose.mjs WEB-FOLDER INPUT.json, where the input holds {data, truth: {beat: label}, questions, passed, within}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [web, input] = process.argv.slice(2);
globalThis.EcgChoose = require(`${web}/choose.js`);
const { data, truth, questions, passed, within } = JSON.parse(readFileSync(input, "utf8"));
const trees = EcgChoose.tree(data);
const results = { asked: [], within: [], beats: [], origin: [], covered: [], expected: [], contested: [] };
const labels = new Map();
for (let i = 0; i < questions; i += 1) {
  results.within.push(EcgChoose.next(trees, labels, { within: within[i] }));
  const group = EcgChoose.next(trees, labels, { passed: new Set(passed[i]) });
  results.asked.push(group);
  if (group === null) break;
  labels.set(data.groups[group].beat, truth[data.groups[group].beat]);
  const spread = EcgChoose.spread(trees, labels);
  results.beats.push(Object.fromEntries(spread.beats));
  results.origin.push(Object.fromEntries(spread.origin));
  results.covered.push(spread.covered);
  results.expected.push(EcgChoose.expectedErrors(trees, labels));
  results.contested.push(EcgChoose.contested(trees, labels, spread.beats, new Set(passed[i])));
}
process.stdout.write(JSON.stringify(results));
