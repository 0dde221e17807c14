/** Connects a source of samples to the page, for one model, patient, lead and recording. */

import { EcgfedError } from "../../exports/js/errors.js";
import { chooseLead } from "../../exports/js/leads.js";
import { StreamClassifier } from "../../exports/js/stream.js";

/** Warning about drift, "" without. @param {import("../../exports/js/drift.js").Drift} drift */
function changed(drift) {
  return drift.text && `${drift.text} Since ${EcgPaper.clock(Math.min(...drift.on.values()), 0)}.`;
}

/** Note about a lead that the model was not trained on. @param {readonly string[]} leads those it was trained on */
export function otherLead(leads) {
  return `The model was trained on ${leads.join(" or ")}, which is not here: what it says of another lead is worth less.`;
}

/** Index of a device's lead, and a note about it: the bundle's lead, or the device's only one. @param {string[]} present @param {readonly string[]} leads */
function leadOfDevice(present, leads) {
  try {
    return { lead: chooseLead(present, "stream", leads), note: "" };
  } catch (problem) {
    if (present.length > 1 || !(problem instanceof EcgfedError)) throw problem;
    return { lead: 0, note: ` ${otherLead(leads)}` };
  }
}

/**
 * Return the listener that classifies the samples of a source.
 * @param {import("./main.js").Page} page updated as long as the selection is unchanged
 * @param {any} recording the one played, or null for a device
 * @param {() => void} ended
 * @returns {import("./sources.js").Listener}
 */
export function listenerOf(page, recording, ended) {
  const { turn } = page;
  const stale = () => turn !== page.turn;
  const chosen = page.lead;
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
      const ofDevice = recording === null ? leadOfDevice(source.leads, page.bundle.leads) : null;
      lead = ofDevice?.lead ?? chosen;
      const classifier = await page.classifier();
      if (stale()) return classifier.release();
      page.forget();
      if (ofDevice) page.closeRecording(); // draw the device's samples instead
      stream = new StreamClassifier(classifier, { fsHz: source.fsHz, leads: source.leads.length, lead, early: "decided" });
      page.follow(recording?.name ?? "stream", source.fsHz, source.leads[lead]);
      page.showStatus(`Listening: ${source.leads.join(", ")}, ${source.fsHz} Hz.${ofDevice?.note ?? ""}`);
    },
    samples: async (chunk, atSample) => {
      if (stale()) return;
      page.live.gap((atSample ?? stream.sampleCount) - stream.sampleCount);
      page.live.add(chunk[lead]);
      showBeats(await stream.push(chunk, { atSample }));
    },
    end: async (problem) => {
      ended();
      const last = stream ? await stream.finish().catch((/** @type {unknown} */ failed) => ((problem ??= failed), [])) : [];
      await stream?.classifier.release();
      if (stale()) return;
      page.stop = null;
      await page.attempt(async () => {
        if (stream) showBeats(last);
        if (stale()) return;
        page.live.on = false;
        if (problem) throw problem;
        page.showStatus(`Ended: ${EcgPaper.countOf(page.beats.all.length, "beat")}.`);
      });
    },
  };
}
