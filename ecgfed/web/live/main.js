/** The live page: opens a bundle and a recording or stream, and draws every beat with its prediction. */

import { EcgfedError } from "../../exports/js/errors.js";
import { chooseLead } from "../../exports/js/leads.js";
import { openBundle } from "../../exports/js/bundle.js";
import { readRecording } from "../../exports/js/recordings.js";
import { Beats } from "./beats.js";
import { asBundle, asNamed, bytesOf, chosenFiles, droppedFiles, isBundle } from "./files.js";
import { Heard } from "./heard.js";
import { listenerOf, otherLead } from "./listener.js";
import { fromBluetooth, fromSerial, hasBluetooth, hasSerial, play } from "./sources.js";
import { Sheet, usualOf } from "./strip.js";

/** @typedef {import("./files.js").Named} Named */
/** @typedef {{wasm: string | null, bundle: Record<string, string> | null, bundle_name: string}} PageData */

const MOVE_S = 5;

/** @param {import("../../exports/js/index.d.ts").Signature | null} signature */
function signedBy(signature) {
  if (signature === null) return "";
  return signature.verified ? `, signed by ${signature.key}` : `, says it is signed by ${signature.key}, which this browser cannot check`;
}

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id);

/** The page: open files, selection, activity and results. */
export class Page {
  /** @param {any} ort @param {PageData} data */
  constructor(ort, data) {
    this.ort = ort;
    this.data = data;
    this.sheet = new Sheet(element("strip"));
    /** @type {any} */
    this.bundle = null;
    this.bundleName = "";
    /** @type {any} */
    this.recording = null;
    this.beats = new Beats();
    this.usual = "";
    this.at = 0; // first sample of the sheet
    this.live = new Heard();
    /** Recording and model of the beats. @type {import("./beats.js").Source} */
    this.origin = { fsHz: 0, name: "", model: "", patient: "", lead: "" };
    /** Stops the active source. @type {(() => void) | null} */
    this.stop = null;
    this.turn = 0; // number of the selection: work begun in an earlier turn is discarded
    this.opening = 0; // number of the last bundle requested
    this.working = -1; // turn of the work in progress
  }

  /** Whether work that produces beats is in progress. */
  get busy() {
    return this.working === this.turn || this.stop !== null;
  }

  /** Index of the lead in use in the open recording. */
  get lead() {
    return Number(element("lead").value);
  }

  /** Show a status or an error. @param {string} text @param {boolean} wrong */
  showStatus(text, wrong = false) {
    element("said").textContent = wrong ? "" : text;
    element("problem").textContent = wrong ? text : "";
  }

  /** Show an error in one line. @param {unknown} problem */
  fail(problem) {
    if (/** @type {any} */ (problem)?.name === "NotFoundError") return; // nothing was chosen
    this.showStatus(problem instanceof EcgfedError ? problem.message : `This page failed: ${problem instanceof Error ? problem.message : problem}`, true);
    if (!(problem instanceof EcgfedError)) console.error(problem);
  }

  /**
   * Run work and show its error, unless it is outdated.
   * @param {() => Promise<void>} work
   * @param {() => boolean} [isCurrent] whether the work is still current
   */
  async attempt(work, isCurrent) {
    const { turn } = this;
    this.working = turn;
    this.enable();
    try {
      await work();
    } catch (problem) {
      if (isCurrent ? isCurrent() : turn === this.turn) this.fail(problem);
    }
    if (this.working === turn) this.working = -1;
    this.enable();
  }

  enable() {
    const ready = this.bundle !== null && this.recording !== null && !this.busy;
    element("classify").disabled = !ready;
    element("play").disabled = !ready;
    element("stop").disabled = this.stop === null;
    element("serial").disabled = element("bluetooth").disabled = this.bundle === null || this.busy;
    const hasBeats = this.beats.all.length > 0;
    for (const id of ["save", "next"]) element(id).disabled = !hasBeats;
    for (const id of ["back", "forward"]) element(id).disabled = this.recording === null || this.live.on;
  }

