/** What Node alone can do: a bundle and recordings from the disk. */

import { readFile, readdir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { openBundle } from "./bundle.js";
import { BundleError } from "./errors.js";

/**
 * Open a bundle's folder or zip file.
 * @param {string} path
 * @param {{ort: any, verify?: boolean, sessionOptions?: object}} options as of `openBundle`
 */
export async function openBundleAt(path, options) {
  if (path.toLowerCase().endsWith(".zip")) return openBundle(await readFile(path), options);
  const names = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => {
    throw new BundleError(path, "is no folder", "a bundle", "make one with 'ecgfed export'");
  });
  const files = new Map();
  for (const one of names) {
    if (!one.isFile()) continue;
    const file = join(one.parentPath ?? one.path, one.name);
    files.set(relative(path, file).split(sep).join("/"), await readFile(file));
  }
  return openBundle(files, options);
}
