// A page's download, read when the browser says that it is whole: on a busy machine its file is there, and empty, before.

import { mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";

const WAIT_MS = 60_000;

/** Let the page download into a folder that is emptied; return the file's name and text, or null where none came. */
export async function downloaded(page, into, how) {
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  const session = await page.createCDPSession();
  let timer;
  const ended = new Promise((resolve) => {
    timer = setTimeout(() => resolve("late"), WAIT_MS);
    session.on("Browser.downloadProgress", ({ state }) => state !== "inProgress" && resolve(state));
  });
  const behavior = { behavior: "allow", downloadPath: into, eventsEnabled: true, browserContextId: page.browserContext().id };
  await session.send("Browser.setDownloadBehavior", behavior);
  await how();
  const state = await ended;
  clearTimeout(timer);
  await session.detach();
  const [name] = readdirSync(into);
  return state === "completed" && name ? { name, text: readFileSync(`${into}/${name}`, "utf8") } : null;
}
