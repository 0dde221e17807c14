"use strict";
/*
 * The page's language: its sentences by their English text, and numbers as the language writes them (base/language.py,
 * which reads the same catalogue). Placeholders are Python's: {n}, {rate:.0f}, {share:.0%}, {count:,}, {limit:g}.
 */
const EcgLanguage = (() => {
  const ENGLISH = { language: "en", decimal: ".", group: ",", grouped_from: 1000, percent: "%", date: "%Y-%m-%d", forms: null, messages: {} };
  let current = ENGLISH;

  /** Use the data of another language (script_data in base/language.py); English without any. */
  const use = (data) => (current = data || ENGLISH);

  /** Round to a number of digits behind the point as Python does, halves to the even digit, in English. */
  function rounded(value, digits = 0) {
    const text = Math.abs(value).toFixed(digits);
    const exact = Math.abs(value).toFixed(Math.min(100, digits + 50));
    const tail = exact.slice(exact.indexOf(".") + 1 + digits);
    const odd = Number(text[text.length - 1]) % 2 === 1;
    const even = /^50*$/.test(tail) && odd ? (Number(text) - 10 ** -digits).toFixed(digits) : text;
    return value < 0 && Number(even) !== 0 ? `-${even}` : even;
  }

  const general = (value) => String(Number(value.toPrecision(6)));
  const grouped = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

  /** Return a number in English with the separators of the current language. */
  function localized(text, value) {
    const plain = Math.abs(value) < current.grouped_from ? text.replace(/,/g, "") : text;
    return plain.replace(/[,.%]/g, (sign) => ({ ",": current.group, ".": current.decimal, "%": current.percent })[sign]);
  }

  const fixed = (value, digits = 0) => localized(rounded(value, digits), value);
  const comma = (count) => localized(grouped(String(count)), count);

  /** Format a number by a format specification of Python: "", ",", ".2f", ",.1f", ".0%", "g". */
  function number(value, spec = "") {
    const digits = Number((/\.(\d+)/.exec(spec) || [0, 0])[1]);
    if (spec.endsWith("g")) return localized(general(value), value);
    if (spec.endsWith("%")) return localized(`${rounded(100 * value, digits)}%`, value);
    if (spec.endsWith("f")) return localized(spec.startsWith(",") ? grouped(rounded(value, digits)) : rounded(value, digits), value);
    return Number.isInteger(value) ? comma(value) : localized(String(value), value);
  }

  /** Return the sentence of the current language, its placeholders not filled. */
  function lookedUp(text, plural, n) {
    const forms = Object.hasOwn(current.messages, text) ? current.messages[text] : null;
    if (n === undefined) return forms ? forms[0] : text;
    if (!forms) return n === 1 ? text : plural;
    return forms[Math.min(current.forms[n < 200 ? n : 100 + (n % 100)], forms.length - 1)];
  }

  /** Return the pieces of a sentence; values that are neither text nor number, and lists of pieces, stay as they are. */
  function pieces(sentence, values) {
    return sentence.split(/(\{\w+(?::[^}]*)?\})/).flatMap((piece) => {
      const field = /^\{(\w+)(?::([^}]*))?\}$/.exec(piece);
      if (!field) return piece === "" ? [] : [piece];
      const value = values[field[1]];
      return typeof value === "number" ? [number(value, field[2])] : [value].flat();
    });
  }

  /** Return what a function returns while the language is English, as other programs get it. */
  function inEnglish(made) {
    const page = current;
    current = ENGLISH;
    try {
      return made();
    } finally {
      current = page;
    }
  }

  const tr = (text, values = {}) => pieces(lookedUp(text), values).join("");
  const trn = (singular, plural, n, values = {}) => pieces(lookedUp(singular, plural, n), { n, ...values }).join("");
  /** The same as a list of pieces, of which some may be places in the recording. */
  const trParts = (text, values = {}) => pieces(lookedUp(text), values);
  const trnParts = (singular, plural, n, values = {}) => pieces(lookedUp(singular, plural, n), { n, ...values });
  /** Mark a text for the catalogue that tr(...) looks up elsewhere. */
  const trLater = (text) => text;
  const percent = (text) => `${text}${current.percent}`;
  const decimal = () => current.decimal;
  /** Return a date in ISO format as the language writes it. */
  const date = (day) => current.date.replace("%Y", day.slice(0, 4)).replace("%m", day.slice(5, 7)).replace("%d", day.slice(8, 10));
  const language = () => current.language;

  const element = typeof document === "undefined" ? null : document.getElementById("page-language");
  if (element) use(JSON.parse(element.textContent));
  return { use, inEnglish, tr, trn, trParts, trnParts, trLater, fixed, comma, general: (value) => number(value, "g"), percent, decimal, date, language };
})();
if (typeof module !== "undefined") module.exports = EcgLanguage;
