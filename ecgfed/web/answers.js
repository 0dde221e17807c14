"use strict";
/*
 * The labels given on the labelling page: a list of actions with undo and redo. All state is derived from this list, so
 * that undo, redo and a reload agree. Needs choose.js.
 *
 * Actions: {do: "answer", group, label}, {do: "later", group}, {do: "split", group}, {do: "merge", beat, into} (both
 * beats labelled), {do: "more"} (ask more questions).
 */
const EcgLabelBook = (() => {
  /** Number of additional questions of the action "more". */
  const MORE = 5;
  const MAX_ACTIONS = 20000;

  function open(data) {
    const trees = EcgChoose.tree(data);
    const symbols = new Set(data.labels.map((label) => label.symbol));
    let actions = [];
    let cursor = 0;
    let revision = 0;
    let known = null;

    /** A second reader's page: each beat is a group, asked in the order of the groups, and speaks for no other. */
    const alone = data.reader !== undefined;

    const isGroup = (group) => Number.isInteger(group) && group >= 0 && group < trees.groups.length;
    const beatOf = (group) => trees.groups[group].beat;
    const kindOf = (label) => data.rule.kind_of[label] || "";
    const isPair = (a, b) => EcgChoose.PAIRS.includes([kindOf(a), kindOf(b)].sort().join(""));

    /** Return whether an action, of any origin, is valid. */
    function valid(action) {
      if (action === null || typeof action !== "object") return false;
      if (action.do === "answer") return isGroup(action.group) && symbols.has(action.label);
      if (action.do === "later" || action.do === "split") return isGroup(action.group);
      if (action.do === "merge") return trees.points.has(action.beat) && trees.points.has(action.into) && action.beat !== action.into;
      return action.do === "more";
    }

    /** Return the beat that determines the label of a labelled beat: itself, or the one it was merged into. */
    function headOf(labelled, beat) {
      while (labelled.get(beat).into !== null) beat = labelled.get(beat).into;
      return beat;
    }

    /** Replay the first actions, those that are not undone by default. */
    function played(count = cursor) {
      // beat -> {group, label, into, before: its earlier labels}; in the order of their first labels
      const labelled = new Map();
      const postponed = new Map(); // beat -> group, in the order of their return
      const split = [];
      let goal = data.count;
      for (const action of actions.slice(0, count)) {
        if (action.do === "answer") {
          const last = labelled.get(beatOf(action.group));
          const before = last ? [...last.before, last.label] : [];
          labelled.set(beatOf(action.group), { group: action.group, label: action.label, into: null, before });
          postponed.delete(beatOf(action.group));
        } else if (action.do === "later") {
          postponed.delete(beatOf(action.group));
          postponed.set(beatOf(action.group), action.group);
        } else if (action.do === "split") {
          if (!split.includes(action.group)) split.push(action.group);
        } else if (action.do === "merge") {
          const bothLabelled = labelled.has(action.beat) && labelled.has(action.into);
          if (bothLabelled && headOf(labelled, action.into) !== action.beat) labelled.get(action.beat).into = headOf(labelled, action.into);
        } else {
          goal = Math.max(goal, labelled.size) + MORE;
        }
      }
      return { labelled, postponed, split, goal };
    }

    /** Return the labels of the labelled beats, those of merged groups included. */
    const labelsOf = (labelled) => new Map(Array.from(labelled.keys(), (beat) => [beat, labelled.get(headOf(labelled, beat)).label]));

    /** Return the current state, computed once per change. */
    function state() {
      if (known) return known;
      const { labelled, postponed, split, goal } = played();
      const labels = labelsOf(labelled);
      const spread = (all) => (alone ? { beats: new Map(Array.from(all.keys(), (beat) => [beat, 0])), covered: all.size } : EcgChoose.spread(trees, all));
      const counted = spread(labels);
      // confirmed: the beat had this label before; a third label decides between two that differ
      const isConfirmed = ({ label, before, into }) => into === null && before.includes(label);
      const confirmed = new Set(Array.from(labelled.keys()).filter((beat) => isConfirmed(labelled.get(beat))));
      const entries = Array.from(labelled, ([beat, entry]) => ({
        beat,
        group: entry.group,
        into: entry.into,
        label: labels.get(beat),
        beats: counted.beats.get(beat),
        source: entry.into !== null ? "merged" : confirmed.has(beat) ? "confirmed" : "clinician",
        differs: entry.into === null && !confirmed.has(beat) && isPair(entry.label, entry.before.at(-1)),
      }));
      const contested = alone ? [] : EcgChoose.contested(trees, labels, counted.beats, confirmed);
      const expected = labels.size && !alone ? EcgChoose.expectedErrors(trees, labels) : null;
      // an answer of another kind may leave fewer beats covered than before it
      const coveredBefore = cursor ? spread(labelsOf(played(cursor - 1).labelled)).covered : 0;
      known = { labels, entries, postponed, split, goal, covered: counted.covered, coveredBefore, contested, expected };
      known.asking = question(known);
      return known;
    }

    /** Return the parts of a group without a labelled beat, the largest first. */
    function unansweredParts(group, labels) {
      const withLabel = new Set(Array.from(labels.keys()).flatMap((beat) => trees.paths[trees.points.get(beat).leaf]));
      const parts = trees.children[group].filter((part) => !withLabel.has(part));
      return parts.sort((a, b) => trees.groups[b].size - trees.groups[a].size || a - b);
    }

    /** Return the first group whose beat has no label and was not put off, or null. */
    function inOrder(labels, passed) {
      const group = trees.groups.findIndex(({ beat }) => !labels.has(beat) && !passed.has(beat));
      return group < 0 ? null : group;
    }

    /**
     * Return the group of the next question: first the parts of split groups, the latest split first; then the group with
     * the most beats that may have another label; last the postponed ones. Null if every group has a label.
     */
    function question({ labels, postponed, split }) {
      const passed = new Set(postponed.keys());
      for (const group of split.slice().reverse()) {
        for (const part of unansweredParts(group, labels)) {
          const candidate = EcgChoose.next(trees, labels, { passed, within: part });
          if (candidate !== null) return candidate;
        }
      }
      const candidate = alone ? inOrder(labels, passed) : EcgChoose.next(trees, labels, { passed });
      if (candidate !== null) return candidate;
      const rest = Array.from(postponed.values());
      return rest.length ? rest[0] : null;
    }

    function changed() {
      revision += 1;
      known = null;
    }

    /** Append an action; actions undone before are discarded. */
    function act(action) {
      if (!valid(action)) throw new Error(`not an action: ${JSON.stringify(action)}`);
      actions = [...actions.slice(0, cursor), action];
      cursor += 1;
      changed();
    }

    /** Undo (by -1) or redo (by 1) an action and return it; null if there is none. */
    function step(by) {
      const to = cursor + by;
      if (to < 0 || to > actions.length) return null;
      const action = actions[Math.min(cursor, to)];
      cursor = to;
      changed();
      return action;
    }

    /** Return whether a group can be split. */
    function divisible(group) {
      const { labels, split } = state();
      return trees.children[group].length > 0 && !split.includes(group) && unansweredParts(group, labels).length > 0;
    }

    /** Return the labels in order of time, as rows of the label file. */
    function rows() {
      const sampleOf = (beat) => data.points[beat].sample;
      return state()
        .entries.map((entry) => ({ sample: sampleOf(entry.beat), time_s: data.points[entry.beat].time_s, ...entry }))
        .sort((a, b) => a.sample - b.sample);
    }

    /** Quote a cell as in RFC 4180. */
    const cell = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

    /** Return the label file. */
    function csv() {
      const lines = [["recording", "sample", "time_s", "label", "beats", "source"]];
      for (const row of rows()) {
        lines.push([data.recording, row.sample, row.time_s.toFixed(3), row.label, row.beats, row.source]);
      }
      return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
    }

    /** Return the complete state for storage. */
    const snapshot = () => ({
      version: 1, recording: data.recording, groups: data.digest, revision, cursor, actions,
      given: rows().map((row) => [row.sample, row.label]), // for pages with other groups
    });

    /** Restore a stored state; returns false, and changes nothing, if it is not of this page. */
    function take(stored) {
      const isValid =
        stored !== null && typeof stored === "object" && stored.version === 1 && stored.recording === data.recording &&
        stored.groups === data.digest && Number.isSafeInteger(stored.revision) && stored.revision >= 0 &&
        Array.isArray(stored.actions) && stored.actions.length <= MAX_ACTIONS && stored.actions.every(valid) &&
        Number.isInteger(stored.cursor) && stored.cursor >= 0 && stored.cursor <= stored.actions.length;
      if (!isValid) return false;
      ({ actions, cursor, revision } = { actions: stored.actions, cursor: stored.cursor, revision: stored.revision });
      known = null;
      return true;
    }

    /** Take over labels [sample, label] of a page with other groups; returns how many of them fit, and their number. */
    function takeLabels(pairs) {
      const all = Array.isArray(pairs) ? pairs.filter((row) => Array.isArray(row)) : [];
      const groupOf = new Map(trees.groups.map((entry, group) => [data.points[entry.beat].sample, group]).reverse());
      const fit = all.filter(([sample, label]) => groupOf.has(sample) && symbols.has(label));
      for (const [sample, label] of fit) act({ do: "answer", group: groupOf.get(sample), label });
      return [fit.length, all.length];
    }

    return {
      takeLabels, trees, state, act, step, divisible, rows, csv, snapshot, take,
      revision: () => revision,
      canUndo: () => cursor > 0,
      canRedo: () => cursor < actions.length,
    };
  }

  return { open, MORE };
})();
if (typeof module !== "undefined") module.exports = EcgLabelBook;
