/** A page that opens a bundle and a recording, or a stream, and draws what is said of every beat. */

import { StreamClassifier } from "../runtime/stream.js";
import { EcgfedError } from "../runtime/errors.js";
import { chooseLead } from "../runtime/leads.js";
import { openBundle } from "../runtime/bundle.js";
import { readRecording } from "../runtime/recordings.js";
import { Beats } from "./beats.js";
import { asBundle, asNamed, bytesOf, chosenFiles, droppedFiles, isBundle } from "./files.js";
import { fromBluetooth, fromSerial, hasBluetooth, hasSerial, play } from "./sources.js";
import { Sheet, usualOf } from "./strip.js";

/** @typedef {import("./files.js").Named} Named */
/** @typedef {{wasm: string | null, bundle: Record<string, string> | null, bundle_name: string}} PageData */

const MOVE_S = 5;
const KEPT_S = 60;

/** @param {import("../runtime/index.d.ts").Signature | null} signature */
function signedBy(signature) {
  if (signature === null) return "";
  return signature.verified ? `, signed by ${signature.key}` : `, says it is signed by ${signature.key}, which this browser cannot check`;
}

/** What stands on the page where a patient's beats have changed, "" where they have not. @param {import("../runtime/index.d.ts").Drift} drift */
function changed(drift) {
  const began = drift.reasons.map((reason) => drift.events.findLast((one) => one.reason === reason && one.began)?.timeS ?? 0);
  return began.length ? `${drift.text} Since ${EcgPaper.clock(Math.min(...began), 0)}.` : "";
}

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id);

class Page {
  /** @param {any} ort @param {PageData} data */
  constructor(ort, data) {
    this.ort = ort;
    this.data = data;
    this.sheet = new Sheet(element("strip"));
    /** @type {any} */
    this.bundle = null;
    /** @type {any} */
    this.recording = null;
    this.beats = new Beats();
    this.usual = "";
    this.at = 0; // first sample of the sheet
    /** Samples of a stream's lead in use, and the number of the first. */
    this.live = { samples: new Float64Array(0), first: 0, fsHz: 0, lead: "", on: false };
    /** @type {(() => void) | null} */
    this.stop = null;
    this.over = true; // no source is at work
  }

  /** Say what is going on, or what is wrong. @param {string} text @param {boolean} wrong */
  say(text, wrong = false) {
    element("said").textContent = wrong ? "" : text;
    element("problem").textContent = wrong ? text : "";
  }

  /** Do what may go wrong; what does is one line. @param {() => Promise<void>} work */
  async attempt(work) {
    try {
      await work();
    } catch (problem) {
      if (/** @type {any} */ (problem)?.name === "NotFoundError") return; // nothing was chosen
      this.say(problem instanceof EcgfedError ? problem.message : `This page failed: ${problem instanceof Error ? problem.message : problem}`, true);
      if (!(problem instanceof EcgfedError)) console.error(problem);
    }
    this.enable();
  }

  enable() {
    const ready = this.bundle !== null && this.recording !== null && this.stop === null;
    element("classify").disabled = !ready;
    element("play").disabled = !ready;
    element("stop").disabled = this.stop === null;
    element("serial").disabled = element("bluetooth").disabled = this.bundle === null || this.stop !== null;
    const many = this.beats.all.length > 0;
    for (const id of ["save", "next"]) element(id).disabled = !many;
    for (const id of ["back", "forward"]) element(id).disabled = this.recording === null || this.live.on;
  }

  /** @param {Named[]} files */
  async take(files) {
    if (!files.length) return;
    if (isBundle(files)) await this.openBundle(asBundle(files), files[0].path.split("/")[0]);
    else await this.openRecording(files);
  }

  /** @param {any} source @param {string} name */
  async openBundle(source, name) {
    this.say(`Opening ${name} \u2026`);
    this.bundle = await openBundle(source, { ort: this.ort });
    const { classes, patients, leads } = this.bundle;
    element("model-said").textContent = `${name}: ${classes.length} classes (${classes.join(", ")}), lead ${leads.join(" or ")}${signedBy(this.bundle.signature)}`;
    const choice = element("patient");
    choice.replaceChildren(new Option("global model", ""), ...patients.map((/** @type {string} */ one) => new Option(one, one)));
    choice.disabled = patients.length === 0;
    this.chooseLead();
    this.say(`${name} is open: every file is as its manifest says.`);
  }

