"use strict";
/* Replay: the program classifies a recording as a stream, and this page asks for the next seconds and draws them. */
const EcgServeReplay = (() => {
  const { byId, make, call } = EcgServe;
  const { tr, trn, comma } = EcgLanguage;
  const TICK_MS = 500;
  const SHOWN_S = 10;
  const HOLD_MS = 20000; // how often a paused page says that it is still there
  const RETRY_MS = 3000; // while the program does not answer
  let current = null; // the replay on show

  class Replay {
    constructor(id, about) {
      Object.assign(this, { id, about, at: 0, paused: false, over: false, gone: false, sent: 0, samples: new Float64Array(0), first: 0 });
      this.beats = new Map(); // sample -> beat
    }

    /** Take the next part in. */
    add({ at, samples, beats, drift, ended }) {
      const wide = Math.round(SHOWN_S * this.about.fs);
      const joined = [...this.samples, ...EcgPaper.decode(samples)];
      this.samples = Float64Array.from(joined.slice(-wide));
      this.at = at;
      this.first = at - this.samples.length;
      for (const beat of beats) {
        if (beat.stage === "withdrawn") this.beats.delete(beat.sample);
        else this.beats.set(beat.sample, beat);
      }
      this.over = ended;
      byId("replay-drift").textContent = drift;
    }

    counts() {
      const counts = new Map();
      for (const beat of this.beats.values()) {
        if (beat.stage !== "final") continue;
        const row = counts.get(beat.class) || { count: 0, uncertain: 0 };
        row.count += 1;
        row.uncertain += beat.uncertain ? 1 : 0;
        counts.set(beat.class, row);
      }
      return [...counts].sort((a, b) => b[1].count - a[1].count);
    }

    draw() {
      const counts = this.counts();
      const usual = counts.length ? counts[0][0] : "";
      const shown = [...this.beats.values()].filter(({ sample }) => sample >= this.first && sample < this.at).sort((a, b) => a.sample - b.sample);
      const beats = shown.map((beat) => ({
        sample: beat.sample - this.first,
        label: beat.stage === "final" ? beat.class : `${beat.class}…`,
        quiet: beat.class === usual && beat.stage === "final" && !beat.uncertain,
        uncertain: beat.uncertain,
      }));
      const strip = { fs: this.about.fs, start_s: this.first / this.about.fs, leads: [{ name: this.about.lead, unit: "mV", samples: this.samples }], beats };
      if (this.samples.length) EcgPaper.draw(byId("replay-strip"), strip, { name: tr("The last seconds"), seconds: true });
      const span = shown.length > 2 ? (shown[shown.length - 1].sample - shown[0].sample) / this.about.fs : 0;
      byId("replay-rate").textContent = span ? tr("{rate:.0f} beats a minute.", { rate: (60 * (shown.length - 1)) / span }) : "";
      byId("replay-counts").replaceChildren(...counts.map(([name, { count, uncertain }]) => {
        const row = make("tr");
        for (const text of [name, comma(count), comma(uncertain)]) make("td", {}, row, text);
        return row;
      }));
    }

    status(text) {
      byId("replay-said").textContent = text;
    }

    ask(body) {
      return call(`recordings/${this.id}/replay`, { replay: this.about.replay, ...body });
    }

    /** End it, so that the program forgets it; also when the page is closed. */
    end() {
      const url = new URL(`recordings/${this.id}/replay`, document.baseURI);
      const body = new Blob([JSON.stringify({ replay: this.about.replay, end: true })], { type: "application/json" });
      if (!this.over) navigator.sendBeacon(url, body);
      this.over = true;
    }

    async tick() {
      if (current !== this || this.over) return;
      const started = performance.now();
      const hold = this.paused && started - this.sent < HOLD_MS;
      if (!hold) {
        this.sent = started;
        try {
          const speed = Number(byId("replay-speed").value);
          const part = await this.ask(this.paused ? { pause: true } : { at: this.at, seconds: Math.min(60, (speed * TICK_MS) / 1000) });
          if (current !== this) return;
          if (this.gone) this.status(this.title);
          this.gone = false;
          if (part.samples) this.add(part);
        } catch (problem) {
          if (!(problem instanceof EcgServe.Refused)) throw problem;
          if (current !== this) return;
          this.status(problem.message);
          this.gone = problem.message === EcgServe.GONE;
          this.over = !this.gone;
          if (this.gone) setTimeout(() => this.tick(), RETRY_MS);
          return;
        }
        this.draw();
        if (this.over) {
          this.status(trn("Ended at {time}: {n} beat.", "Ended at {time}: {n} beats.", this.beats.size, { time: EcgPaper.clock(this.at / this.about.fs, 0) }));
          return;
        }
      }
      setTimeout(() => this.tick(), Math.max(0, TICK_MS - (performance.now() - started)));
    }
  }

  function close() {
    current.end();
    byId("replay").hidden = true;
    byId(`${current.id}-name`).focus(); // where the keyboard goes on
    current = null;
  }

  /** Begin to replay a recording; the replay before ends. */
  async function begin({ id, name, revision }, personal) {
    const about = await call(`recordings/${id}/replay`, { begin: true, personal, revision });
    if (current) current.end();
    current = new Replay(id, about);
    current.title = tr("{lead}, {duration}, as it would be classified while it is recorded, by {model}.", { lead: about.lead, duration: EcgPaper.clock(about.duration_s, 0), model: about.model });
    byId("replay").hidden = false;
    byId("replay-head").textContent = tr("Replay: {name}", { name });
    byId("replay-pause").textContent = tr("Pause");
    byId("replay-drift").textContent = "";
    current.status(current.title);
    byId("replay-strip").replaceChildren();
    current.draw();
    byId("replay-head").focus();
    current.tick();
  }

  function wire() {
    window.addEventListener("pagehide", () => current && current.end());
    byId("replay-close").addEventListener("click", close);
    byId("replay-pause").addEventListener("click", () => {
      if (!current) return;
      current.paused = !current.paused;
      byId("replay-pause").textContent = current.paused ? tr("Go on") : tr("Pause");
    });
  }

  return { begin, wire };
})();
