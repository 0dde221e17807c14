"use strict";
/* The form of a recording: what was read, everything that is missing at once, and its first seconds. */
const EcgServeForm = (() => {
  const { make, call } = EcgServe;
  const { tr, trn } = EcgLanguage;
  const FIELDS = [
    { name: "fs_hz", label: tr("Sampling rate (samples a second)"), hint: tr("Such as 250."), tables: true },
    { name: "units", label: tr("Units"), hint: tr("mV, uV or V; or steps in 1 mV and zero, as in 200(1024)/mV."), tables: true },
    { name: "columns", label: tr("Columns, in order"), hint: tr("Separated by commas, such as time (ms),II; nothing between two commas passes a column over."), tables: true },
    { name: "lead", label: tr("Lead"), hint: tr("The one whose beats are classified."), parameter: "leads" },
  ];
  const FORMATS = { wfdb: "WFDB", edf: tr("EDF or BDF"), csv: tr("table"), numpy: "NumPy", dicom: "DICOM", aecg: "HL7 aECG", muse: "GE MUSE", scp: "SCP-ECG", ishne: "ISHNE" };

  function factsOf(entry) {
    const { facts } = entry;
    if (!facts.format) return [[tr("file"), entry.name]];
    const units = [...new Set(facts.units.map((unit) => unit || entry.how.units || tr("not stated")))].join(", ");
    return [
      [tr("format"), FORMATS[facts.format] || facts.format],
      [tr("leads"), facts.leads.join(", ")],
      [tr("lead in use"), facts.lead || tr("not chosen")],
      [tr("sampling rate"), facts.fs_hz === null ? tr("not stated") : `${EcgLanguage.general(Number(facts.fs_hz.toFixed(3)))} Hz`],
      [tr("duration"), facts.duration_s === null ? trn("{n} sample", "{n} samples", facts.samples) : EcgPaper.clock(facts.duration_s, 0)],
      [tr("units"), units],
      [tr("start"), facts.start.split("T").map((part) => (/^\d{4}-/.test(part) ? EcgLanguage.date(part) : part)).join(" ") || tr("not stated")],
    ];
  }

  /** A form for a recording; onRead() is called after it was read as stated, and where another page has read it. */
  class Form {
    constructor(entry, onRead) {
      this.id = entry.id;
      this.name = entry.name;
      this.onRead = onRead;
      this.revision = entry.revision;
      this.root = make("div");
      this.facts = make("dl", { class: "facts" }, this.root);
      this.notes = make("p", { class: "notes lines" }, this.root);
      this.details = make("details", {}, this.root);
      make("summary", {}, this.details, tr("How the file is read"));
      this.form = make("form", { novalidate: true, autocomplete: "off" }, this.details);
      this.summary = make("p", { tabindex: "-1" }, this.form);
      this.fields = make("div", { class: "fields" }, this.form);
      this.inputs = new Map();
      this.problem = make("p", { class: "problem", role: "alert" }, this.form);
      make("p", {}, this.form).append(make("button", { type: "submit" }, null, tr("Read the file this way")));
      this.preview = make("figure", {}, this.root);
      this.form.addEventListener("input", () => (this.edited = true));
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.read();
      });
      this.show(entry);
      this.details.open = !entry.stated;
      if (entry.stated) this.details.addEventListener("toggle", () => this.details.open && !this.preview.firstChild && this.read());
    }

    /** Show that another page has read the file in another way; values that are being typed stay until they are sent. */
    async update(entry) {
      if (entry.revision <= this.revision || (this.edited && !this.stale)) return;
      const line = this.stale;
      this.stale = "";
      this.preview.replaceChildren();
      this.show(entry);
      if (entry.stated && this.details.open) await this.read();
      if (line) this.problem.textContent = line;
    }

    /** Show what was read, and what is missing. */
    show(entry) {
      this.revision = entry.revision;
      this.edited = false;
      this.facts.replaceChildren();
      for (const [name, value] of factsOf(entry)) {
        const pair = make("div", {}, this.facts);
        make("dt", {}, pair, name);
        make("dd", {}, pair, value);
      }
      const { facts } = entry;
      const synthetic = facts.synthetic ? [tr("synthetic, no person’s recording: it shows that the software runs")] : [];
      this.notes.textContent = [...synthetic, ...(facts.notes || [])].map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`).join("\n");
      const missing = new Map((facts.missing || []).map(({ parameter, reason }) => [parameter, reason]));
      this.summary.textContent = missing.size ? trn("{n} thing missing, which the file does not state:", "{n} things missing, which the file does not state:", missing.size) : "";
      this.problem.textContent = entry.problem || "";
      this.build(entry, missing);
    }

    build(entry, missing) {
      const { facts, how } = entry;
      const table = !facts.format || facts.format === "csv" || facts.format === "numpy";
      this.fields.replaceChildren();
      this.inputs.clear();
      const known = (field) => !field.tables || table || (field.name === "units" && facts.format === "wfdb"); // WFDB without a calibration
      for (const field of FIELDS.filter(known)) {
        const id = `${this.id}-${field.name}`;
        const box = make("div", {}, this.fields);
        const reason = missing.get(field.parameter || field.name);
        make("label", { for: id }, box, field.label);
        const described = `${id}-hint${reason ? ` ${id}-missing` : ""}`;
        const about = { id, "aria-describedby": described, "aria-invalid": reason ? "true" : null, "aria-required": reason ? "true" : null };
        let input;
        if (field.name === "lead") {
          input = make("select", about, box);
          make("option", { value: "" }, input, tr("the model's lead, if it is there"));
          for (const lead of facts.leads || []) make("option", { value: lead, selected: lead === how.lead }, input, lead);
        } else {
          input = make("input", { ...about, type: "text", value: how[field.name] ?? "", inputmode: field.name === "fs_hz" ? "decimal" : null }, box);
        }
        const columns = field.name === "columns" && facts.columns && facts.columns.length ? ` ${tr("The file has: {columns}.", { columns: facts.columns.join(", ") })}` : "";
        make("p", { class: "hint", id: `${id}-hint` }, box, field.hint + columns);
        if (reason) make("p", { class: "missing", id: `${id}-missing` }, box, tr("Missing: {reason}.", { reason }));
        this.inputs.set(field.name, input);
      }
      if (!table || entry.problem) {
        const id = `${this.id}-repair`;
        const box = make("div", {}, this.fields);
        const input = make("input", { type: "checkbox", id, checked: how.repair }, box);
        box.append(" ");
        make("label", { for: id }, box, tr("Read what is there of a file cut short"));
        this.inputs.set("repair", input);
      }
    }

    async read() {
      const stated = {};
      for (const [name, input] of this.inputs) stated[name] = name === "repair" ? input.checked : input.value;
      this.stale = "";
      this.problem.textContent = "";
      try {
        const { facts, preview, revision } = await call(`recordings/${this.id}/read`, { ...stated, revision: this.revision });
        this.show({ id: this.id, name: "", facts, how: { ...stated, repair: Boolean(stated.repair) }, problem: "", revision });
        this.draw(preview);
        this.onRead();
        if (facts.missing.length) this.summary.focus();
      } catch (problem) {
        if (!(problem instanceof EcgServe.Refused)) throw problem;
        this.problem.textContent = problem.message;
        if (problem.reply.stale) {
          this.stale = problem.message;
          this.onRead();
        }
      }
    }

    draw(preview) {
      this.preview.replaceChildren();
      if (preview === null) return;
      const host = make("div", { class: "paper", tabindex: "0", role: "region", "aria-label": tr("Recording {n}, {name}: the first seconds on ECG paper", { n: Number(this.id.split("-")[0]), name: this.name }) }, this.preview);
      EcgPaper.draw(host, preview, { name: tr("The first seconds"), seconds: true });
      make("figcaption", {}, this.preview, tr("The first {seconds:g} s of {lead} as recorded, 25 mm/s, 10 mm/mV: beats of the expected height and rate suggest that units and sampling rate are right.", { seconds: preview.seconds, lead: preview.leads[0].name }));
    }
  }

  return { Form };
})();