  /** @param {Named[]} files */
  async openRecording(files) {
    this.say("Reading \u2026");
    const [fs, units] = [element("fs").value.trim(), element("units").value.trim()];
    const how = { ...(fs ? { fsHz: Number(fs) } : {}), ...(units ? { units } : {}) };
    this.recording = readRecording(await asNamed(files), how);
    const { name, leads, fsHz, signalsMv } = this.recording;
    element("lead").replaceChildren(...leads.map((/** @type {string} */ one, /** @type {number} */ i) => new Option(one, String(i))));
    element("lead").disabled = leads.length < 2;
    this.forget();
    this.chooseLead();
    this.at = 0;
    element("result").hidden = false;
    this.show();
    const seconds = signalsMv[0].length / fsHz;
    this.say(`${name}: ${leads.join(", ")}, ${fsHz} Hz, ${EcgPaper.clock(seconds, 0)}. Choose "Classify" or "Play".`);
  }

  /** Take the bundle's lead where the recording has it. */
  chooseLead() {
    if (!this.recording || !this.bundle) return;
    try {
      element("lead").value = String(chooseLead(this.recording.leads, this.recording.name, this.bundle.leads));
    } catch (problem) {
      if (!(problem instanceof EcgfedError)) throw problem;
      element("lead-said").textContent = `The model was trained on ${this.bundle.leads.join(" or ")}, which is not here: what it says of another lead is worth less.`;
      return;
    }
    element("lead-said").textContent = "";
  }

  forget() {
    this.beats = new Beats();
    this.usual = "";
    this.live = { samples: new Float64Array(0), first: 0, fsHz: 0, lead: "", on: false };
    this.warn("");
    this.count();
  }

  /** Say that the beats have changed, once for each change. @param {string} text */
  warn(text) {
    const host = element("drift");
    if (host.textContent !== text) host.textContent = text;
  }

  classifier() {
    return this.bundle.classifier(element("patient").value || null);
  }

  async classify() {
    this.say("Finding and classifying every beat \u2026");
    await new Promise((done) => setTimeout(done, 30)); // so that it is drawn
    const classifier = await this.classifier();
    const beats = await classifier.classify(this.recording, { lead: Number(element("lead").value) });
    this.forget();
    this.beats.add(beats.map((/** @type {any} */ one) => ({ ...one, stage: "final" })));
    this.usual = usualOf(this.beats.all);
    this.count();
    this.show();
    this.say(`${beats.length} beats.`);
    element("strip").focus();
  }

  /** What a source tells, for a classifier. @returns {Promise<import("./sources.js").Listener>} */
  async listener() {
    const classifier = await this.classifier();
    /** @type {any} */
    let stream = null;
    let lead = 0;
    this.forget();
    this.over = false;
    return {
      begin: async (about) => {
        lead = this.leadOf(about.leads);
        stream = new StreamClassifier(classifier, { fsHz: about.fsHz, leads: about.leads.length, lead, early: true });
        this.live = { samples: new Float64Array(0), first: 0, fsHz: about.fsHz, lead: about.leads[lead], on: true };
        element("result").hidden = false;
        this.say(`Listening: ${about.leads.join(", ")}, ${about.fsHz} Hz.`);
      },
      samples: async (chunk) => {
        this.keep(chunk[lead]);
        this.tell(await stream.push(chunk));
        this.warn(changed(stream.drift));
      },
      end: async (problem) => {
        this.stop = null;
        this.over = true;
        await this.attempt(async () => {
          if (stream) {
            this.tell(await stream.finish());
            this.warn(changed(stream.drift));
          }
          this.live.on = false;
          if (problem) throw problem;
          this.say(`Ended: ${this.beats.all.length} beats.`);
        });
      },
    };
  }

  /** The lead in use of a stream. @param {string[]} leads */
  leadOf(leads) {
    if (this.recording && leads.join() === this.recording.leads.join()) return Number(element("lead").value);
    return chooseLead(leads, "stream", this.bundle.leads);
  }