  /** Discard beats and stop the source after a change of model, patient, lead or recording. */
  drop() {
    const { stop } = this;
    this.turn += 1;
    this.stop = null;
    stop?.();
    this.forget();
    element("result").hidden = this.recording === null;
    this.show();
    this.enable();
  }

  /** Another patient or lead was chosen. */
  choose() {
    this.drop();
    if (this.recording) this.showStatus('Choose "Classify" or "Play".');
  }

  /** @param {Named[]} files */
  async take(files) {
    if (!files.length) return;
    this.drop();
    if (isBundle(files)) await this.attemptBundle(() => asBundle(files), files[0].path.split("/")[0]);
    else await this.attempt(() => this.openRecording(files));
  }

  /** Open a bundle, unless another bundle is requested meanwhile. @param {() => any} source @param {string} name */
  async attemptBundle(source, name) {
    this.opening += 1;
    const { opening } = this;
    const isCurrent = () => opening === this.opening;
    await this.attempt(() => this.openBundle(source, name, isCurrent), isCurrent);
  }

  /** @param {() => any} source @param {string} name @param {() => boolean} isCurrent */
  async openBundle(source, name, isCurrent) {
    this.showStatus(`Opening ${name} \u2026`);
    const bundle = await openBundle(await source(), { ort: this.ort });
    if (!isCurrent()) return;
    this.bundle = bundle;
    this.bundleName = name;
    this.drop(); // work begun with the previous bundle
    const { classes, patients, leads } = bundle;
    element("model-said").textContent = `${name}: ${classes.length} classes (${classes.join(", ")}), lead ${leads.join(" or ")}${signedBy(bundle.signature)}`;
    const choice = element("patient");
    choice.replaceChildren(new Option("global model", ""), ...patients.map((/** @type {string} */ patient) => new Option(patient, patient)));
    choice.disabled = patients.length === 0;
    this.chooseLead();
    this.showStatus(`${name} is open: every file is as its manifest says.`);
  }

  /** Open a recording; if it is refused, the previous one is closed too. @param {Named[]} files */
  async openRecording(files) {
    const { turn } = this;
    this.closeRecording();
    this.showStatus("Reading \u2026");
    const [fs, units] = [element("fs").value.trim(), element("units").value.trim()];
    const how = { ...(fs ? { fsHz: Number(fs) } : {}), ...(units ? { units } : {}) };
    const named = await asNamed(files);
    if (turn !== this.turn) return;
    this.recording = readRecording(named, how);
    const { name, leads, fsHz, signalsMv } = this.recording;
    element("lead").replaceChildren(...leads.map((/** @type {string} */ lead, /** @type {number} */ i) => new Option(lead, String(i))));
    element("lead").disabled = leads.length < 2;
    this.chooseLead();
    this.at = 0;
    element("result").hidden = false;
    this.show();
    const seconds = signalsMv[0].length / fsHz;
    this.showStatus(`${name}: ${leads.join(", ")}, ${fsHz} Hz, ${EcgPaper.clock(seconds, 0)}. Choose "Classify" or "Play".`);
  }

  closeRecording() {
    this.recording = null;
    element("lead").replaceChildren(new Option("none"));
    element("lead").disabled = true;
    element("lead-said").textContent = "";
    element("result").hidden = true;
  }

  /** Select the bundle's lead if the recording has it. */
  chooseLead() {
    if (!this.recording || !this.bundle) return;
    try {
      element("lead").value = String(chooseLead(this.recording.leads, this.recording.name, this.bundle.leads));
    } catch (problem) {
      if (!(problem instanceof EcgfedError)) throw problem;
      element("lead-said").textContent = otherLead(this.bundle.leads);
      return;
    }
    element("lead-said").textContent = "";
  }

