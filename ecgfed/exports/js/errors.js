/** One line for whatever a file or a caller did wrong, as ecgfed/base/errors.py says it. */

const LINE_ENDS = /\r\n|[\t\n\r\u0085\u2028\u2029]/g;
/** What a reader cannot see, or a terminal acts on: the same as in ecgfed/base/text.py. */
const HIDDEN = /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

/** Text that can be shown, on one line: line ends become spaces. @param {string} text a stranger's text @param {number} most */
export function shown(text, most = 100) {
  const plain = String(text).replace(LINE_ENDS, " ").replace(HIDDEN, "\ufffd");
  return plain.length > most ? `${plain.slice(0, most - 3)}...` : plain;
}

/** Bad input, described in one line of plain text. */
export class EcgfedError extends Error {
  /**
   * @param {string} where the file or value that is at fault
   * @param {string} found
   * @param {string} expected "" where `found` says it all
   * @param {string} action what can be done, or ""
   */
  constructor(where, found, expected = "", action = "") {
    const said = [`${shown(where, 200)}: ${shown(found, 400)}`];
    if (expected) said.push(`expected ${shown(expected, 400)}`);
    if (action) said.push(action);
    super(said.join("; ").split(/\s+/).join(" "));
    this.name = "EcgfedError";
  }
}

/** A recording that cannot be used. */
export class RecordError extends EcgfedError {}

/** A bundle that cannot be used. */
export class BundleError extends EcgfedError {}
