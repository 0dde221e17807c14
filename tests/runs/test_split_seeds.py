"""Seeds of training on several splits of the same beats."""

import json
import statistics
from pathlib import Path

import pytest
from refusals import refuses

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.runs.compare import compare_runs
from ecgfed.core.runs.intervals import over_seeds

QUICK = {"method": "fedavg", "rounds": 1, "local_steps": 1, "workers": 1}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> ecgfed.Cohort:
    return ecgfed.prepare_demo(tmp_path_factory.mktemp("splits") / "c", patients=4, minutes=1, workers=1)


@pytest.fixture(scope="module")
def runs(cohort: ecgfed.Cohort, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    made = ecgfed.train_seeds(cohort, [0, 1], out, split_seeds=[0, 3], **QUICK)
    assert [str(run.path.relative_to(out)) for run in made] == [
        *("split-0/seed-0", "split-0/seed-1", "split-3/seed-0", "split-3/seed-1")
    ]
    return out


def test_each_split_is_a_cohort_of_its_own(cohort: ecgfed.Cohort, runs: Path) -> None:
    first, other = (ecgfed.open_cohort(runs / f"split-{seed}" / "cohort") for seed in (0, 3))
    assert first.fingerprint == cohort.fingerprint != other.fingerprint
    assert (other.label == cohort.label).all()


def test_scores_are_means_over_both_and_intervals_draw_both(runs: Path) -> None:
    scores = ecgfed.evaluate(runs, workers=1)
    each = [
        json.loads((runs / name / "evaluation-test" / "scores.json").read_text())["scores"]["T_p"]
        for name in ("split-0/seed-0", "split-0/seed-1", "split-3/seed-0", "split-3/seed-1")
    ]
    assert scores.T_p == pytest.approx(statistics.fmean(each))
    ends = scores.interval("T_p")
    assert ends is not None
    assert ends[0] <= scores.T_p <= ends[1]
    draws = [of["scores", "T_p"] for of in scores.draws]
    assert len(over_seeds(draws, ["a", "a", "b", "b"])) == len(draws[0])
    assert set(scores.predictions["run"]) == {"split-0/seed-0", "split-0/seed-1", "split-3/seed-0", "split-3/seed-1"}
    comparison = compare_runs([runs, runs / "split-0"], any_cohort=True)
    assert comparison.runs[0].seeds == 4
    assert comparison.runs[0].intervals["T_p"] == pytest.approx(ends)
    assert comparison.runs[1].differences == {}
    with pytest.raises(RunError):
        compare_runs([runs, runs / "split-0"])


def test_a_folder_of_splits_is_resumed_and_not_written_over(cohort: ecgfed.Cohort, runs: Path) -> None:
    with pytest.raises(OptionError):
        ecgfed.train_seeds(cohort, [0], runs, split_seeds=[0], **QUICK)
    made = ecgfed.train_seeds(cohort, [0, 1], runs, split_seeds=[0, 3], resume=True, **QUICK)
    assert len(made) == 4
    with refuses(OptionError, "invalid-value", "split_seeds"):
        ecgfed.train_seeds(cohort, [0], runs, split_seeds=[0, 0], **QUICK)
