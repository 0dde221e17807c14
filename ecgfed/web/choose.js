"use strict";
/*
 * Which group of beats to ask for next, and what the answers so far say of all beats: the same rules as
 * ecgfed/labels/choose.py and ecgfed/labels/spread.py, so that a page without a server asks as Python would
 * (tests/labels/test_choose_js.py runs both on the same recordings). Answers are a Map: beat -> its label.
 *
 * data = the page's (ecgfed/labels/page.py), of which are used here:
 *   groups: [{parent, size, beat, prior}]     a tree, the whole first, parts after what they are part of
 *   points: {beat: {leaf, at}}                of every beat that stands for a group: its smallest group, its point
 *   parts: {shape, rhythm, context: [from, to]}   columns of `at`
 *   rule: {weights, bias, near, no_share, kind_of, kinds}
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
    return { groups, paths, children, leaves, points, parts: data.parts, rule: data.rule };
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

  /** Return how likely a group's beats have another label than that of an answered beat. */
  function differs({ trees, labels }, group, around, beat) {
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
    const features = {
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
    let total = rule.bias;
    for (const [name, weight] of Object.entries(rule.weights)) total += weight * features[name];
    return 1 / (1 + Math.exp(-total));
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

  return { tree, next, spread, REACH };
})();
if (typeof module !== "undefined") module.exports = EcgChoose;
