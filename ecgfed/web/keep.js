"use strict";
/*
 * Where answers of the labelling page are kept: in the browser at once after every change, and in the labels' file where
 * the page comes from `ecgfed label --serve`. Nobody overwrites what is newer: whoever finds a later revision than the
 * one its own change was made on takes that one, and says so. Needs answers.js.
 */
const EcgKeep = (() => {
  const PREFIX = "ecgfed-label:";
  const AGAIN_MS = 3000;
  const ALIVE_MS = 20000;

  /** Return the browser's store, null where it keeps nothing. */
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
   * Keep a page's answers. say(where, text): "kept" is the line about keeping, "other" one about another tab;
   * shown(): the answers are other ones now.
   */
  function keep(data, book, say, shown) {
    const key = `${PREFIX}${data.recording}`;
    const store = storeOf();
    let base = 0; // the revision that this tab's next change is made on
    let written = -1; // the newest revision that the labels' file has; -1 before the server has said
    let sending = null; // what brings the newest answers to the file, while it does
    let over = false;
    let failing = false;

    const stored = () => parsed(store && store.getItem(key));
    const revisionOf = (one) => (one && Number.isSafeInteger(one.revision) ? one.revision : 0);
    const samePage = (one) => one && one.recording === data.recording && one.groups === data.digest;

    function put() {
      try {
        if (store) store.setItem(key, JSON.stringify(book.kept()));
      } catch {
        say("kept", "This browser's store is full: download the labels before you close the page.");
      }
    }

    /** Take answers that are newer than ours. */
    function adopt(one, text) {
      if (!book.take(one)) return false;
      base = book.revision();
      if (text) say("other", text);
      shown();
      return true;
    }

    /** Put aside what is of other groups or cannot be read, never write over it; take over the labels that fit. */
    function putAside(one) {
      store.setItem(`${key}:${Date.now()}`, store.getItem(key));
      store.removeItem(key);
      const [taken, many] = one && one.recording === data.recording ? book.takeLabels(one.given) : [0, 0];
      if (many) {
        base = book.revision();
        put();
        say("other", `This browser held ${EcgPaper.countOf(many, "answer")} of another page of this recording, with other groups; for beats of this page too, and taken over: ${taken}.`);
      } else {
        say("other", "What this browser had kept for this recording could not be read and was put aside.");
      }
    }

    function load() {
      if (!store && !data.served) {
        say("kept", "This browser keeps nothing for this page: download the labels before you close it.");
        window.addEventListener("beforeunload", (event) => {
          if (!book.canUndo()) return;
          event.preventDefault();
          event.returnValue = "unsaved"; // what older browsers ask for
        });
      }
      if (store && !data.served) say("kept", "Every answer is kept in this browser at once: closing this page loses nothing.");
      const one = stored();
      if (store && store.getItem(key) && !adopt(one)) putAside(one);
      if (data.served) fromServer();
    }

    /** Keep a change that was just made; false where another tab had made one before, which is shown now. */
    function changed() {
      const one = stored();
      if (samePage(one) && revisionOf(one) > base && adopt(one, OTHER)) return false;
      base = book.revision();
      put();
      send();
      return true;
    }

    const OTHER = "Another tab of this page has newer answers. This tab shows them now; your last change was not made.";

    window.addEventListener("storage", (event) => {
      if (event.key !== key || !event.newValue) return;
      const one = parsed(event.newValue);
      if (samePage(one) && revisionOf(one) > book.revision()) {
        adopt(one, "Another tab of this page changed the answers. This tab shows them now.");
        written = Math.max(written, one.revision); // that tab brings it to the file
      }
    });

    async function call(what, body) {
      const how = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
      const answer = await fetch(what, { cache: "no-store", credentials: "omit", redirect: "error", ...how });
      return { status: answer.status, told: await answer.json() };
    }

    const silent = "the program that opened this page does not answer";
    const unwritten = (why) => {
      failing = true;
      const what = written === book.revision() ? "An answer would not be written now" : `Not yet in ${data.file}`;
      say("kept", `${what}: ${why}. It is tried again. Where the program has ended, save the labels (CSV) from this page${store ? "; until then they are kept in this browser" : ""}.`);
    };

    function writtenNow() {
      failing = false;
      say("kept", `Written to ${data.file}.`);
    }

    async function fromServer() {
      try {
        const { told } = await call("state");
        const theirs = revisionOf(told.kept);
        written = theirs;
        if (theirs > book.revision()) {
          if (adopt(told.kept)) put();
        } else if (book.revision() > theirs) send();
        if (written === book.revision()) say("kept", theirs ? `Written to ${data.file}.` : `Every answer is written to ${data.file} at once.`);
      } catch {
        unwritten(silent);
        setTimeout(() => over || fromServer(), AGAIN_MS);
      }
    }

    /** Bring the newest answers to the labels' file; one request at a time. */
    function send() {
      if (!data.served || over || written < 0) return null;
      sending ||= sent().finally(() => (sending = null));
      return sending;
    }

    async function sent() {
      try {
        while (written < book.revision()) {
          const kept = book.kept();
          const rows = book.rows().map((one) => [one.sample, one.label, one.beats, one.source]);
          const { status, told } = await call("save", { base: written, kept, rows });
          if (status === 200) {
            written = kept.revision;
            writtenNow();
          } else if (status === 409 && adopt(told.kept, OTHER)) {
            written = book.revision();
            put();
          } else {
            throw new Error(told.said || `answer ${status}`);
          }
        }
      } catch (problem) {
        unwritten(problem instanceof TypeError ? silent : problem.message);
        setTimeout(send, AGAIN_MS);
      }
    }

    /** End the server; everything is written then. */
    async function done() {
      await send();
      if (written < book.revision()) return false;
      try {
        await call("done", {});
        over = true;
      } catch {
        return false;
      }
      say("kept", `Written to ${data.file}. The program has ended; this page can be closed.`);
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
    return { load, changed, done, over: () => over };
  }

  return { keep };
})();
if (typeof module !== "undefined") module.exports = EcgKeep;
