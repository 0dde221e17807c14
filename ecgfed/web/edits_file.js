"use strict";
/*
 * What a file of edits may hold: the rules of ecgfed/domain/labels/edits.py, which refuses the same files
 * (tests/web/test_edits_files_js.py).
 */
const EcgEditsFile = (() => {
  const { trLater } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const FORMAT = "ecgfed-edits";
  const VERSION = 1;
  const TEXTS = ["indication", "comments", "conclusion"];
  const FIELDS = ["format", "version", "recording", "beats", "author", "saved_at", "reviewed", ...TEXTS, "strips", "edits"];
  /** The draft that an accepted conclusion was; files saved before conclusions were drafted lack it. */
  const DRAFT = "conclusion_draft";
  const [MAX_NAME, MAX_TEXT, MAX_EDITS, MAX_SAMPLES] = [200, 10000, 100000, 5000000];
  const TIME = /^(?!0000)(\d{4})-(\d\d)-(\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d[+-](?:[01]\d|2[0-3]):[0-5]\d$/;
  const NO_BEAT = "|";
  /** Kind of an edit -> its members beside edit, at and samples. */
  const KINDS = { label: ["label"], accept: [], add: ["label"], interval: ["accepted"], rhythm: ["rhythm", "label"] };

  const has = (value, names) => value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));
  const shortened = (value, most) => value.length <= 2 * most && Array.from(value).length <= most;
  const isText = (value) => typeof value === "string" && shortened(value, MAX_TEXT) && !/\p{Cs}/u.test(value);
  /** Characters that are not seen, or change the order of others: those of ecgfed/base/text.py, but line feeds and tabs. */
  const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

  function escaped(character) {
    const code = character.codePointAt(0);
    const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
  }

  /** Return a text with its hidden characters as escapes, no longer than a file may hold. */
  function visible(text) {
    const shown = text.replace(/\r\n?/g, "\n").replace(HIDDEN, escaped);
    return shown === text ? text : Array.from(shown).slice(0, MAX_TEXT).join("");
  }

  /** Return whether a value is a name on one line, of characters that are printed. */
  const isName = (value) => typeof value === "string" && value.trim() !== "" && shortened(value, MAX_NAME) && !/[\p{C}\p{Z}]/u.test(value.replaceAll(" ", ""));
  const isSample = (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 53;

  function isTime(value) {
    const [, year, month, day] = (typeof value === "string" && TIME.exec(value)) || [];
    if (!year) return false;
    const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
    return date.getTime() === date.getTime() && date.getUTCDate() === Number(day);
  }

  /** Return why an edit is not complete, "" where it is; `symbols` and `rhythms` are those that a label may be. */
  function problemOf(edit, { symbols, rhythms }) {
    const kind = edit && typeof edit === "object" && typeof edit.edit === "string" && Object.hasOwn(KINDS, edit.edit) ? edit.edit : null;
    if (kind === null) return trLater("it has an unknown edit");
    if (!has(edit, ["edit", "at", "samples", ...KINDS[kind]]) || !isTime(edit.at)) return trLater("an edit is not complete");
    const { samples, label } = edit;
    if (!Array.isArray(samples) || !samples.length || !samples.every(isSample)) return trLater("an edit is not complete");
    if (kind === "label" && label !== NO_BEAT && !symbols.has(label)) return trLater("it has an unknown label");
    if (kind === "add" && (samples.length !== 1 || !symbols.has(label))) return trLater("an added beat is not complete");
    if ((kind === "interval" || kind === "rhythm") && !(samples.length === 2 && samples[0] < samples[1])) return trLater("an interval is not complete");
    if (kind === "interval" && typeof edit.accepted !== "boolean") return trLater("an interval is not complete");
    if (kind === "rhythm" && !isName(edit.rhythm)) return trLater("an edit is not complete");
    if (kind === "rhythm" && label !== "" && label !== edit.rhythm && !rhythms.has(label)) return trLater("it has an unknown rhythm");
    return "";
  }

  /** Return why a document is not a complete file of edits, "" where it is; a draft may lack the author's name. */
  function problemWith(document, known, { draft = false } = {}) {
    if (!document || document.format !== FORMAT || document.version !== VERSION) return trLater("it is not a file of edits of this version");
    const { author, reviewed, strips, edits } = document;
    const review = reviewed === null || (has(reviewed, ["by", "at"]) && isName(reviewed.by) && isTime(reviewed.at));
    const named = isName(author) || (draft && author === "");
    const fields = Object.hasOwn(document, DRAFT) ? [...FIELDS, DRAFT] : FIELDS;
    if (!isText(document[DRAFT] ?? "") || (fields.length > FIELDS.length && document[DRAFT] === null)) return trLater("it is not complete");
    if (!has(document, fields) || !named || !isTime(document.saved_at) || !review || !TEXTS.every((name) => isText(document[name]))) return trLater("it is not complete");
    if (![strips, edits].every((list) => Array.isArray(list) && list.length <= MAX_EDITS)) return trLater("it is not complete");
    if (!strips.every((strip) => has(strip, ["sample", "comment"]) && isSample(strip.sample) && isText(strip.comment))) return trLater("it is not complete");
    const problem = edits.map((edit) => problemOf(edit, known)).find(Boolean) || "";
    return problem || (edits.reduce((sum, { samples }) => sum + samples.length, 0) > MAX_SAMPLES ? trLater("it has too many samples") : "");
  }

  /** Return whether a page may save these edits: fewer samples than a reader takes, which on lines of their own are 64 MiB. */
  const hasRoom = (edits) => edits.length <= MAX_EDITS && edits.reduce((sum, { samples }) => sum + samples.length, 0) <= 0.8 * MAX_SAMPLES;

  return { FORMAT, VERSION, NO_BEAT, TEXTS, isName, isText, hasRoom, problemWith, visible };
})();
if (typeof module !== "undefined") module.exports = EcgEditsFile;