  forget() {
    this.beats = new Beats();
    this.usual = "";
    this.live = new Heard();
    this.warn("");
    this.count();
  }

  /** Show a warning about drift, once per change. @param {string} text */
  warn(text) {
    const host = element("drift");
    if (host.textContent !== text) host.textContent = text;
  }

  classifier() {
    return this.bundle.classifier(element("patient").value || null);
  }

  /** Recording and model for the saved table. @param {string} name @param {number} fsHz @param {string} lead */
  source(name, fsHz, lead) {
    const model = this.bundle.manifest.digest ?? this.bundleName;
    return { name, fsHz, lead, model, patient: element("patient").value || "global model" };
  }

  async classify() {
    const { turn, recording, lead } = this;
    this.forget();
    this.origin = this.source(recording.name, recording.fsHz, recording.leads[lead]);
    this.show();
    this.showStatus("Finding and classifying every beat \u2026");
    await new Promise((resolve) => setTimeout(resolve, 30)); // so that it is drawn
    const classifier = await this.classifier();
    const beats = await classifier.classify(recording, { lead }).finally(() => classifier.release());
    if (turn !== this.turn) return;
    this.beats.add(beats.map((/** @type {any} */ beat) => ({ ...beat, stage: "final" })));
    this.usual = usualOf(this.beats.all);
    this.count();
    this.show();
    this.showStatus(`${EcgPaper.countOf(beats.length, "beat")}.`);
    element("strip").focus();
  }

  /** Draw the samples of a stream from now on. @param {string} name @param {number} fsHz @param {string} lead */
  follow(name, fsHz, lead) {
    this.origin = this.source(name, fsHz, lead);
    this.live = new Heard(fsHz, lead);
    element("result").hidden = false;
  }

  /** @param {any[]} beats */
  showBeats(beats) {
    this.beats.add(beats);
    if (beats.length) {
      this.usual = usualOf(this.beats.all);
      this.count();
    }
    this.show();
  }

  /** Draw the open recording, or the last seconds of a stream. */
  show() {
    const { live, recording } = this;
    const fsHz = live.on || !recording ? live.fsHz : recording.fsHz;
    if (!fsHz) return;
    const wide = Math.round(this.sheet.seconds * fsHz);
    const common = { fsHz, beats: this.beats.all, usual: this.usual };
    if (live.on || !recording) {
      const from = Math.max(live.samples.length - wide, 0);
      this.sheet.draw({ ...common, samples: live.samples.subarray(from), first: live.first + from, lead: live.lead });
    } else {
      const row = recording.signalsMv[this.lead];
      this.at = Math.min(Math.max(this.at, 0), Math.max(row.length - wide, 0));
      this.sheet.draw({ ...common, samples: row.subarray(this.at, this.at + wide), first: this.at, lead: recording.leads[this.lead] });
    }
    const end = live.on ? live.first + live.samples.length : this.at + wide;
    const rate = this.beats.rate(end, fsHz);
    element("rate").textContent = rate === null ? "" : `${rate} beats a minute`;
  }

  /** Write the table of counts. */
  count() {
    const rows = this.beats.counts().map(({ name, count, uncertain }) => {
      const row = document.createElement("tr");
      for (const text of [name, count, uncertain]) row.appendChild(document.createElement("td")).textContent = String(text);
      return row;
    });
    element("counts").replaceChildren(...rows);
  }

  /** Move the sheet. @param {number} seconds */
  move(seconds) {
    if (!this.recording || this.live.on) return;
    this.at += Math.round(seconds * this.recording.fsHz);
    this.show();
  }

