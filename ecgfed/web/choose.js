"use strict";
/*
 * Which group of beats to ask for next, and what the answers so far say of all beats: the same rules as
 * ecgfed/domain/labels/choose.py, label_errors.py and spread.py, so that a page without a server asks as Python would
 * (tests/labels/test_choose_js.py runs both on the same recordings). Answers are a Map: beat -> its label.
 *
 * data = the page's (ecgfed/domain/labels/page.py), of which are used here:
 *   groups: [{parent, size, beat, prior}]     a tree, the whole first, parts after what they are part of; of the
 *                                             smallest ones also spread: [shape, rhythm, context]
 *   points: {beat: {leaf, at}}                of every beat that stands for a group: its smallest group, its point
 *   parts: {shape, rhythm, context: [from, to]}   columns of `at`
 *   rule: {weights, bias, near, no_share, kind_of, kinds}
 *   errors: {weights, bias, correlation, level, most_answers, no_rival}
 */
const EcgChoose = (() => {
  /** The estimated chance that a label is another one, up to which beats count as covered. */
  const REACH = 0.05;

  /** Return the tree with what is needed often: paths to the whole, children, leaves. */
  function tree(data) {
    const groups = data.groups;
    const paths = groups.map((one, group) => {
      const path = [group];
      for (let at = one.parent; at !== null && at >= 0; at = groups[at].parent) path.push(at);
      return path;
    });
    const children = groups.map(() => []);
    groups.forEach((one, group) => paths[group].length > 1 && children[one.parent].push(group));
    const points = new Map(Object.entries(data.points).map(([beat, one]) => [Number(beat), one]));
    const leaves = groups.map((_, group) => group).filter((group) => !children[group].length);
    return { groups, paths, children, leaves, points, parts: data.parts, rule: data.rule, errors: data.errors };
  }

  /** Sum as numpy does, eight at a time, so that what is nearest here is nearest there. */
  function sum(values) {
    const many = values.length;
    if (many < 8) return values.reduce((a, b) => a + b, 0);
    const r = values.slice(0, 8);
    let i = 8;
    for (; i < many - (many % 8); i += 8) for (let k = 0; k < 8; k += 1) r[k] += values[i + k];
    let total = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
    for (; i < many; i += 1) total += values[i];
    return total;
  }

  function squares(one, other, [from, to] = [0, one.length]) {
    const found = [];
    for (let i = from; i < to; i += 1) found.push((one[i] - other[i]) ** 2);
    return sum(found);
  }

  /** Sort the answered beats into the groups: for each group those it holds, in order. */
  function asked(trees, labels) {
    const inside = trees.groups.map(() => []);
    for (const beat of Array.from(labels.keys()).sort((a, b) => a - b)) {
      for (const group of trees.paths[trees.points.get(beat).leaf]) inside[group].push(beat);
    }
    return { trees, labels, inside };
  }

  /** Return the smallest group around one that holds an answered beat, and the one of these nearest its beat. */
  function nearest({ trees, inside }, group) {
    const around = trees.paths[group].find((one) => inside[one].length);
    const at = trees.points.get(trees.groups[group].beat).at;
    let [found, least] = [-1, Infinity];
    for (const beat of inside[around]) {
      const far = squares(trees.points.get(beat).at, at);
      if (far < least) [found, least] = [beat, far];
    }
    return [around, found];
  }

  /** Return what the rule looks at, of a group, the smallest one around it with an answer, and the answered beat. */
  function featuresOf({ trees, labels }, group, around, beat) {
    const { groups, points, parts, rule } = trees;
    const kind = rule.kind_of[labels.get(beat)] || "";
    const known = rule.kinds.indexOf(kind);
    const prior = groups[group].prior;
    const same = known >= 0 ? prior[known] : rule.no_share;
    const other = Math.max(...prior.filter((_, i) => i !== known));
    const [one, two] = [points.get(groups[group].beat).at, points.get(beat).at];
    const far = (part) => Math.log(Math.sqrt(squares(one, two, parts[part])) + rule.near);
    const normal = kind === "N" ? 1 : 0;
    const of = (wanted) => (kind === wanted ? 1 : 0);
    return {
      prior_same: Math.log(same),
      prior_other: Math.log(other),
      size: Math.log(groups[group].size),
      share: Math.log(groups[group].size / groups[around].size),
      shape: far("shape"),
      rhythm: far("rhythm"),
      context: far("context"),
      is_N: normal,
      is_S: of("S"),
      is_V: of("V"),
      is_F: of("F"),
      is_other: 1 - (normal + of("S") + of("V") + of("F")),
      prior_same_N: normal * Math.log(same),
      shape_N: normal * far("shape"),
      context_N: normal * far("context"),
    };
  }

  /** Return the probability of a logistic regression {weights, bias}. */
  function logistic({ weights, bias }, features) {
    let total = bias;
    for (const [name, weight] of Object.entries(weights)) total += weight * features[name];
    return 1 / (1 + Math.exp(-total));
  }

  /** Return how likely a group's beats have another label than that of an answered beat. */
  const differs = (found, group, around, beat) => logistic(found.trees.rule, featuresOf(found, group, around, beat));

  const distance = (one, other) => Math.sqrt(squares(one, other));

  /** Return the share of the answers whose nearest other answer is of another kind; 0 of one answer alone. */
  function isolatedShare(answers) {
    if (answers.length < 2) return 0;
    const apart = answers.filter((one) => {
      let [nearest, least] = [null, Infinity];
      for (const other of answers) {
        const far = other === one ? Infinity : distance(one.at, other.at);
        if (far < least) [nearest, least] = [other, far];
      }
      return nearest.kind !== one.kind;
    });
    return apart.length / answers.length;
  }

  /**
   * Return how many beats are expected to have a wrong label, as ecgfed/domain/labels/label_errors.py does:
   * {beats, low, high, of}, low and high being the ends of a 90% interval.
   */
  function expectedErrors(trees, labels) {
    const { groups, points, rule, errors } = trees;
    const found = asked(trees, labels);
    const kindOf = (beat) => rule.kind_of[labels.get(beat)] || "";
    const beats = Array.from(labels.keys()).sort((a, b) => a - b);
    const answers = beats.map((beat) => ({ kind: kindOf(beat), at: points.get(beat).at }));
    const common = {
      answers: Math.log(Math.min(answers.length, errors.most_answers)),
      isolated: isolatedShare(answers),
    };
    let expected = 0;
    let of = beats.filter((beat) => labels.get(beat) !== "?").length;
    for (const leaf of trees.leaves) {
      const [around, beat] = nearest(found, leaf);
      if (labels.get(beat) === "?") continue;
      const unanswered = groups[leaf].size - found.inside[leaf].length;
      const at = points.get(groups[leaf].beat).at;
      const kind = kindOf(beat);
      let [rival, least] = [null, Infinity];
      for (const one of answers) {
        const far = one.kind === kind ? Infinity : distance(one.at, at);
        if (far < least) [rival, least] = [one, far];
      }
      const away = rival ? least + rule.near : errors.no_rival;
      const margin = Math.log(distance(points.get(beat).at, at) + rule.near) - Math.log(away);
      const pair = rival ? [kind, rival.kind].sort().join("") : "";
      const spread = groups[leaf].spread.map((one) => Math.log(one + rule.near));
      const share = logistic(errors, {
        ...featuresOf(found, leaf, around, beat),
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

  /** Return the central interval of a beta-binomial distribution with this mean among so many beats. */
  function interval(expected, many, { correlation, level }) {
    const share = many ? expected / many : 0;
    if (!(share > 0 && share < 1)) return [Math.round(expected), Math.round(expected)];
    const strength = 1 / correlation - 1;
    const [a, b] = [share * strength, (1 - share) * strength];
    let chance = Math.exp(logGamma(many + b) - logGamma(many + a + b) - logGamma(b) + logGamma(a + b));
    const ends = [];
    let total = chance;
    for (let k = 0; k <= many && ends.length < 2; k += 1) {
      while (ends.length < 2 && total >= [(1 - level) / 2, (1 + level) / 2][ends.length]) ends.push(k);
      chance *= ((many - k) / (k + 1)) * ((a + k) / (many - k - 1 + b));
      total += chance;
    }
    while (ends.length < 2) ends.push(many);
    return ends;
  }

  /**
   * Return the group whose beat to ask for next, null where every group's beat is answered or passed over.
   * passed: a Set of beats not to be asked for now; within: only parts of this group, and itself.
   */
  function next(trees, labels, { passed = new Set(), within = null } = {}) {
    const { groups, paths } = trees;
    const open = (group) => !passed.has(groups[group].beat) && (within === null || paths[group].includes(within));
    const all = groups.map((_, group) => group).filter(open);
    if (!labels.size) return all.length ? all[0] : null;
    const found = asked(trees, labels);
    let [best, most] = [null, -Infinity];
    for (const group of all) {
      if (found.inside[group].length) continue;
      const [around, beat] = nearest(found, group);
      const wrong = groups[group].size * differs(found, group, around, beat);
      if (wrong > most) [best, most] = [group, wrong];
    }
    return best;
  }

  /**
   * Give every smallest group the answered beat that its label is from, and count the beats each answer stands for.
   * A beat takes the label of the answered beats in the smallest group that holds it and one of them, of several labels
   * that of the nearest; an answered beat keeps its own. covered: beats whose smallest group holds an answered beat, or
   * whose label is another one with an estimated chance of at most REACH; none that nobody could tell.
   */
  function spread(trees, labels) {
    const origin = new Map();
    const beats = new Map(Array.from(labels.keys(), (beat) => [beat, 0]));
    if (!labels.size) return { origin, beats, covered: 0 };
    const found = asked(trees, labels);
    let covered = 0;
    for (const leaf of trees.leaves) {
      const [around, beat] = nearest(found, leaf);
      const size = trees.groups[leaf].size;
      origin.set(leaf, beat);
      beats.set(beat, beats.get(beat) + size);
      const sure = around === leaf || differs(found, leaf, around, beat) <= REACH;
      if (sure && labels.get(beat) !== "?") covered += size;
    }
    for (const beat of labels.keys()) {
      const from = origin.get(trees.points.get(beat).leaf);
      beats.set(from, beats.get(from) - 1);
      beats.set(beat, beats.get(beat) + 1);
    }
    return { origin, beats, covered };
  }

  /** Kinds that people confuse; an answer of fewer beats is not asked again, and no more answers than so many. */
  const PAIRS = ["FV", "NS"];
  const [LEAST_BEATS, MOST_CONTESTED] = [5, 3];

  /**
   * Return answers to ask again, as ecgfed/domain/labels/contested.py does: [{beat, rival, beats}], those that most beats
   * depend on first. confirmed: a Set of answers that were given twice; beats: of `spread`.
   */
  function contested(trees, labels, beats, confirmed) {
    const { points, rule } = trees;
    const answers = Array.from(labels.keys()).sort((a, b) => a - b);
    const kindOf = (beat) => rule.kind_of[labels.get(beat)] || "";
    const found = [];
    for (const beat of answers) {
      let [rival, least] = [null, Infinity];
      for (const other of answers) {
        const far = other === beat ? Infinity : distance(points.get(beat).at, points.get(other).at);
        if (far < least) [rival, least] = [other, far];
      }
      const pair = rival === null ? "" : [kindOf(beat), kindOf(rival)].sort().join("");
      const worth = PAIRS.includes(pair) && beats.get(beat) >= LEAST_BEATS && !confirmed.has(beat);
      if (worth) found.push({ beat, rival, beats: beats.get(beat) });
    }
    return found.sort((a, b) => b.beats - a.beats || a.beat - b.beat).slice(0, MOST_CONTESTED);
  }

  return { tree, next, spread, expectedErrors, contested, PAIRS, REACH };
})();
if (typeof module !== "undefined") module.exports = EcgChoose;
