"use strict";
/*
 * Storage of the labels: in the browser after every change, and in the label file if the page is served by
 * `ecgfed label --serve`. Newer labels are never overwritten: a tab that finds a later revision than the one its change
 * is based on adopts that revision and reports it. Needs answers.js.
 */
const EcgKeep = (() => {
  const { tr, trn } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const PREFIX = "ecgfed-label:";
  const AGAIN_MS = 3000;
  const ALIVE_MS = 20000;

  /** Return the browser's storage, or null if it is not available. */
  function storeOf() {
    try {
      const store = window.localStorage;
      store.setItem(`${PREFIX}try`, "1");
      store.removeItem(`${PREFIX}try`);
      return store;
    } catch {
      return null;
    }
  }

  function parsed(text) {
    try {
      return text ? JSON.parse(text) : null;
    } catch {
      return null;
    }
  }

  /**
   * Store a page's labels. showMessage(where, text): "kept" is the line about storage, "other" the one about other tabs;
   * onReplaced(): called after the labels were replaced.
   */
  function keep(data, book, showMessage, onReplaced) {
    // a second reader's answers are no other reader's
    const key = `${PREFIX}${data.recording}${data.reader === undefined ? "" : `:${data.reader}`}`;
    const store = storeOf();
    let base = 0; // the revision that this tab's next change is based on
    let written = -1; // the newest revision in the label file; -1 before the server's first reply
    let sending = null; // the request in progress, or null
    let over = false;
    let failing = false;

    const stored = () => parsed(store && store.getItem(key));
    const revisionOf = (snapshot) => (snapshot && Number.isSafeInteger(snapshot.revision) ? snapshot.revision : 0);
    const samePage = (snapshot) => snapshot && snapshot.recording === data.recording && snapshot.groups === data.digest;

    function save() {
      try {
        if (store) store.setItem(key, JSON.stringify(book.snapshot()));
      } catch {
        showMessage("kept", tr("This browser's store is full: download the labels before you close the page."));
      }
    }

    /** Adopt newer labels. */
    function adopt(snapshot, text) {
      if (!book.take(snapshot)) return false;
      base = book.revision();
      if (text) showMessage("other", text);
      onReplaced();
      return true;
    }

    /** Move labels of other groups, or unreadable ones, to another key, and take over the labels that fit. */
    function setAside(snapshot) {
      store.setItem(`${key}:${Date.now()}`, store.getItem(key));
      store.removeItem(key);
      const [taken, total] = snapshot && snapshot.recording === data.recording ? book.takeLabels(snapshot.given) : [0, 0];
      if (total) {
        base = book.revision();
        save();
        showMessage("other", trn("This browser held {n} answer of another page of this recording, with other groups; for beats of this page too, and taken over: {taken}.", "This browser held {n} answers of another page of this recording, with other groups; for beats of this page too, and taken over: {taken}.", total, { taken }));
      } else {
        showMessage("other", tr("What this browser had kept for this recording could not be read and was put aside."));
      }
    }

    function load() {
      if (!store && !data.served) {
        showMessage("kept", tr("This browser keeps nothing for this page: download the labels before you close it."));
        window.addEventListener("beforeunload", (event) => {
          if (!book.canUndo()) return;
          event.preventDefault();
          event.returnValue = "unsaved"; // what older browsers ask for
        });
      }
      if (store && !data.served) showMessage("kept", tr("Every answer is kept in this browser at once: closing this page loses nothing."));
      const snapshot = stored();
      if (store && store.getItem(key) && !adopt(snapshot)) setAside(snapshot);
      if (data.served) fromServer();
    }

    /** Store the latest change; returns false if another tab made one before, which is adopted instead. */
    function changed() {
      const snapshot = stored();
      if (samePage(snapshot) && revisionOf(snapshot) > base && adopt(snapshot, NEWER)) return false;
      base = book.revision();
      save();
      send();
      return true;
    }

    const NEWER = tr("Another tab of this page has newer answers. This tab shows them now; your last change was not made.");

    window.addEventListener("storage", (event) => {
      if (event.key !== key || !event.newValue) return;
      const snapshot = parsed(event.newValue);
      if (samePage(snapshot) && revisionOf(snapshot) > book.revision()) {
        adopt(snapshot, tr("Another tab of this page changed the answers. This tab shows them now."));
        written = Math.max(written, snapshot.revision); // that tab writes it to the file
      }
    });

    async function call(what, body) {
      const how = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
      const response = await fetch(what, { cache: "no-store", credentials: "omit", redirect: "error", ...how });
      return { status: response.status, reply: await response.json() };
    }

    const silent = tr("the program that opened this page does not answer");
    const unwritten = (why) => {
      failing = true;
      const now = written === book.revision();
      const what = now ? tr("An answer would not be written now: {why}. It is tried again.", { why }) : tr("Not yet in {file}: {why}. It is tried again.", { file: data.file, why });
      const then = store ? tr("Where the program has ended, save the labels (CSV) from this page; until then they are kept in this browser.") : tr("Where the program has ended, save the labels (CSV) from this page.");
      showMessage("kept", `${what} ${then}`);
    };

    function writtenNow() {
      failing = false;
      showMessage("kept", tr("Written to {file}.", { file: data.file }));
    }

    async function fromServer() {
      try {
        const { reply } = await call("state");
        const theirs = revisionOf(reply.kept);
        written = theirs;
        if (theirs > book.revision()) {
          if (adopt(reply.kept)) save();
        } else if (book.revision() > theirs) send();
        if (written === book.revision()) showMessage("kept", theirs ? tr("Written to {file}.", { file: data.file }) : tr("Every answer is written to {file} at once.", { file: data.file }));
      } catch {
        unwritten(silent);
        setTimeout(() => over || fromServer(), AGAIN_MS);
      }
    }

    /** Write the newest labels to the label file; one request at a time. */
    function send() {
      if (!data.served || over || written < 0) return null;
      sending ||= sent().finally(() => (sending = null));
      return sending;
    }

    async function sent() {
      try {
        while (written < book.revision()) {
          const snapshot = book.snapshot();
          const rows = book.rows().map((row) => [row.sample, row.label, row.beats, row.source]);
          const { status, reply } = await call("save", { base: written, kept: snapshot, rows });
          if (status === 200) {
            written = snapshot.revision;
            writtenNow();
          } else if (status === 409 && adopt(reply.kept, NEWER)) {
            written = book.revision();
            save();
          } else {
            throw new Error(reply.said || tr("answer {status}", { status }));
          }
        }
      } catch (problem) {
        unwritten(problem instanceof TypeError ? silent : problem.message);
        setTimeout(send, AGAIN_MS);
      }
    }

    /** Write everything and end the server. */
    async function finish() {
      await send();
      if (written < book.revision()) return false;
      try {
        const { reply } = await call("done", {});
        over = true;
        if (!reply.ended) {
          showMessage("kept", tr("Written to {file}. Close this page and go on in the list of recordings.", { file: data.file }));
          return true;
        }
      } catch {
        return false;
      }
      showMessage("kept", tr("Written to {file}. The program has ended; this page can be closed.", { file: data.file }));
      return true;
    }

    async function alive() {
      if (over) return;
      try {
        await call("alive");
        if (failing && written === book.revision()) writtenNow();
      } catch {
        unwritten(silent);
      }
    }

    if (data.served) setInterval(alive, ALIVE_MS);
    return { load, changed, finish, over: () => over };
  }

  return { keep };
})();
if (typeof module !== "undefined") module.exports = EcgKeep;
