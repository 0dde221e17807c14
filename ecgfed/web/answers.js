"use strict";
/*
 * What a person has answered on the labelling page: a list of actions of which some may be undone, and what follows from
 * it. Everything shown is made anew of this list, so that undo, redo and a reload cannot disagree. Needs choose.js.
 *
 * Actions: {do: "answer", group, label}, {do: "later", group}, {do: "split", group}, {do: "merge", beat, into} (both
 * beats answered), {do: "more"} (ask on).
 */
const EcgAnswers = (() => {
  /** So many questions more each time that somebody asks on. */
  const MORE = 5;
  const MOST_ACTIONS = 20000;

  function open(data) {
    const trees = EcgChoose.tree(data);
    const symbols = new Set(data.labels.map((one) => one.symbol));
    let actions = [];
    let cursor = 0;
    let revision = 0;
    let known = null;

    const isGroup = (group) => Number.isInteger(group) && group >= 0 && group < trees.groups.length;
    const beatOf = (group) => trees.groups[group].beat;
    const kindOf = (label) => data.rule.kind_of[label] || "";
    const isPair = (one, other) => EcgChoose.PAIRS.includes([kindOf(one), kindOf(other)].sort().join(""));

    /** Say whether an action can be one, whoever wrote it. */
    function valid(one) {
      if (one === null || typeof one !== "object") return false;
      if (one.do === "answer") return isGroup(one.group) && symbols.has(one.label);
      if (one.do === "later" || one.do === "split") return isGroup(one.group);
      if (one.do === "merge") return trees.points.has(one.beat) && trees.points.has(one.into) && one.beat !== one.into;
      return one.do === "more";
    }

    /** Return the answered beat whose label a beat has in the end: itself, or what it was merged into. */
    function headOf(given, beat) {
      while (given.get(beat).into !== null) beat = given.get(beat).into;
      return beat;
    }

    /** Play the actions that are not undone. */
    function played() {
      // beat -> {group, label, into, before: its earlier labels}; in the order in which beats were first answered
      const given = new Map();
      const later = new Map(); // beat -> group, in the order in which they come back
      const split = [];
      let goal = data.count;
      for (const one of actions.slice(0, cursor)) {
        if (one.do === "answer") {
          const last = given.get(beatOf(one.group));
          const before = last ? [...last.before, last.label] : [];
          given.set(beatOf(one.group), { group: one.group, label: one.label, into: null, before });
          later.delete(beatOf(one.group));
        } else if (one.do === "later") {
          later.delete(beatOf(one.group));
          later.set(beatOf(one.group), one.group);
        } else if (one.do === "split") {
          if (!split.includes(one.group)) split.push(one.group);
        } else if (one.do === "merge") {
          const there = given.has(one.beat) && given.has(one.into);
          if (there && headOf(given, one.into) !== one.beat) given.get(one.beat).into = headOf(given, one.into);
        } else {
          goal = Math.max(goal, given.size) + MORE;
        }
      }
      return { given, later, split, goal };
    }

    /** Return what there is to show: made once for each change. */
    function state() {
      if (known) return known;
      const { given, later, split, goal } = played();
      const labels = new Map(Array.from(given.keys(), (beat) => [beat, given.get(headOf(given, beat)).label]));
      const counted = EcgChoose.spread(trees, labels);
      // confirmed: the label is one that the beat was given before; of two that differ a third answer decides
      const isConfirmed = ({ label, before, into }) => into === null && before.includes(label);
      const confirmed = new Set(Array.from(given.keys()).filter((beat) => isConfirmed(given.get(beat))));
      const answered = Array.from(given, ([beat, one]) => ({
        beat,
        group: one.group,
        into: one.into,
        label: labels.get(beat),
        beats: counted.beats.get(beat),
        source: one.into !== null ? "merged" : confirmed.has(beat) ? "confirmed" : "clinician",
        differs: one.into === null && !confirmed.has(beat) && isPair(one.label, one.before.at(-1)),
      }));
      const contested = EcgChoose.contested(trees, labels, counted.beats, confirmed);
      const expected = labels.size ? EcgChoose.expectedErrors(trees, labels) : null;
      known = { labels, answered, later, split, goal, covered: counted.covered, contested, expected };
      known.asking = question(known);
      return known;
    }

    /** Return the parts of a group of which no beat is answered. */
    function unansweredParts(group, labels) {
      const held = new Set(Array.from(labels.keys()).flatMap((beat) => trees.paths[trees.points.get(beat).leaf]));
      const parts = trees.children[group].filter((part) => !held.has(part));
      return parts.sort((a, b) => trees.groups[b].size - trees.groups[a].size || a - b);
    }

    /**
     * Return the group to ask for: first the parts of groups that are to be split, the last one that was asked for
     * first; then where most beats may have another label; in the end what was put off. Null where all is answered.
     */
    function question({ labels, later, split }) {
      const passed = new Set(later.keys());
      for (const group of split.slice().reverse()) {
        for (const part of unansweredParts(group, labels)) {
          const found = EcgChoose.next(trees, labels, { passed, within: part });
          if (found !== null) return found;
        }
      }
      const found = EcgChoose.next(trees, labels, { passed });
      if (found !== null) return found;
      const rest = Array.from(later.values());
      return rest.length ? rest[0] : null;
    }

    function changed() {
      revision += 1;
      known = null;
    }

    /** Do something; what was undone before is gone then. */
    function act(one) {
      if (!valid(one)) throw new Error(`not an action: ${JSON.stringify(one)}`);
      actions = [...actions.slice(0, cursor), one];
      cursor += 1;
      changed();
    }

    /** Move along the actions by one; return the action undone or done again, null where there is none. */
    function step(by) {
      const to = cursor + by;
      if (to < 0 || to > actions.length) return null;
      const one = actions[Math.min(cursor, to)];
      cursor = to;
      changed();
      return one;
    }

    /** Return whether more can be asked of a group's parts. */
    function divisible(group) {
      const { labels, split } = state();
      return trees.children[group].length > 0 && !split.includes(group) && unansweredParts(group, labels).length > 0;
    }

    /** Return the answers in order of time, as rows of the labels' file. */
    function rows() {
      const sampleOf = (beat) => data.points[beat].sample;
      return state()
        .answered.map((one) => ({ sample: sampleOf(one.beat), time_s: data.points[one.beat].time_s, ...one }))
        .sort((a, b) => a.sample - b.sample);
    }

    /** Write a cell as RFC 4180 has it. */
    const cell = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

    /** Return the labels' file. */
    function csv() {
      const lines = [["recording", "sample", "time_s", "label", "beats", "source"]];
      for (const one of rows()) {
        lines.push([data.recording, one.sample, one.time_s.toFixed(3), one.label, one.beats, one.source]);
      }
      return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
    }

    /** Return everything, to be kept. */
    const kept = () => ({
      version: 1, recording: data.recording, groups: data.digest, revision, cursor, actions,
      given: rows().map((one) => [one.sample, one.label]), // what a page with other groups can take over
    });

    /** Take what was kept; return false, and change nothing, where it is not of this page. */
    function take(one) {
      const whole =
        one !== null && typeof one === "object" && one.version === 1 && one.recording === data.recording &&
        one.groups === data.digest && Number.isSafeInteger(one.revision) && one.revision >= 0 &&
        Array.isArray(one.actions) && one.actions.length <= MOST_ACTIONS && one.actions.every(valid) &&
        Number.isInteger(one.cursor) && one.cursor >= 0 && one.cursor <= one.actions.length;
      if (!whole) return false;
      ({ actions, cursor, revision } = { actions: one.actions, cursor: one.cursor, revision: one.revision });
      known = null;
      return true;
    }

    /** Take over labels [sample, label] of a page with other groups; return how many of how many fit this one. */
    function takeLabels(given) {
      const all = Array.isArray(given) ? given.filter((one) => Array.isArray(one)) : [];
      const groupOf = new Map(trees.groups.map((one, group) => [data.points[one.beat].sample, group]).reverse());
      const fit = all.filter(([sample, label]) => groupOf.has(sample) && symbols.has(label));
      for (const [sample, label] of fit) act({ do: "answer", group: groupOf.get(sample), label });
      return [fit.length, all.length];
    }

    return {
      takeLabels, trees, state, act, step, divisible, rows, csv, kept, take,
      revision: () => revision,
      canUndo: () => cursor > 0,
      canRedo: () => cursor < actions.length,
    };
  }

  return { open, MORE };
})();
if (typeof module !== "undefined") module.exports = EcgAnswers;
