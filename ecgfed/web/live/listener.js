/** Connects a source of samples to the page, for one model, patient, lead and recording. */

import { chooseLead } from "../../exports/js/leads.js";
import { StreamClassifier } from "../../exports/js/stream.js";

/** Warning about drift, "" without. @param {import("../../exports/js/drift.js").Drift} drift */
function changed(drift) {
  return drift.text && `${drift.text} Since ${EcgPaper.clock(Math.min(...drift.on.values()), 0)}.`;
}

/**
 * Return the listener that classifies the samples of a source.
 * @param {import("./main.js").Page} page updated as long as the selection is unchanged
 * @param {any} recording the one played, or null for a device
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
  /** Show beats of the stream unless the selection has changed. @param {any[]} beats */
  const showBeats = (beats) => {
    if (stale()) return;
    page.showBeats(beats);
    page.warn(changed(stream.drift));
  };
  return {
    begin: async (source) => {
      if (stale()) return;
      page.forget();
      if (recording === null) page.closeRecording(); // draw the device's samples instead
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
