"use strict";
/* The page of `ecgfed serve`: recordings, their forms, jobs and results. Needs the other scripts of its page. */
(() => {
  const { byId, make, call, upload, left, Refused, GONE } = EcgServe;
  const { tr, trn } = EcgLanguage;
  const cards = new Map(); // id -> Card
  const WATCH_MS = 1000;
  const ALIVE_MS = 20000;
  const RETRY_MS = 3000; // while the program does not answer
  let timer = null;
  let over = false;

  const JOBS = {
    report: { verb: tr("Make the report"), made: tr("Report") },
    label: { verb: tr("Choose beats to label"), made: tr("Beats to label") },
    personalize: { verb: tr("Personalise from the labels"), made: tr("Personal model") },
    "report-personal": { verb: tr("Report by the personal model"), made: tr("Report by the personal model") },
  };
  /** The text of a link that saves a file, by the file's name. */
  const SAVED = [
    [/^model-\d+\.zip$/, (name) => tr("Save the personal model, {name}", { name })],
    [/^beats-\d+\/.*\.csv$/, (name) => tr("Save the label of every beat as a table, {name}", { name })],
    [/^beats-\d+\//, (name) => tr("Save the label of every beat as a WFDB annotation, {name}", { name })],
    [/-labels(-\d+)?\.csv$/, (name) => tr("Save your labels, {name}", { name })],
    [/^/, (name) => tr("Save {name}", { name })],
  ];
  const STATES = { waiting: tr("waits"), running: tr("runs"), done: tr("done"), failed: tr("failed"), stopped: tr("stopped") };

  function say(text) {
    byId("said").textContent = text;
    byId("problem").textContent = "";
  }

  /** Run a task of the page; a refusal is shown in one line, and that of an earlier task is gone unless it stays. */
  async function attempt(task, stays = false) {
    try {
      if (!stays) byId("problem").textContent = "";
      return await task();
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      byId("problem").textContent = problem.message;
      if (problem.reply.stale) refresh();
      return null;
    }
  }

  /** One recording on the page. */
  class Card {
    constructor(entry) {
      this.entry = entry;
      this.root = make("article", { "aria-labelledby": `${entry.id}-name`, id: entry.id });
      make("h3", { id: `${entry.id}-name`, tabindex: "-1" }, this.root, entry.name);
      this.form = new EcgServeForm.Form(entry, refresh);
      this.root.appendChild(this.form.root);
      this.actions = make("p", { class: "steps" }, this.root);
      this.buttons = {};
      for (const [what, { verb }] of Object.entries(JOBS)) this.buttons[what] = this.button(verb, () => this.start(what));
      this.buttons.replay = this.button(tr("Replay live"), () => attempt(() => EcgServeReplay.begin(this.entry, false)));
      this.buttons["replay-personal"] = this.button(tr("Replay live by the personal model"), () => attempt(() => EcgServeReplay.begin(this.entry, true)));
      this.hint = make("p", { class: "hint", hidden: true }, this.root, tr("Personalising needs labels: choose beats to label, then label them on the page that is linked here."));
      this.bar = make("progress", { hidden: true, "aria-label": tr("Progress of {name}", { name: entry.name }) }, this.root);
      this.job = make("p", { class: "job lines", role: "status" }, this.root);
      this.problem = make("p", { class: "problem", role: "alert" }, this.root);
      this.results = make("ul", { class: "results" }, this.root);
    }

    button(text, work) {
      const button = make("button", { type: "button", "aria-describedby": `${this.entry.id}-name` }, this.actions, text);
      this.actions.append(" ");
      button.addEventListener("click", work);
      return button;
    }

    async start(what) {
      await attempt(async () => {
        await call(`recordings/${this.entry.id}/${what}`, { revision: this.entry.revision });
        say(tr("{what}: {name}.", { what: JOBS[what].verb, name: this.entry.name }));
        await refresh();
      });
    }

    update(entry, jobs) {
      this.entry = entry;
      this.form.update(entry);
      const mine = jobs.filter((job) => job.recording === entry.id);
      const job = mine[mine.length - 1];
      const busy = Boolean(job) && (job.state === "running" || job.state === "waiting");
      const needs = { personalize: entry.labels, "report-personal": Boolean(entry.model), "replay-personal": Boolean(entry.model) };
      for (const [what, button] of Object.entries(this.buttons)) {
        button.disabled = !entry.stated || (busy && !what.startsWith("replay")) || needs[what] === false;
        button.hidden = needs[what] === false && what !== "personalize";
      }
      this.hint.hidden = !entry.stated || entry.labels || busy;
      this.showJob(job, busy);
      this.showResults(entry);
    }

    showJob(job, busy) {
      const set = (host, text) => host.textContent === text || (host.textContent = text);
      this.bar.hidden = !busy;
      if (!job) return;
      const { progress } = job;
      if (busy && progress.total) Object.assign(this.bar, { max: progress.total, value: progress.completed });
      else this.bar.removeAttribute("value");
      const { what, completed, total } = progress;
      const counted = total ? tr("{what}: {completed} of {total}", { what, completed, total }) : tr("{what}: {completed}", { what, completed });
      const rest = progress.left_s === null || progress.left_s === undefined ? "" : tr("{time} left", { time: left(progress.left_s) });
      const values = { what: JOBS[job.what].made, state: STATES[job.state], time: left(job.seconds) };
      const since = busy ? tr("{what}: {state} for {time}", values) : tr("{what}: {state} in {time}", values);
      const state = job.seconds >= 1 ? since : tr("{what}: {state}", values);
      const line = busy ? [state, what ? counted : "", progress.rate, rest].filter(Boolean).join(", ") : `${state}.`;
      const after = busy ? [] : [job.result.said || "", ...job.lines];
      set(this.job, [line, ...after].filter(Boolean).join("\n"));
      set(this.problem, job.problem);
    }

    showResults(entry) {
      const links = [];
      const file = (name) => `recordings/${entry.id}/files/${entry.results[name]}`;
      if (entry.reports.report) links.push([tr("Report"), file("report.html")]);
      if (entry.labelling) links.push([tr("Label beats"), `recordings/${entry.id}/label/`]);
      if (entry.reports.personal) links.push([tr("Report by the personal model"), file("report-personal.html")]);
      for (const name of Object.keys(entry.results)) {
        if (name.endsWith(".html") || name.endsWith(".json") || name.endsWith(".served")) continue;
        links.push([SAVED.find(([pattern]) => pattern.test(name))[1](name), file(name), true]);
      }
      const key = JSON.stringify(links);
      if (key === this.key) return; // so that the focus stays where it is
      this.key = key;
      this.results.replaceChildren(...links.map(([text, href, saved]) => {
        const item = make("li");
        make("a", saved ? { href, download: true } : { href, target: "_blank", rel: "noopener" }, item, saved ? text : tr("{text} (new tab)", { text }));
        return item;
      }));
    }
  }

  /** Ask for the state, and show it. */
  async function refresh() {
    clearTimeout(timer);
    if (over) return;
    const state = await attempt(() => call("state"), true);
    if (state !== null) {
      for (const line of document.querySelectorAll("[role=alert]")) if (line.textContent === GONE) line.textContent = "";
      byId("none").hidden = state.recordings.length > 0;
      for (const entry of state.recordings) {
        if (!cards.has(entry.id)) {
          cards.set(entry.id, new Card(entry));
          byId("recordings").appendChild(cards.get(entry.id).root);
        }
        cards.get(entry.id).update(entry, state.jobs);
      }
    }
    const busy = state !== null && state.jobs.some((job) => job.state === "running" || job.state === "waiting");
    if (!busy && state !== null && byId("end").dataset.stop) {
      delete byId("end").dataset.stop;
      byId("end").textContent = tr("End the program");
    }
    clearTimeout(timer); // another one may have begun meanwhile
    if (!over) timer = setTimeout(refresh, state === null ? RETRY_MS : busy ? WATCH_MS : ALIVE_MS);
  }

  async function take(files) {
    if (!files.length) return;
    byId("upload").hidden = false;
    const show = (share, text) => {
      byId("upload-bar").value = share;
      byId("upload-said").textContent = text;
    };
    await added(() => upload(files, show));
    byId("upload").hidden = true;
    byId("files").value = "";
  }

  /** Add recordings by a task that returns their ids, show them, and go to the first. */
  async function added(task) {
    const ids = await attempt(task);
    await refresh();
    if (ids === null) return;
    say(trn("{n} recording added.", "{n} recordings added.", ids.length));
    const first = cards.get(ids[0]);
    if (!first) return;
    byId(`${ids[0]}-name`).focus();
    for (const id of ids.slice(0, 4)) if (cards.get(id).entry.stated) cards.get(id).form.read();
  }

  async function end() {
    const stop = byId("end").dataset.stop === "yes";
    await attempt(async () => {
      try {
        await call("done", { stop });
      } catch (problem) {
        if (problem instanceof Refused && problem.reply.busy) {
          byId("end").dataset.stop = "yes";
          byId("end").textContent = tr("Stop the job and end the program");
        }
        throw problem;
      }
      over = true;
      clearTimeout(timer);
      say(tr("The program has ended; this page can be closed."));
      for (const button of document.querySelectorAll("button, input, select")) button.disabled = true;
      for (const link of document.querySelectorAll("#recordings a")) link.removeAttribute("href"); // nobody answers any more
    });
  }

  byId("files").addEventListener("change", () => take([...byId("files").files]));
  byId("sample").addEventListener("click", () => {
    byId("sample").disabled = true;
    say(tr("Making a synthetic recording …"));
    added(async () => (await call("sample", {})).recordings).finally(() => (byId("sample").disabled = false));
  });
  byId("end").addEventListener("click", end);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragged");
  });
  document.addEventListener("dragleave", () => document.body.classList.remove("dragged"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragged");
    const items = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry());
    const folder = items.find((item) => item && item.isDirectory);
    if (folder) byId("problem").textContent = tr("{name} is a folder: drop the files in it.", { name: folder.name });
    else take([...event.dataTransfer.files]);
  });
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  EcgServeReplay.wire();
  refresh().then(() => (document.documentElement.dataset.ready = "yes"));
})();
