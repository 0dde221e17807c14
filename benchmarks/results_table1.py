"""The results page's section on table 1 of the GRP-FED paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import known_runs, of_spread, short, table
from scipy.stats import spearmanr

RUNS = Path(__file__).with_name("table1") / "runs.json"
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WRONG_NOW = "change the sentence: the runs say otherwise now"
SCORES = ("T_g", "T_p", "T_r", "T_l")
IN_TRUTH = "The same over the classes in truth ([what the two conventions do](macro-f1.md)):"
#: Figures of table 1's runs, in docs/images, with what a reader who cannot see them is told.
FIGURES = {
    "frontier": "T_p against T_r of every method and simple personal answer",
    "clients": "Figure 1 of the paper: features of each client's beats, the clients' classes, FedAvg's F1 on each",
    "losses": "Figure 3 of the paper: mean and largest training loss over the passes, four methods",
    "beta": "Figure 4 of the paper: T_p, T_r and T_l of GRP-FED by beta, 12 passes",
    "cases": "Figure 5 of the paper: five methods on a patient near everybody's classes and on one far from them",
}
CURVES = ("FedAvg", "AFL", "q-FFL", "GRP-FED")
CASES = ("FedAvg", "q-FFL", "LG-FedAvg", "pFedMe", "GRP-FED")
#: Of several classes, the patients nearest to everybody's mix of classes and farthest from it (figure 5 names them).
NEAR, FAR = "223", "107"


def table1(found: dict[str, Any]) -> list[str]:
    """Table 1 at equal passes, at equal work, as printed and with more passes, and the figures that are there."""
    lines = [
        "12 passes over the training beats, batches of 16, no RR intervals"
        " ([why so few passes](decisions/0037-small-batches.md)). Each method\ntuned by three trials on validation"
        " beats. The paper's value is in brackets, beside its T_l what equation 6 makes of its T_p\nand T_r.",
        "",
    ]
    work = at_equal_work(found)
    rows = []
    for row in found["passes"]:
        cells = [f"{of_spread(row['scores'][key])}{theirs}" for key, theirs in zip(SCORES, of_paper(row), strict=True)]
        equal = work.get(row["name"])
        at_work = of_spread(equal["scores"]["T_l"]) if equal else ""
        rows.append((shown(row), row["seeds"], *cells, of_spread(row["worst_decile"]), at_work))
    lines += table(("method", "seeds", *SCORES, "worst tenth", "T_l at equal work"), rows)
    truth = [(shown(row), *(of_spread(row["scores_truth"][key]) for key in SCORES)) for row in found["passes"]]
    lines += ["", IN_TRUTH, "", *table(("method", *SCORES), truth), *as_printed(found.get("printed", []))]
    lines += [*five_times_the_steps(found["passes"], found.get("sixty", [])), "", *table1_against_paper(found)]
    for name, told in FIGURES.items():
        drawn = name != "beta" or len(found.get("beta", ())) > 1
        if drawn and (IMAGES / f"results-{name}.svg").is_file():
            lines += ["", f"![{told}](images/results-{name}.svg)"]
    if found["unfinished"]:
        lines += ["", "Trainings that are not finished, and stand here with fewer seeds or not at all:", ""]
        lines += [f"- {part}" for part in found["unfinished"]]
    return lines


def shown(row: dict[str, Any]) -> str:
    """A row's name; of FedGate, with which weights it was trained."""
    return (
        f"{row['name']}, weights by loss"
        if row["name"] == "FedGate" and "q0" in row.get("settings", {})
        else row["name"]
    )