  /** Go to the next beat of an unusual class or of low confidence. */
  next() {
    if (!this.recording || this.live.on) return;
    const { fsHz } = this.recording;
    const middle = this.at + (this.sheet.seconds * fsHz) / 2 + 1;
    const match = this.beats.all.find((beat) => beat.sample > middle && (beat.class !== this.usual || beat.lowConfidence));
    if (!match) {
      this.showStatus("No unusual beat after this.");
      return;
    }
    this.at = Math.round(match.sample - (this.sheet.seconds * fsHz) / 2);
    this.show();
    this.showStatus(`${match.class || "unclassified"}${match.lowConfidence ? ", uncertain" : ""} at ${EcgPaper.clock(match.sample / fsHz, 1)}${match.class ? `, probability ${match.probability.toFixed(2)}` : ""}.`);
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.beats.csv(this.origin)], { type: "text/csv" }));
    link.download = `${this.origin.name.replace(/[^A-Za-z0-9_.-]/g, "_")}-beats.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** Start a source unless other work is in progress. @param {any} recording @param {(listener: import("./sources.js").Listener) => Promise<() => void> | (() => void)} source */
  async listen(recording, source) {
    if (this.busy) return;
    const { turn } = this;
    let over = false; // a short source may end before it has started
    await this.attempt(async () => {
      const stop = await source(listenerOf(this, recording, () => (over = true)));
      if (turn !== this.turn) stop();
      else if (!over) this.stop = stop;
    });
  }

  wire() {
    const on = (/** @type {string} */ id, /** @type {string} */ event, /** @type {() => any} */ work) => element(id).addEventListener(event, work);
    on("classify", "click", () => this.busy || this.attempt(() => this.classify()));
    const speed = () => Number(element("speed").value);
    on("play", "click", () => {
      const { recording } = this;
      this.listen(recording, (listener) => play(recording, speed, listener));
    });
    on("serial", "click", () => this.listen(null, fromSerial));
    on("bluetooth", "click", () => this.listen(null, fromBluetooth));
    on("stop", "click", () => this.stop?.());
    on("back", "click", () => this.move(-MOVE_S));
    on("forward", "click", () => this.move(MOVE_S));
    on("next", "click", () => this.next());
    on("save", "click", () => this.save());
    for (const id of ["lead", "patient"]) on(id, "change", () => this.choose());
    for (const id of ["bundle-files", "bundle-folder", "recording-files"]) {
      on(id, "change", () => this.take(chosenFiles(element(id))));
    }
    window.addEventListener("resize", () => this.show());
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      const dropped = event.dataTransfer;
      if (dropped) droppedFiles(dropped).then((files) => this.take(files)).catch((problem) => this.fail(problem));
    });
    document.addEventListener("keydown", (event) => this.key(event));
    element("serial").hidden = !hasSerial();
    element("bluetooth").hidden = !hasBluetooth();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.altKey || event.metaKey || /^(?:INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const { seconds } = this.sheet;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.move(-MOVE_S), ArrowRight: () => this.move(MOVE_S), PageUp: () => this.move(-seconds), PageDown: () => this.move(seconds),
      Home: () => this.move(-1e9), End: () => this.move(1e9), n: () => this.next(),
    };
    if (!keys[event.key] || element("result").hidden) return;
    event.preventDefault();
    keys[event.key]();
  }

  async begin() {
    this.wire();
    this.enable();
    const { wasm, bundle, bundle_name: name } = this.data;
    this.showStatus("Starting \u2026");
    await this.attempt(async () => {
      if (wasm !== null) this.ort.env.wasm.wasmBinary = await bytesOf(wasm, true);
      this.ort.env.wasm.numThreads = 1;
    });
    if (bundle === null) this.showStatus("Open a bundle.");
    else {
      await this.attemptBundle(async () => {
        const files = new Map();
        for (const [path, text] of Object.entries(bundle)) files.set(path, await bytesOf(text, false));
        return files;
      }, name);
      if (this.bundle !== null && this.recording === null && !this.busy) this.showStatus("Drop a recording on this page.");
    }
    document.documentElement.dataset.ready = "yes";
  }
}

/** Start the page. @param {any} ort ONNX Runtime @param {PageData} data */
export function start(ort, data) {
  return new Page(ort, data).begin();
}
