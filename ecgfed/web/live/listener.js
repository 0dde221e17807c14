/** What a source of samples tells the page: begun with one model, patient, lead and recording, it writes of these only. */

import { chooseLead } from "../../exports/js/leads.js";
import { StreamClassifier } from "../../exports/js/stream.js";

/** What stands on the page where a patient's beats have changed, "" where they have not. @param {import("../../exports/js/drift.js").Drift} drift */
function changed(drift) {
  return drift.text && `${drift.text} Since ${EcgPaper.clock(Math.min(...drift.on.values()), 0)}.`;
}

/**
 * What a source tells, for a classifier.
 * @param {import("./main.js").Page} page what is told, as long as nothing else is chosen
 * @param {any} recording the one that is played, or null of a device
 * @param {() => void} ended
 * @returns {Promise<import("./sources.js").Listener>}
 */
export async function listenerOf(page, recording, ended) {
  const { turn } = page;
  const stale = () => turn !== page.turn;
  const chosen = page.lead;
  const classifier = await page.classifier();
  /** @type {any} */
  let stream = null;
  let lead = 0;
  /** Take what the stream says, where somebody still waits for it. @param {any[]} beats */
  const showBeats = (beats) => {
    if (stale()) return;
    page.showBeats(beats);
    page.warn(changed(stream.drift));
  };
  return {
    begin: async (source) => {
      if (stale()) return;
      page.forget();
      if (recording === null) page.closeRecording(); // what is drawn is the device's
      lead = recording === null ? chooseLead(source.leads, "stream", page.bundle.leads) : chosen;
      stream = new StreamClassifier(classifier, { fsHz: source.fsHz, leads: source.leads.length, lead, early: true });
      page.follow(recording?.name ?? "stream", source.fsHz, source.leads[lead]);
      page.showStatus(`Listening: ${source.leads.join(", ")}, ${source.fsHz} Hz.`);
    },
    samples: async (chunk) => {
      if (stale()) return;
      page.live.add(chunk[lead]);
      showBeats(await stream.push(chunk));
    },
    end: async (problem) => {
      ended();
      if (stale()) return;
      page.stop = null;
      await page.attempt(async () => {
        if (stream) showBeats(await stream.finish());
        if (stale()) return;
        page.live.on = false;
        if (problem) throw problem;
        page.showStatus(`Ended: ${EcgPaper.countOf(page.beats.all.length, "beat")}.`);
      });
    },
  };
}
