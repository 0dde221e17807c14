"""Which findings of the GRP-FED paper's table 1 and figures are reproduced by the runs of table 1."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from common import known_runs, of_spread, short, table
from results_pairs import TABLE1_RUNS, BySeed, is_above, of_table1, with_seeds
from scipy.stats import spearmanr
from table1.methods import CASES, CURVES, FAR, NEAR, latest_stage

WRONG_NOW = "change the sentence: the runs say otherwise now"
SCORES = ("T_g", "T_p", "T_r", "T_l")
#: The stage at equal work for each stage at equal passes.
WORK_OF = {"passes": "work", "sixty": "sixty-work"}
#: Personal models that take 300 steps of 64 beats for each patient after the training.
TRAINED_FURTHER = ("FedAvg, finetune", "FedAvg, probe")
#: The three methods with the lowest T_l, in the paper and here.
LAST = ("Local", "LG-FedAvg", "pFedMe")
#: T_l of one seed differs between machines by more than this.
TOO_CLOSE = 0.01
Rows = dict[str, dict[str, Any]]
Finding = tuple[str, str, str]


def at_equal_work(results: dict[str, Any], stage: str = "passes") -> Rows:
    """Rows by name at the work of FedAvg's ``passes`` or ``sixty``: the same row if a beat takes one gradient.

    Models that are trained further after the training have had more work and are left out.
    """
    same = [row for row in results.get(stage, []) if row.get("work", 1) == 1 and row["name"] not in TRAINED_FURTHER]
    return {row["name"]: row for row in [*same, *results.get(WORK_OF[stage], [])]}


def latest_rows(results: dict[str, Any]) -> tuple[int, Rows]:
    """Passes and rows that are compared with the paper: 60 passes if every method has them, otherwise 12."""
    stage = latest_stage(results)
    return 60 if stage == "sixty" else 12, {row["name"]: row for row in results[stage]}


def against_paper(results: dict[str, Any]) -> list[str]:
    """A table of the paper's findings with ours, and what differs; nothing until the eight methods are measured."""
    passes, rows = latest_rows(results)
    eight = {name: row for name, row in rows.items() if row["paper"]}
    if "GRP-FED" not in eight or len(eight) < 8:
        return []
    findings = [
        *_order(eight),
        *_winner(results, eight),
        *_at_equal_work(results, eight),
        *_by_beta(results.get("beta", [])),
        *_by_loss(rows, passes),
        *_two_patients(rows, passes),
    ]
    about = (
        f"{passes} passes unless a row says otherwise; paired differences with 95% intervals (Student's t over common"
        " seeds, one split)."
    )
    return [about, "", *table(("the paper's finding", "reproduced?", "measured here"), findings), "", *_levels(results)]


def _t_l(rows: Rows, convention: str = "scores") -> dict[str, float]:
    return {name: row[convention]["T_l"]["mean"] for name, row in rows.items()}


def _rank_correlation(eight: Rows, key: str = "T_l", without: Sequence[str] = (), convention: str = "scores") -> float:
    """Spearman's correlation of our scores with the paper's."""
    names = [name for name in eight if name not in without]
    ours = [eight[name][convention][key]["mean"] for name in names]
    return float(spearmanr(ours, [eight[name]["paper"][SCORES.index(key)] for name in names]).statistic)


def _best_three(t_l: dict[str, float]) -> str:
    """The three best T_l, and whether they differ by less than machines do."""
    first, *_, third = names = sorted(t_l, key=lambda name: -t_l[name])[:3]
    tie = " (too close to call)" if t_l[first] - t_l[third] < TOO_CLOSE else ""
    return ", ".join(f"{name} {t_l[name]:.3f}" for name in names) + tie


def _order(eight: Rows) -> Iterator[Finding]:
    assert 0.8 < _rank_correlation(eight) < 1, WRONG_NOW
    yield (
        "the order of the eight methods by T_l",
        "mostly",
        f"Spearman's correlation {_rank_correlation(eight):.2f}; without the last three ({', '.join(LAST)})"
        f" {_rank_correlation(eight, without=LAST):.2f}",
    )


def _winner(results: dict[str, Any], eight: Rows) -> Iterator[Finding]:
    stage = latest_stage(results)
    t_l = _t_l(eight)
    assert max(t_l, key=lambda name: t_l[name]) == "GRP-FED", WRONG_NOW

    def minus(other: str, key: str = "T_l") -> str:
        return with_seeds(*(of_table1(results, stage, name, key=key) for name in ("GRP-FED", other)))

    ours, avg, qffl = (of_table1(results, stage, name) for name in ("GRP-FED", "FedAvg", "q-FFL"))
    assert is_above(ours, avg), WRONG_NOW
    assert not is_above(ours, qffl), WRONG_NOW
    yield (
        "GRP-FED has the best T_l",
        "partly",
        f"{_best_three(t_l)}; GRP-FED minus q-FFL {minus('q-FFL')}, minus FedAvg {minus('FedAvg')}. Over the true"
        f" classes only: {_best_three(_t_l(eight, 'scores_truth'))}",
    )
    assert not is_above(*(of_table1(results, stage, name, key="T_g") for name in ("GRP-FED", "FedAvg"))), WRONG_NOW
    yield (
        "GRP-FED has the best T_g",
        "no",
        f"GRP-FED minus q-FFL {minus('q-FFL', 'T_g')}, minus FedAvg {minus('FedAvg', 'T_g')}",
    )


