"use strict";
/* The texts of a report that is edited: review, conclusion or its draft, footer of the sheets. Needs report.js, edits.js and edits_file.js. */
const EcgEditingTexts = (() => {
  const { tr } = EcgLanguage;
  const { data } = EcgReport;
  const byId = (id) => document.getElementById(id);
  let footerRule = null;

  /**
   * Write the texts of a state. `book`: the edits; `notes`: what marks a draft and a conclusion; `draft` in English, as
   * files have it, and `draftOnPage`; `stated`: texts of the page that are no edits, by their names.
   */
  function write(state, { book, notes, draft, draftOnPage, stated }) {
    const by = state.reviewed ? tr("reviewed by {name} at {time}", { name: state.reviewed.by, time: minuteOf(state.reviewed.at) }) : tr("not reviewed");
    const edited = book.canUndo() ? ` ${book.author() ? tr("Edited by {author}.", { author: book.author() }) : tr("Edited by an unnamed person.")}` : "";
    byId("review-line").textContent = `${by[0].toUpperCase()}${by.slice(1)}.${edited}`;
    writeFooter(`${data.footer.record}, ${by}. ${data.footer.use}`);
    for (const name of EcgEdits.TEXTS) if (document.activeElement !== byId(`edit-${name}`)) byId(`edit-${name}`).value = state[name] || (name === "conclusion" ? draftOnPage : "");
    writeConclusion(state, notes, draft, draftOnPage);
    const printed = { ...state, reviewed_by: state.reviewed ? state.reviewed.by : "", reviewed_at: state.reviewed ? state.reviewed.at : "" };
    for (const place of document.querySelectorAll("[data-text]")) place.textContent = printed[place.dataset.text] || stated.get(place.dataset.text) || "";
  }

  /** Return a moment in ISO format to the minute, as the page's language writes it. */
  const minuteOf = (at) => `${EcgLanguage.date(at.slice(0, 10))} ${at.slice(11, 16)}${at.slice(19)}`;

  /** Write the conclusion, or its draft; an accepted or written one is never changed, and it says where it is older. */
  function writeConclusion(state, notes, draft, draftOnPage) {
    const older = Boolean(state.conclusion && state.draft) && state.draft !== draft;
    for (const place of document.querySelectorAll("[data-conclusion-note]")) place.textContent = tr(state.conclusion ? notes.written : notes.draft);
    byId("conclusion-text").textContent = state.conclusion || draftOnPage;
    byId("conclusion-older").hidden = !older;
    byId("conclusion-now").textContent = older ? draftOnPage : "";
    byId("conclusion").classList.toggle("draft", !state.conclusion);
    byId("edit-accept-draft").disabled = state.conclusion === draftOnPage && state.draft === draft;
  }

  /** Write the footer of every printed sheet, in place of the one that the page was made with. */
  function writeFooter(text) {
    const [sheet] = document.styleSheets;
    if (footerRule !== null) sheet.deleteRule(footerRule);
    footerRule = sheet.insertRule(`@page { @bottom-left { content: ${JSON.stringify(text)}; font: 8pt Arial, sans-serif; } }`, sheet.cssRules.length);
  }

  /**
   * Offer the texts of edits that this page could not use and put aside, whatever its beats: each is a step of the book.
   * `aside`: the document, or null; done(): called when they are restored.
   */
  function offer(aside, book, done) {
    const button = byId("edit-restore");
    const differs = (name) => EcgEditsFile.isText(aside[name]) && aside[name].trim() && aside[name] !== book.state()[name];
    const texts = aside ? EcgEdits.TEXTS.filter(differs) : [];
    button.hidden = !texts.length;
    button.addEventListener("click", () => {
      for (const name of texts) book.add({ text: name, value: aside[name], ...(name === "conclusion" ? { draft: EcgEditsFile.isText(aside.conclusion_draft) ? aside.conclusion_draft : "" } : {}) });
      button.hidden = true;
      done();
    });
  }

  return { write, offer };
})();
