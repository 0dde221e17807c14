"use strict";
/*
 * Query strategy, label propagation and expected label errors: the same rules as ecgfed/domain/labels/choose.py,
 * spread.py and label_errors.py, for pages without a server (tests/labels/test_choose_js.py compares both on the same
 * recordings). Labels are a Map: beat -> label.
 *
 * data = the page's (ecgfed/domain/labels/page.py), the fields used here:
 *   groups: [{parent, size, beat, prior}]     a tree, the root first, children after their parents; of leaves also
 *                                             spread: [shape, rhythm, context]
 *   points: {beat: {leaf, at}}                of every beat that represents a group: its leaf, its point
 *   parts: {shape, rhythm, context: [from, to]}   columns of `at`
 *   rule: {weights, bias, near, no_share, kind_of, kinds}
 *   errors: {weights, bias, correlation, level, most_answers, no_rival}
 */
const EcgChoose = (() => {
  /** Maximum estimated probability of another label for a covered beat. */
  const REACH = 0.05;

  /** Return the tree with the paths to its root, its children and leaves. */
  function tree(data) {
    const groups = data.groups;
    const paths = groups.map((node, group) => {
      const path = [group];
      for (let at = node.parent; at !== null && at >= 0; at = groups[at].parent) path.push(at);
      return path;
    });
    const children = groups.map(() => []);
    groups.forEach((node, group) => paths[group].length > 1 && children[node.parent].push(group));
    const points = new Map(Object.entries(data.points).map(([beat, point]) => [Number(beat), point]));
    const leaves = groups.map((_, group) => group).filter((group) => !children[group].length);
    return { groups, paths, children, leaves, points, parts: data.parts, rule: data.rule, errors: data.errors };
  }

  /** Sum in numpy's order, eight at a time, so that distances compare equally. */
  function sum(values) {
    const length = values.length;
    if (length < 8) return values.reduce((a, b) => a + b, 0);
    const r = values.slice(0, 8);
    let i = 8;
    for (; i < length - (length % 8); i += 8) for (let k = 0; k < 8; k += 1) r[k] += values[i + k];
    let total = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
    for (; i < length; i += 1) total += values[i];
    return total;
  }

  function squares(a, b, [from, to] = [0, a.length]) {
    const terms = [];
    for (let i = from; i < to; i += 1) terms.push((a[i] - b[i]) ** 2);
    return sum(terms);
  }

  /** Assign the labelled beats to all groups that contain them, in order. */
  function labelledTree(trees, labels) {
    const inside = trees.groups.map(() => []);
    for (const beat of Array.from(labels.keys()).sort((a, b) => a - b)) {
      for (const group of trees.paths[trees.points.get(beat).leaf]) inside[group].push(beat);
    }
    return { trees, labels, inside };
  }

  /** Return the smallest enclosing group with a labelled beat, and the labelled beat nearest to the group's beat. */
  function nearest({ trees, inside }, group) {
    const around = trees.paths[group].find((candidate) => inside[candidate].length);
    const at = trees.points.get(trees.groups[group].beat).at;
    let [best, shortest] = [-1, Infinity];
    for (const beat of inside[around]) {
      const squared = squares(trees.points.get(beat).at, at);
      if (squared < shortest) [best, shortest] = [beat, squared];
    }
    return [around, best];
  }

  /** Return the features of the rule for a group, its smallest enclosing group with a label, and the labelled beat. */
  function featuresOf({ trees, labels }, group, around, beat) {
    const { groups, points, parts, rule } = trees;
    const kind = rule.kind_of[labels.get(beat)] || "";
    const known = rule.kinds.indexOf(kind);
    const prior = groups[group].prior;
    const same = known >= 0 ? prior[known] : rule.no_share;
    const rest = Math.max(...prior.filter((_, i) => i !== known));
    const [mine, two] = [points.get(groups[group].beat).at, points.get(beat).at];
    const logDistance = (part) => Math.log(Math.sqrt(squares(mine, two, parts[part])) + rule.near);
    const normal = kind === "N" ? 1 : 0;
    const of = (target) => (kind === target ? 1 : 0);
    return {
      prior_same: Math.log(same),
      prior_other: Math.log(rest),
      size: Math.log(groups[group].size),
      share: Math.log(groups[group].size / groups[around].size),
      shape: logDistance("shape"),
      rhythm: logDistance("rhythm"),
      context: logDistance("context"),
      is_N: normal,
      is_S: of("S"),
      is_V: of("V"),
      is_F: of("F"),
      is_other: 1 - (normal + of("S") + of("V") + of("F")),
      prior_same_N: normal * Math.log(same),
      shape_N: normal * logDistance("shape"),
      context_N: normal * logDistance("context"),
    };
  }

  /** Return the probability of a logistic regression {weights, bias}. */
  function logistic({ weights, bias }, features) {
    let total = bias;
    for (const [name, weight] of Object.entries(weights)) total += weight * features[name];
    return 1 / (1 + Math.exp(-total));
  }

  /** Return the probability that a group's beats have another label than the labelled beat. */
  const differs = (labelled, group, around, beat) => logistic(labelled.trees.rule, featuresOf(labelled, group, around, beat));

  const distance = (a, b) => Math.sqrt(squares(a, b));

  /** Return the share of labelled beats whose nearest neighbour is of another kind; 0 for a single beat. */
  function isolatedShare(labelled) {
    if (labelled.length < 2) return 0;
    const isolated = labelled.filter((entry) => {
      let [nearest, shortest] = [null, Infinity];
      for (const candidate of labelled) {
        const away = candidate === entry ? Infinity : distance(entry.at, candidate.at);
        if (away < shortest) [nearest, shortest] = [candidate, away];
      }
      return nearest.kind !== entry.kind;
    });
    return isolated.length / labelled.length;
  }

  /**
   * Return the expected number of beats with a wrong label, as ecgfed/domain/labels/label_errors.py does:
   * {beats, low, high, of}; low and high bound a 90% interval.
   */
  function expectedErrors(trees, labels) {
    const { groups, points, rule, errors } = trees;
    const labelled = labelledTree(trees, labels);
    const kindOf = (beat) => rule.kind_of[labels.get(beat)] || "";
    const beats = Array.from(labels.keys()).sort((a, b) => a - b);
    const entries = beats.map((beat) => ({ kind: kindOf(beat), at: points.get(beat).at }));
    const common = {
      answers: Math.log(Math.min(entries.length, errors.most_answers)),
      isolated: isolatedShare(entries),
    };
    let expected = 0;
    let of = beats.filter((beat) => labels.get(beat) !== "?").length;
    for (const leaf of trees.leaves) {
      const [around, beat] = nearest(labelled, leaf);
      if (labels.get(beat) === "?") continue;
      const unanswered = groups[leaf].size - labelled.inside[leaf].length;
      const at = points.get(groups[leaf].beat).at;
      const kind = kindOf(beat);
      let [rival, shortest] = [null, Infinity];
      for (const entry of entries) {
        const separation = entry.kind === kind ? Infinity : distance(entry.at, at);
        if (separation < shortest) [rival, shortest] = [entry, separation];
      }
      const away = rival ? shortest + rule.near : errors.no_rival;
      const margin = Math.log(distance(points.get(beat).at, at) + rule.near) - Math.log(away);
      const pair = rival ? [kind, rival.kind].sort().join("") : "";
      const spread = groups[leaf].spread.map((width) => Math.log(width + rule.near));
      const share = logistic(errors, {
        ...featuresOf(labelled, leaf, around, beat),
        spread_shape: spread[0],
        spread_rhythm: spread[1],
        spread_context: spread[2],
        inside: around === leaf ? 1 : 0,
        margin,
        no_rival: rival ? 0 : 1,
        fusion: pair === "FV" ? 1 : 0,
        supra: pair === "NS" ? 1 : 0,
        fusion_margin: pair === "FV" ? margin : 0,
        supra_margin: pair === "NS" ? margin : 0,
        ...common,
      });
      expected += unanswered * share;
      of += unanswered;
    }
    const [low, high] = interval(expected, of, errors);
    return { beats: expected, low, high, of };
  }

  /** Logarithm of the gamma function (Lanczos, SIAM Journal on Numerical Analysis B 1:86-96, 1964; g = 7, nine terms). */
  function logGamma(x) {
    if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
    const terms = [
      0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
      12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
    ];
    const t = x + 6.5;
    const sum = terms.slice(1).reduce((total, term, i) => total + term / (x + i), terms[0]);
    return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
  }

  /** Return the central interval of a beta-binomial distribution over `count` beats with this mean. */
  function interval(expected, length, { correlation, level }) {
    const share = length ? expected / length : 0;
    if (!(share > 0 && share < 1)) return [Math.round(expected), Math.round(expected)];
    const strength = 1 / correlation - 1;
    const [a, b] = [share * strength, (1 - share) * strength];
    let chance = Math.exp(logGamma(length + b) - logGamma(length + a + b) - logGamma(b) + logGamma(a + b));
    const ends = [];
    let total = chance;
    for (let k = 0; k <= length && ends.length < 2; k += 1) {
      while (ends.length < 2 && total >= [(1 - level) / 2, (1 + level) / 2][ends.length]) ends.push(k);
      chance *= ((length - k) / (k + 1)) * ((a + k) / (length - k - 1 + b));
      total += chance;
    }
    while (ends.length < 2) ends.push(length);
    return ends;
  }

  /**
   * Return the group whose beat is the next query, null if every group's beat is labelled or passed over.
   * passed: a Set of beats to skip; within: restricts the query to this group and its parts.
   */
  function next(trees, labels, { passed = new Set(), within = null } = {}) {
    const { groups, paths } = trees;
    const open = (group) => !passed.has(groups[group].beat) && (within === null || paths[group].includes(within));
    const all = groups.map((_, group) => group).filter(open);
    if (!labels.size) return all.length ? all[0] : null;
    const labelled = labelledTree(trees, labels);
    let [best, highest] = [null, -Infinity];
    for (const group of all) {
      if (labelled.inside[group].length) continue;
      const [around, beat] = nearest(labelled, group);
      const wrong = groups[group].size * differs(labelled, group, around, beat);
      if (wrong > highest) [best, highest] = [group, wrong];
    }
    return best;
  }

  /**
   * Propagate labels: return the labelled beat that determines the label of each leaf, and the number of beats that each
   * labelled beat determines. A beat takes the label of the labelled beat in the smallest group that contains both, of
   * several the nearest; a labelled beat keeps its own. covered: beats whose leaf contains a labelled beat, or whose
   * estimated probability of another label is at most REACH; beats labelled "?" are not covered.
   */
  function spread(trees, labels) {
    const origin = new Map();
    const beats = new Map(Array.from(labels.keys(), (beat) => [beat, 0]));
    if (!labels.size) return { origin, beats, covered: 0 };
    const labelled = labelledTree(trees, labels);
    let covered = 0;
    for (const leaf of trees.leaves) {
      const [around, beat] = nearest(labelled, leaf);
      const size = trees.groups[leaf].size;
      origin.set(leaf, beat);
      beats.set(beat, beats.get(beat) + size);
      const sure = around === leaf || differs(labelled, leaf, around, beat) <= REACH;
      if (sure && labels.get(beat) !== "?") covered += size;
    }
    for (const beat of labels.keys()) {
      const from = origin.get(trees.points.get(beat).leaf);
      beats.set(from, beats.get(from) - 1);
      beats.set(beat, beats.get(beat) + 1);
    }
    return { origin, beats, covered };
  }

  /** Kinds that are often confused; minimum number of beats of a contested label, and maximum number of them. */
  const PAIRS = ["FV", "NS"];
  const [MIN_BEATS, MAX_CONTESTED] = [5, 3];

  /**
   * Return labels to confirm, as ecgfed/domain/labels/contested.py does: [{beat, rival, beats}], those with the most
   * dependent beats first. confirmed: a Set of beats labelled twice; beats: from `spread`.
   */
  function contested(trees, labels, beats, confirmed) {
    const { points, rule } = trees;
    const labelledBeats = Array.from(labels.keys()).sort((a, b) => a - b);
    const kindOf = (beat) => rule.kind_of[labels.get(beat)] || "";
    const candidates = [];
    for (const beat of labelledBeats) {
      let [rival, shortest] = [null, Infinity];
      for (const candidate of labelledBeats) {
        const away = candidate === beat ? Infinity : distance(points.get(beat).at, points.get(candidate).at);
        if (away < shortest) [rival, shortest] = [candidate, away];
      }
      const pair = rival === null ? "" : [kindOf(beat), kindOf(rival)].sort().join("");
      const worth = PAIRS.includes(pair) && beats.get(beat) >= MIN_BEATS && !confirmed.has(beat);
      if (worth) candidates.push({ beat, rival, beats: beats.get(beat) });
    }
    return candidates.sort((a, b) => b.beats - a.beats || a.beat - b.beat).slice(0, MAX_CONTESTED);
  }

  return { tree, next, spread, expectedErrors, contested, PAIRS, REACH };
})();
if (typeof module !== "undefined") module.exports = EcgChoose;