def _at_equal_work(results: dict[str, Any], eight: Rows) -> Iterator[Finding]:
    for stage, passes in (("passes", 12), ("sixty", 60)):
        work = at_equal_work(results, stage)
        if set(eight) <= set(work):
            of_eight = {name: work[name] for name in eight}
            gradients = work["GRP-FED"]["work"]
            yield (
                f"GRP-FED has the best T_l at equal work ({passes} passes of FedAvg)",
                "no" if max(of_eight, key=lambda name: _t_l(of_eight)[name]) != "GRP-FED" else "partly",
                f"{_best_three(_t_l(of_eight))}; GRP-FED gets {passes / gradients:.1f} passes",
            )


def _by_beta(rows: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    if len(rows) < 5:
        return
    t_p, t_r, t_l = ([row["scores"][key]["mean"] for row in rows] for key in ("T_p", "T_r", "T_l"))
    assert t_p == sorted(t_p), WRONG_NOW
    assert t_r == sorted(t_r, reverse=True), WRONG_NOW
    best = rows[t_l.index(max(t_l))]
    (half,) = [row for row in rows if row["beta"] == 0.5]
    yield (
        "a larger beta raises T_p and lowers T_r (figure 4); beta = 0.5 is best",
        "yes, with a flat optimum",
        f"12 passes, beta {rows[0]['beta']:g} to {rows[-1]['beta']:g}: T_p {t_p[0]:.2f} to {t_p[-1]:.2f}, T_r"
        f" {t_r[0]:.2f} to {t_r[-1]:.2f}; T_l {of_spread(best['scores']['T_l'])} at {best['beta']:g},"
        f" {of_spread(half['scores']['T_l'])} at 0.5",
    )


def _by_loss(rows: Rows, passes: int) -> Iterator[Finding]:
    if any("last_losses" not in rows[name] for name in CURVES):
        return
    losses = {name: rows[name]["last_losses"] for name in CURVES}
    assert min(CURVES, key=lambda name: losses[name]["largest"]) == "GRP-FED", WRONG_NOW
    each = ", ".join(f"{name} {short(loss['largest'])} ({short(loss['mean'])})" for name, loss in losses.items())
    yield (
        "GRP-FED has the smallest largest loss of a client (figure 3)",
        "yes, one seed",
        f"last of {passes} passes, in brackets the mean over clients: {each}",
    )


def _two_patients(rows: Rows, passes: int) -> Iterator[Finding]:
    runs = known_runs(TABLE1_RUNS)
    seen = {name: runs.get(f"sixty/{name}/{rows[name].get('trial')}/0") for name in CASES if name in rows}
    if passes != 60 or not all("drawn" in (run or {}) for run in seen.values()):
        return

    def scores(name: str, patient: str) -> tuple[float, float]:
        own, everybody = seen[name]["patients"][patient], seen[name]["drawn"]["by_patient"]["T_r"][patient]
        return own, 2 * own * everybody / (own + everybody)

    near, far = ({name: scores(name, patient) for name in CASES} for patient in (NEAR, FAR))
    assert max(CASES, key=lambda name: near[name]) == "GRP-FED", WRONG_NOW
    assert far["GRP-FED"][1] < max(score for _, score in far.values()), WRONG_NOW
    yield (
        "GRP-FED serves a typical and an atypical patient best (figure 5)",
        "typical patient only, one seed",
        f"typical: T_p {near['GRP-FED'][0]:.2f}, T_l {near['GRP-FED'][1]:.2f}, the best of five methods; atypical: T_l"
        f" {far['GRP-FED'][1]:.3f}, FedAvg {far['FedAvg'][1]:.3f}",
    )


def _levels(results: dict[str, Any]) -> list[str]:
    """Why our levels differ from the paper's, and what limits the comparison."""
    _, rows = latest_rows(results)
    stage = latest_stage(results)

    def beside(key: str, *names: str) -> str:
        place = SCORES.index(key)
        return ", ".join(
            f"{name} {rows[name]['scores'][key]['mean']:.2f} ({rows[name]['paper'][place]:.2f})" for name in names
        )

    def score(name: str, key: str = "T_l", *, true_classes: bool = False) -> BySeed:
        return of_table1(results, stage, name, key=key, true_classes=true_classes)

    common = sorted(score("FedGate").keys() & score("GRP-FED").keys())

    def mean(by_seed: BySeed) -> str:
        return f"{statistics.fmean(by_seed[seed] for seed in common):.3f}"

    plain, truth = (
        with_seeds(*(score(name, true_classes=only) for name in ("FedGate", "GRP-FED"))) for only in (False, True)
    )
    return [
        f"- Global models score higher here: T_g of {beside('T_g', 'FedAvg', 'q-FFL', 'GRP-FED')}. The Adam server"
        " step and batches of 16\n  probably explain it.",
        f"- Personal models score lower here: T_p of {beside('T_p', 'Local', 'LG-FedAvg', 'pFedMe', 'per-FedAvg')}."
        " More passes help in part.\n  per-FedAvg takes two batches a step, so it has half the rounds.",
        "- FedGate's row uses weights by loss, which its best trial has, and so shares GRP-FED's global model. On these"
        f" models the gate's T_p is\n  {mean(score('FedGate', 'T_p'))}, that of GRP-FED's local extractors"
        f" {mean(score('GRP-FED', 'T_p'))}. The difference in T_l is {plain};\n  over the true classes only {truth}.",
        "- Some trials were chosen late: AFL's after its first, per-FedAvg's third and FedGate's after theirs had been"
        " scored ([0055](decisions/0055-windows-in-the-papers-table.md)).",
        "- The runs come from several machines with different processors; T_g differs between them by up to 0.02.",
    ]
