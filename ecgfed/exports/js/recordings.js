/** Read recordings from named or dropped files: WFDB, EDF, or a text table. */

import { readCsv } from "./csv.js";
import { readEdf } from "./edf.js";
import { RecordError } from "./errors.js";
import { readWfdb } from "./wfdb.js";

/** @typedef {import("./index.d.ts").NamedFile} NamedFile */

/** Extension of a name in lower case. @param {string} name */
const endingOf = (name) => (/\.([^./]*)$/.exec(name)?.[1] ?? "").toLowerCase();
const KINDS = "a WFDB record (.hea with its .dat), an EDF file (.edf) or a table (.csv, .tsv, .txt)";

/**
 * Read a recording.
 * @param {NamedFile[]} files header and signal files of one WFDB record together, or one file of another kind
 * @param {{fsHz?: number, units?: string, columns?: string[]}} how what a table leaves open
 */
export function readRecording(files, how = {}) {
  const headers = files.filter((file) => endingOf(file.name) === "hea");
  if (headers.length > 1) throw new RecordError(headers[1].name, "is a second record", "one recording at a time", "drop one record's files");
  if (headers.length === 1) return readWfdb(headers[0], files);
  const readable = files.filter((file) => ["edf", "csv", "tsv", "txt"].includes(endingOf(file.name)));
  const first = files[0]?.name ?? "recording";
  if (!readable.length) {
    const lonely = files.some((file) => endingOf(file.name) === "dat");
    throw new RecordError(first, lonely ? "came without its header" : "is of no format that is read here", KINDS, lonely ? "drop the .hea and the .dat together" : "");
  }
  if (readable.length > 1) throw new RecordError(readable[1].name, "is a second recording", "one at a time");
  return endingOf(readable[0].name) === "edf" ? readEdf(readable[0], how) : readCsv(readable[0], how);
}
