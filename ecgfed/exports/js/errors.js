/** One-line errors about bad input, as in ecgfed/base/errors.py. */

const LINE_ENDS = /\r\n|[\t\n\r\u0085\u2028\u2029]/g;
/** Invisible and control characters, as in ecgfed/base/text.py. */
const HIDDEN = /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

/** Make text safe for display on one line; line ends become spaces. @param {string} text untrusted @param {number} maxLength */
export function safeText(text, maxLength = 100) {
  const plain = String(text).replace(LINE_ENDS, " ").replace(HIDDEN, "\ufffd");
  return plain.length > maxLength ? `${plain.slice(0, maxLength - 3)}...` : plain;
}

/** Bad input, described in one line of plain text. */
export class EcgfedError extends Error {
  /**
   * @param {string} where the file or value with the problem
   * @param {string} problem
   * @param {string} expected "" if `problem` is sufficient
   * @param {string} action what can be done, or ""
   */
  constructor(where, problem, expected = "", action = "") {
    const parts = [`${safeText(where, 200)}: ${safeText(problem, 400)}`];
    if (expected) parts.push(`expected ${safeText(expected, 400)}`);
    if (action) parts.push(action);
    super(parts.join("; ").split(/\s+/).join(" "));
    this.name = "EcgfedError";
  }
}

/** A recording that cannot be used. */
export class RecordError extends EcgfedError {}

/** A bundle that cannot be used. */
export class BundleError extends EcgfedError {}