def table1_against_paper(found: dict[str, Any]) -> list[str]:
    """What of the paper's table came out again and what did not, and the likeliest reason."""
    rows = {row["name"]: row for row in found["passes"]}
    eight = [name for name, row in rows.items() if row["paper"]]
    if "GRP-FED" not in eight or len(eight) < 8:
        return []

    def ours(name: str, key: str = "T_l", convention: str = "scores") -> float:
        return float(rows[name][convention][key]["mean"])

    def ranked(convention: str) -> list[str]:
        return sorted(eight, key=lambda name: -ours(name, "T_l", convention))

    def beside(key: str, *names: str) -> str:
        place = SCORES.index(key)
        return ", ".join(f"{name} {ours(name, key):.2f} ({rows[name]['paper'][place]:.2f})" for name in names)

    first, second, *_ = ranked("scores")
    alike = spearmanr([ours(name) for name in eight], [rows[name]["paper"][3] for name in eight]).statistic
    in_truth = ", ".join(f"{name} {ours(name, 'T_l', 'scores_truth'):.3f}" for name in ranked("scores_truth")[:3])
    assert first == "GRP-FED" != ranked("scores_truth")[0], "change the sentences that follow"
    return [
        "Beside the paper (its values in brackets):",
        "",
        f"- The order of its eight methods by T_l nearly comes out again (Spearman's correlation of ranks {alike:.2f}):"
        f" GRP-FED\n  has the best T_l, {of_spread(rows[first]['scores']['T_l'])}, then {second},"
        f" {of_spread(rows[second]['scores']['T_l'])}. By its own equation 6 the paper's best is q-FFL.",
        f"  It does not over the classes in truth (the paper names no convention): there the best are {in_truth}.",
        "  A global model that gives a few of a patient's beats a foreign name loses by the first convention alone.",
        *_at_equal_work(found, eight),
        f"- Global models are better here: T_g of {beside('T_g', 'FedAvg', 'q-FFL', 'GRP-FED')}.",
        "  The likeliest reason is the server's Adam step and batches of 16, which these three have here.",
        f"- Personal models are worse: T_p of {beside('T_p', 'Local', 'LG-FedAvg', 'pFedMe', 'per-FedAvg')}.",
        f"  {_partly_the_steps(found)} per-FedAvg takes two batches"
        "\n  a step, so it has half the rounds, and of its trials T_l chose an alpha of 0.001, which"
        " hardly changes the global model.",
        f"- A kernel machine on FedAvg's frozen features, nothing of it federated, has the best T_p of all,"
        f" {ours('FedAvg, kernel', 'T_p'):.3f}.",
        f"- FedGate's row has the weights by loss that its chosen trial has, not the equal ones it is shipped with: its"
        f" global model is\n  GRP-FED's. Of the same global models the gate makes T_l {ours('FedGate'):.3f}"
        f" ({ours('FedGate', 'T_l', 'scores_truth'):.3f} in truth), GRP-FED's local\n  extractors"
        f" {ours('GRP-FED'):.3f} ({ours('GRP-FED', 'T_l', 'scores_truth'):.3f}), with T_p"
        f" {ours('FedGate', 'T_p'):.3f} and {ours('GRP-FED', 'T_p'):.3f}.",
        *_by_beta(found.get("beta", [])),
        *_by_loss(found),
        *_two_patients(found, known_runs(RUNS)),
        "- Trials were not all chosen beforehand: AFL's after its first, per-FedAvg's third and FedGate's after theirs"
        " were scored",
        "  ([0055](decisions/0055-windows-in-the-papers-table.md)). They were chosen on validation beats, to which the"
        " answers masked,\n  finetune, probe and gated look too, for known classes, the reserve or where to stop;"
        " Local, GRP-FED, LG-FedAvg, head and\n  kernel do not.",
        "- The runs of this page are of several machines, and not all have the same processor. The bits differ, and T_g"
        " by up to 0.02.",
    ]


def _partly_the_steps(found: dict[str, Any]) -> str:
    """Whether personal models get better with five times the steps, where that is known."""
    many = {row["name"]: row["scores"]["T_p"]["mean"] for row in found.get("sixty", [])}
    known = [name for name in ("Local", "LG-FedAvg", "pFedMe") if name in many]
    few = {row["name"]: row["scores"]["T_p"]["mean"] for row in found["passes"]}
    if not known:
        return "Why is open."
    assert all(many[name] > few[name] for name in known), WRONG_NOW
    told = ", ".join(f"{name} {many[name]:.2f}" for name in known)
    return f"In part it is too few steps: with 60 passes {told} (above)."


def _at_equal_work(found: dict[str, Any], eight: Sequence[str]) -> list[str]:
    """Who is best where all take as many gradients."""
    work = at_equal_work(found)
    if not set(eight) <= set(work):
        return []
    ranked = sorted(eight, key=lambda name: -work[name]["scores"]["T_l"]["mean"])
    assert ranked[0] != "GRP-FED", WRONG_NOW
    place, gradients = work["GRP-FED"]["scores"], work["GRP-FED"]["work"]
    return [
        f"- It does not at equal work (as many gradients for all as FedAvg's 12 passes take): there {ranked[0]} is"
        f" best, {work[ranked[0]]['scores']['T_l']['mean']:.3f};\n  GRP-FED, with {12 / gradients:.1f} passes, has"
        f" {of_spread(place['T_l'])}, and T_g {of_spread(place['T_g'])}. Twelve passes are few: T_g still\n"
        "  rises, and the order is one of learning speed too."
    ]