  /** @param {Float64Array} fresh */
  keep(fresh) {
    const { live } = this;
    const most = KEPT_S * live.fsHz;
    const old = live.samples.subarray(Math.max(live.samples.length + fresh.length - most, 0));
    live.first += live.samples.length - old.length;
    const both = new Float64Array(old.length + fresh.length);
    both.set(old);
    both.set(fresh, old.length);
    live.samples = both;
  }

  /** @param {any[]} beats */
  tell(beats) {
    this.beats.add(beats);
    if (beats.length) {
      this.usual = usualOf(this.beats.all);
      this.count();
    }
    this.show();
  }

  /** Draw what is open: of a stream its last seconds. */
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
      const row = recording.signalsMv[Number(element("lead").value)];
      this.at = Math.min(Math.max(this.at, 0), Math.max(row.length - wide, 0));
      this.sheet.draw({ ...common, samples: row.subarray(this.at, this.at + wide), first: this.at, lead: recording.leads[Number(element("lead").value)] });
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

  /** Go to the next beat that is not of the usual class, or uncertain. */
  next() {
    if (!this.recording || this.live.on) return;
    const { fsHz } = this.recording;
    const middle = this.at + (this.sheet.seconds * fsHz) / 2 + 1;
    const found = this.beats.all.find((one) => one.sample > middle && (one.class !== this.usual || one.uncertain));
    if (!found) {
      this.say("No unusual beat after this.");
      return;
    }
    this.at = Math.round(found.sample - (this.sheet.seconds * fsHz) / 2);
    this.show();
    this.say(`${found.class}${found.uncertain ? ", uncertain" : ""} at ${EcgPaper.clock(found.sample / fsHz, 1)}, probability ${found.probability.toFixed(2)}.`);
  }

  save() {
    const fsHz = this.recording?.fsHz ?? this.live.fsHz;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.beats.csv(fsHz)], { type: "text/csv" }));
    link.download = `${(this.recording?.name ?? "stream").replace(/[^A-Za-z0-9_.-]/g, "_")}-beats.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** @param {() => Promise<() => void>} source */
  async listen(source) {
    await this.attempt(async () => {
      const stop = await source();
      this.stop = this.over ? null : stop; // a short one may have ended by now
    });
  }

  wire() {
    const on = (/** @type {string} */ id, /** @type {string} */ event, /** @type {() => any} */ work) => element(id).addEventListener(event, work);
    on("classify", "click", () => this.attempt(() => this.classify()));
    const speed = () => Number(element("speed").value);
    on("play", "click", () => this.listen(async () => play(this.recording, speed, await this.listener())));
    on("serial", "click", () => this.listen(async () => fromSerial(await this.listener())));
    on("bluetooth", "click", () => this.listen(async () => fromBluetooth(await this.listener())));
    on("stop", "click", () => this.stop?.());
    on("back", "click", () => this.move(-MOVE_S));
    on("forward", "click", () => this.move(MOVE_S));
    on("next", "click", () => this.next());
    on("save", "click", () => this.save());
    on("lead", "change", () => this.show());
    for (const id of ["bundle-files", "bundle-folder", "recording-files"]) {
      on(id, "change", () => this.attempt(() => this.take(chosenFiles(element(id)))));
    }
    window.addEventListener("resize", () => this.show());
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      const dropped = event.dataTransfer;
      if (dropped) this.attempt(async () => this.take(await droppedFiles(dropped)));
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
    await this.attempt(async () => {
      const { wasm, bundle, bundle_name: name } = this.data;
      this.say("Starting \u2026");
      if (wasm !== null) this.ort.env.wasm.wasmBinary = await bytesOf(wasm, true);
      this.ort.env.wasm.numThreads = 1;
      if (bundle === null) {
        this.say("Open a bundle.");
        return;
      }
      const files = new Map();
      for (const [path, text] of Object.entries(bundle)) files.set(path, await bytesOf(text, false));
      await this.openBundle(files, name);
      this.say("Drop a recording on this page.");
    });
    document.documentElement.dataset.ready = "yes";
  }
}

/** Start the page. @param {any} ort ONNX Runtime @param {PageData} data */
export function start(ort, data) {
  return new Page(ort, data).begin();
}
