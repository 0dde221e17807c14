"use strict";
/* What the scripts of `ecgfed serve` share: elements, requests, uploads, and how times and sizes are written. */
const EcgServe = (() => {
  const { tr } = EcgLanguage;
  const byId = (id) => document.getElementById(id);

  function make(name, attributes, parent, text) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, String(value));
    }
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  /** A refusal of the server, in one line. */
  class Refused extends Error {
    constructor(message, reply) {
      super(message);
      this.reply = reply || {}; // what the server states beside the line
    }
  }

  const GONE = tr("The program that opened this page does not answer. Start 'ecgfed serve' again with the same folder.");

  async function call(what, body) {
    const how = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    let response;
    let reply;
    try {
      response = await fetch(what, { cache: "no-store", credentials: "omit", redirect: "error", ...how });
      reply = await response.json();
    } catch {
      throw new Refused(GONE);
    }
    if (!response.ok) throw new Refused(reply.said || tr("status {status}", { status: response.status }), reply);
    return reply;
  }

  /** Send a file; onSent(bytes) is called as it goes. */
  function send(what, file, onSent) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", what);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.responseType = "json";
      request.upload.addEventListener("progress", (event) => onSent(event.loaded));
      request.addEventListener("load", () => {
        if (request.status === 200) resolve(request.response);
        else reject(new Refused((request.response && request.response.said) || tr("status {status}", { status: request.status })));
      });
      request.addEventListener("error", () => reject(new Refused(tr("{file} could not be sent: it is a folder, or changed since it was chosen, or the program has ended.", { file: file.name }))));
      request.send(file);
    });
  }

  const megabytes = (bytes) => `${EcgLanguage.fixed(bytes / 1e6, 1)} MB`;
  const left = (seconds) => (seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`);

  /** Send files together; showProgress(share, text). Returns the ids of the recordings among them. */
  async function upload(files, showProgress) {
    const { upload: number } = await call("upload", { files: files.map(({ name, size }) => ({ name, size })) });
    const total = files.reduce((sum, file) => sum + file.size, 0);
    const since = performance.now();
    let before = 0;
    for (const [i, file] of files.entries()) {
      await send(`upload/${number}/${i}`, file, (sent) => {
        const all = Math.min(before + sent, total);
        const perS = all / Math.max((performance.now() - since) / 1000, 0.001);
        const values = { sent: megabytes(all), total: megabytes(total), speed: `${megabytes(perS)}/s` };
        const text = all < total && perS > 0 ? tr("{sent} of {total}, {speed}, {time} left", { ...values, time: left((total - all) / perS) }) : tr("{sent} of {total}, {speed}", values);
        showProgress(total ? all / total : 1, text);
      });
      before += file.size;
    }
    showProgress(1, tr("Reading …"));
    return (await call(`upload/${number}/done`, {})).recordings;
  }

  return { byId, make, call, upload, left, Refused, GONE };
})();
