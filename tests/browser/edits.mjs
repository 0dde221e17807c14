// Applies edits to beats as the page of a report does, and prints the counts: node edits.mjs WEB GIVEN.json
// GIVEN is a list of {editing, edits, reviewed, clock_s, language}; the page's own scripts do the work.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [web, file] = process.argv.slice(2);
const load = createRequire(import.meta.url);
const [language, beats, edits, counts, words, tables, conclusion] = ["language.js", "beats.js", "edits.js", "counts.js", "words.js", "tables.js", "conclusion.js"].map((name) => load(join(web, name)));
const texts = (rows) => rows.map((row) => row.map(words.textOf));
const answers = JSON.parse(readFileSync(file, "utf8")).map((one) => {
  const base = edits.open(one.editing);
  words.startAt(one.clock_s ?? null);
  language.use(one.language ?? null);
  const given = edits.apply(base, one.edits, one.reviewed);
  const start = performance.now();
  const found = counts.count(beats.beatsOf(given), base.rules, edits.rhythmsOf(base, one.edits), base.withheld, base.patient_events);
  const ms = performance.now() - start;
  const page = { ...base, duration_s: base.samples / base.fs };
  const [ectopy, classes, hours] = [tables.ectopy(found, page, given), tables.classes(found, page, given), tables.hours(found, page, given)];
  const written = {
    short: texts(words.short(found, page)),
    rates: texts(words.rates(found, page)),
    variability: texts(words.variability(found, page, given)),
    rhythms: texts(words.rhythms(found, page)),
    ectopy: texts([ectopy.head, ...ectopy.rows]),
    classes: texts([classes.head, ...classes.rows]),
    hours: texts([hours.head, ...hours.rows]),
    events: texts(words.events(found)),
    sentences: [classes.absent, ...words.notListed(found)].filter(Boolean),
  };
  return { counts: found, written, draft: conclusion.draft(found, page), english_draft: language.inEnglish(() => conclusion.draft(found, page)), ms };
});
process.stdout.write(JSON.stringify(answers));