def at_equal_work(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows by name; who takes one gradient for a beat has the same as at equal passes."""
    same = [row for row in found["passes"] if row.get("work", 1) == 1]
    return {row["name"]: row for row in [*same, *found.get("work", [])]}


def _by_beta(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What of the paper's figure 4 came out again."""
    if len(rows) < 5:
        return []
    t_p, t_r, t_l = ([row["scores"][key]["mean"] for row in rows] for key in ("T_p", "T_r", "T_l"))
    assert t_p == sorted(t_p), WRONG_NOW
    assert t_r == sorted(t_r, reverse=True), WRONG_NOW
    best = rows[t_l.index(max(t_l))]
    (half,) = [row for row in rows if row["beta"] == 0.5]
    return [
        f"- The trade-off by beta (its figure 4) comes out again: from {rows[0]['beta']:g} to {rows[-1]['beta']:g} T_p"
        f" rises from {t_p[0]:.2f} to {t_p[-1]:.2f} and T_r falls from {t_r[0]:.2f} to {t_r[-1]:.2f}.",
        f"  T_l is best at {best['beta']:g}, {of_spread(best['scores']['T_l'])}; at 0.5, the paper's best,"
        f" {of_spread(half['scores']['T_l'])}.",
    ]


def drawn_rows(found: dict[str, Any]) -> tuple[int, dict[str, dict[str, Any]]]:
    """Passes and rows of the stage that figures 1, 3 and 5 show: that of 60 passes, where it has them all."""
    longer, rows = ({row["name"]: row for row in found.get(stage, ())} for stage in ("sixty", "passes"))
    return (60, longer) if longer.keys() >= {*CURVES, *CASES} else (12, rows)


def _by_loss(found: dict[str, Any]) -> list[str]:
    """What of the paper's figure 3 came out again."""
    passes, rows = drawn_rows(found)
    if any("last_losses" not in rows[name] for name in CURVES):
        return []
    losses = {name: rows[name]["last_losses"] for name in CURVES}
    assert min(CURVES, key=lambda name: losses[name]["largest"]) == "GRP-FED", WRONG_NOW
    told = ", ".join(f"{name} {short(one['largest'])} ({short(one['mean'])})" for name, one in losses.items())
    return [
        f"- Its figure 3 comes out again, in one seed of {passes} passes: in the last pass GRP-FED's worst served"
        f" client has the smallest\n  loss of four methods: {told}\n  (in brackets the mean over clients)."
    ]


def _two_patients(found: dict[str, Any], runs: dict[str, Any]) -> list[str]:
    """What of the paper's figure 5 came out again: of a first run of 60 passes each."""
    passes, rows = drawn_rows(found)
    if passes != 60:
        return []
    seen = {name: runs[f"sixty/{name}/{rows[name]['trial']}/0"] for name in CASES}

    def scores(name: str, patient: str) -> tuple[float, float]:
        own, everybody = seen[name]["patients"][patient], seen[name]["drawn"]["by_patient"]["T_r"][patient]
        return own, 2 * own * everybody / (own + everybody)

    near, far = ({name: scores(name, patient) for name in CASES} for patient in (NEAR, FAR))
    assert max(CASES, key=lambda name: near[name]) == "GRP-FED", WRONG_NOW
    assert all(own == 1 for own, _ in far.values()), WRONG_NOW
    alike = ("FedAvg", "q-FFL", "GRP-FED")
    assert min(far[name][1] for name in alike) > 0.95, WRONG_NOW
    return [
        f"- Its figure 5 in one seed of {passes} passes. Of the patient near everybody's classes GRP-FED has the best"
        f" T_p ({near['GRP-FED'][0]:.2f}) and T_l\n  ({near['GRP-FED'][1]:.2f}) of the five that are drawn, but none"
        " serves that patient as well as all do in the paper. Of the far one all\n  five get every own beat right."
        f" LG-FedAvg's T_l is poor, {far['LG-FedAvg'][1]:.2f}, as in the paper; GRP-FED's is not ahead:"
        f" {far['GRP-FED'][1]:.3f},\n  FedAvg's {far['FedAvg'][1]:.3f}, with a global model that serves that patient"
        " already."
    ]


def five_times_the_steps(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[str]:
    """The same methods and settings with 60 passes, where they have been run."""
    if not rows:
        return []
    told = [
        (
            shown(row),
            row["seeds"],
            *(f"{of_spread(row['scores'][key])}{theirs}" for key, theirs in zip(SCORES, of_paper(row), strict=True)),
            of_spread(row["worst_decile"]),
            of_spread(row["scores_truth"]["T_l"]),
        )
        for row in rows
    ]
    said = "The same with 60 passes of batches of 16, five times the steps (nothing tuned anew):"
    columns = ("method", "seeds", *SCORES, "worst tenth", "T_l over the classes in truth")
    return ["", said, "", *table(columns, told), *_what_more_steps_change(before, rows)]


def _what_more_steps_change(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[str]:
    """What 60 passes say that 12 do not, where the methods that it is said of are there."""
    few, many = ({row["name"]: row["scores"] for row in one} for one in (before, rows))
    everyone = "of all" if few.keys() <= many.keys() else "of those that are finished"
    tuned, gated = "FedAvg, finetune", "FedAvg, gated"
    if not {"FedAvg", "GRP-FED", "FedGate", tuned, gated} <= few.keys() & many.keys():
        return []

    def score(name: str, key: str) -> str:
        return f"{few[name][key]['mean']:.2f} to {many[name][key]['mean']:.2f}"

    def own(name: str, key: str = "T_p") -> float:
        return float(many[name][key]["mean"])

    assert own("FedGate", "T_l") == max(own(name, "T_l") for name in many), WRONG_NOW
    assert own("GRP-FED", "T_l") > own("FedAvg", "T_l"), WRONG_NOW
    assert own(gated) > own(tuned), WRONG_NOW
    return [
        "",
        f"So 12 passes were too few. From 12 to 60 T_g goes from {score('FedAvg', 'T_g')} with FedAvg, from"
        f" {score('GRP-FED', 'T_g')} with GRP-FED (means of\nas many seeds as each table has). FedGate, weights by"
        f" loss, has the best T_l {everyone}, {own('FedGate', 'T_l'):.2f}; GRP-FED's is\n"
        f"{own('GRP-FED', 'T_l'):.2f}. A sure global model leaves fine-tuning little to do: T_p"
        f" {own(tuned):.2f},\nwhere the gate on the same model has {own(gated):.2f}.",
        *_papers_order(rows),
    ]


def _papers_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Whether the order of the paper's eight methods comes out again, where all of them are there."""
    eight = {row["name"]: row for row in rows if row["paper"]}
    if len(eight) < 8:
        return []

    def t_l(convention: str) -> dict[str, float]:
        return {name: row[convention]["T_l"]["mean"] for name, row in eight.items()}

    def alike(convention: str) -> float:
        return float(spearmanr(list(t_l(convention).values()), [row["paper"][3] for row in eight.values()]).statistic)

    def best(convention: str) -> str:
        first = sorted(t_l(convention).items(), key=lambda one: -one[1])[:3]
        assert first[0][0] == "GRP-FED", WRONG_NOW
        return ", ".join(f"{name} {score:.3f}" for name, score in first)

    return [
        f"Of the paper's eight GRP-FED has the best T_l, as there: {best('scores')}; over the classes in truth"
        f"\n{best('scores_truth')}. Spearman's correlation of ranks with the paper's T_l is {alike('scores'):.2f}, and"
        f" {alike('scores_truth'):.2f} in truth."
    ]


def of_paper(row: dict[str, Any]) -> list[str]:
    """The paper's scores of a method in brackets, nothing where it has none."""
    if row["paper"] is None:
        return [""] * len(SCORES)
    *others, harmonic = (f"{value:.3f}" for value in row["paper"])
    own, everybody = row["paper"][1:3]
    return [*(f" ({one})" for one in others), f" ({harmonic}; {2 * own * everybody / (own + everybody):.3f})"]


def as_printed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the paper prints, where it has been run: q0 = 10, five local epochs of batches of 64, 60 passes."""
    if not rows:
        return []
    told = [
        (
            row["name"],
            row["seeds"],
            *(of_spread(row["scores"][key]) if "scores" in row else "" for key in SCORES),
            len(row["stopped"]),
        )
        for row in rows
    ]
    said = "As the paper prints it, but for losses that are bounded; 60 passes:"
    return ["", said, "", *table(("method", "seeds", *SCORES, "runs that stopped, their numbers not finite"), told)]
