/** Bundles and recordings from disk, for Node. */

import { readFile, readdir } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { checkRuntime, openBundle } from "./bundle.js";
import { BundleError, RecordError } from "./errors.js";
import { readRecording } from "./recordings.js";
import { readHeader, textOf } from "./wfdb.js";

/**
 * Open a bundle's folder or zip file.
 * @param {string} path
 * @param {import("./bundle.js").Options} [options] as of `openBundle`
 */
export async function openBundleAt(path, options) {
  checkRuntime(options?.ort);
  if (path.toLowerCase().endsWith(".zip")) return openBundle(await readFile(path), options);
  const names = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => {
    throw new BundleError(path, "is no folder", "a bundle", "make one with 'ecgfed export'");
  });
  const files = new Map();
  for (const item of names) {
    if (!item.isFile()) continue;
    const file = join(item.parentPath ?? item.path, item.name);
    files.set(relative(path, file).split(sep).join("/"), await readFile(file));
  }
  return openBundle(files, options);
}

/** @param {string} path */
async function named(path) {
  const bytes = await readFile(path).catch(() => {
    throw new RecordError(path, "does not exist, or cannot be read", "a recording", "check the path");
  });
  return { name: basename(path), bytes: new Uint8Array(bytes) };
}

/**
 * Read a recording from the disk: a WFDB record with or without its ending, an EDF file, or a text table.
 * @param {string} path
 * @param {{fsHz?: number, units?: string, columns?: string[]}} [how] sampling frequency, units and columns of a text table
 */
export async function readRecordingAt(path, how = {}) {
  if (/\.(?:edf|csv|tsv|txt)$/i.test(path)) return readRecording([await named(path)], how);
  const header = await named(`${path.replace(/\.(?:hea|dat)$/, "")}.hea`);
  const names = new Set(readHeader(header.name, textOf(header.bytes)).signals.map((signal) => signal.file));
  const files = [];
  for (const name of names) files.push(await named(join(dirname(path), name)));
  return readRecording([header, ...files], how);
}
