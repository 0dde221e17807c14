/** Dropped or chosen files of a bundle or recording. */

/** @typedef {{path: string, file: File}} Named */

const MAX_FILES = 20_000;

/**
 * Return all dropped files, including those in folders.
 * @param {DataTransfer} dropped
 * @returns {Promise<Named[]>}
 */
export async function droppedFiles(dropped) {
  const entries = [...dropped.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return [...dropped.files].map((file) => ({ path: file.name, file }));
  /** @type {Named[]} */
  const files = [];
  const walk = async (/** @type {any} */ entry) => {
    if (files.length > MAX_FILES) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, fail) => entry.file(resolve, fail));
      files.push({ path: entry.fullPath.replace(/^\//, ""), file });
    } else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((resolve, fail) => reader.readEntries(resolve, fail));
        if (!some.length) break;
        for (const child of some) await walk(child);
      }
    }
  };
  for (const entry of entries) if (entry) await walk(entry);
  return files;
}

/** Files of an input element. @param {HTMLInputElement} input @returns {Named[]} */
export function chosenFiles(input) {
  return [...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** Whether files are a bundle: they include a manifest, or are one zip file. @param {Named[]} files */
export function isBundle(files) {
  return files.some(({ path }) => /(?:^|\/)manifest\.json$/.test(path)) || (files.length === 1 && /\.zip$/i.test(files[0].path));
}

/** Files in the format of `openBundle`. @param {Named[]} files */
export function asBundle(files) {
  return files.length === 1 ? files[0].file : new Map(files.map(({ path, file }) => [path, file]));
}

/** Files in the format of `readRecording`. @param {Named[]} files */
export async function asNamed(files) {
  const read = files.map(async ({ path, file }) => ({ name: path.split("/").pop() ?? path, bytes: new Uint8Array(await file.arrayBuffer()) }));
  return Promise.all(read);
}

/** Decode base64, and decompress if `packed`. @param {string} text @param {boolean} packed */
export async function bytesOf(text, packed) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  if (!packed) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
