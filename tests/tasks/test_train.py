"""Training without a terminal: what is said, what is replaced, what is left behind."""

import json
import shutil
from pathlib import Path

import pytest
from support import Recorder

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import Settings, make_settings
from ecgfed.core.runs.run import extend_run, lengths_of, open_run
from ecgfed.core.runs.seeds import open_single_run, run_folders
from ecgfed.tasks.train_options import RECIPES

SHORT = {"rounds": 2, "local_steps": 1, "width": 0.34, "method": "fedavg", "eval_every": 1}


def test_with_nothing_else_it_is_the_recommended_recipe(
    cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan only: the training is stopped after its first round. 20 passes in rounds of 4 steps of 16 beats."""
    monkeypatch.chdir(tmp_path)
    run = ecgfed.train(cohort_path, should_stop=lambda: True)
    assert run.path == Path("runs") / f"{cohort_path.name}-fed-gate-s0"
    assert (run.method.name, run.plan.local_steps, run.net.spec.rr) == ("fed-gate", 4, True)
    cohort = ecgfed.open_cohort(cohort_path)
    counts = [int(cohort.class_counts(client).sum()) for client in cohort.federation]
    per_round = sum(4 * min(16, count) for count in counts)
    assert run.plan.rounds == round(20 * sum(counts) / per_round)
    assert RECIPES["ecg"]["passes"] == 20


def test_it_says_its_cost_first_and_what_there_is_to_know_last(cohort_path: Path, tmp_path: Path) -> None:
    heard, slow = Recorder(), {"lr": 0.005, **PLAIN_MEAN}  # too little training to name every class
    ecgfed.train(cohort_path, tmp_path / "run", progress=heard, settings=slow, **SHORT)  # type: ignore[arg-type]
    assert heard.notes[0].startswith("fedavg on 4 clients: 2 rounds of 1 local step")
    assert heard.counted == {"fedavg": [(1, 2), (2, 2)]}
    *_, last, never, tries = heard.notes
    valid = json.loads((tmp_path / "run" / "history.jsonl").read_text().splitlines()[-1])
    assert f"T_g {valid['valid_T_g']:.3f}" in last
    assert never == f"Classes the global model never predicts on validation: {', '.join(valid['never_predicted'])}."
    assert "smoke test" in tries


def test_a_taken_folder_is_refused_and_replaced_when_asked(cohort_path: Path, tmp_path: Path) -> None:
    first = ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(RunError, match="is not empty"):
        ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    second = ecgfed.train(cohort_path, tmp_path / "run", overwrite=True, seed=1, **SHORT)  # type: ignore[arg-type]
    assert (first.plan.seed, second.plan.seed) == (0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("wrong", [{"settings": {"lr": 1e30}}, {"settings": {"nonsense": 1}}, {"method": "nobody"}])
def test_a_run_that_fails_brings_back_what_it_was_to_replace(
    cohort_path: Path, tmp_path: Path, wrong: dict[str, object]
) -> None:
    ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    with pytest.raises(ecgfed.EcgfedError):
        ecgfed.train(cohort_path, tmp_path / "run", overwrite=True, **{**SHORT, **wrong})  # type: ignore[arg-type]
    assert open_run(tmp_path / "run").store.rounds() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("method", "settings", "named"),
    [
        ("fedavg", {}, "server_schedule=cosine went by 2"),
        ("fedavg", {"server_schedule": "constant"}, None),
        ("grp-fed", {}, "server_schedule=cosine, personal_start=0.8 went by 2"),
        ("grp-fed", {"server_schedule": "constant", "personal_start": 0.0}, None),
        ("lg-fedavg", {}, "warm_start=0.8 went by 2"),
        ("lg-fedavg", {"warm_start": 1.0}, None),
    ],
)
def test_a_run_of_another_length_is_told_what_went_by_the_first(
    cohort_path: Path, tmp_path: Path, method: str, settings: dict[str, float | str], named: str | None
) -> None:
    heard, plan = Recorder(), {**SHORT, "method": method, "settings": settings, "eval_every": 0}
    ecgfed.train(cohort_path, tmp_path / "run", progress=heard, **plan)  # type: ignore[arg-type]
    ecgfed.train(cohort_path, tmp_path / "run", resume=True, progress=heard, **plan)  # type: ignore[arg-type]
    assert not any("was begun for" in text for text in heard.warnings), "the same length"
    longer = ecgfed.train(cohort_path, tmp_path / "run", resume=True, progress=heard, **{**plan, "rounds": 3})  # type: ignore[arg-type]
    said = [text for text in heard.warnings if "was begun for 2 rounds and goes on to 3" in text]
    assert longer.store.rounds() == 3
    assert len(said) == (0 if named is None else 1)
    assert all(str(named) in text for text in said)
    assert longer.meta["earlier_lengths"] == [{"rounds": 2, "until": 2}]


def test_a_length_that_no_round_went_by_is_not_kept(cohort_path: Path, tmp_path: Path) -> None:
    """Made longer, stopped before a round, made longer once more; and what a stranger wrote there is refused."""
    plan = {**SHORT, "method": "lg-fedavg", "settings": {"warm_start": 0.6}, "eval_every": 0}
    begun = ecgfed.train(cohort_path, tmp_path / "run", **plan)  # type: ignore[arg-type]
    twice = extend_run(extend_run(begun, 8), 10)
    assert twice.meta["earlier_lengths"] == [{"rounds": 2, "until": 2}]
    assert lengths_of(twice) == (2, 10)
    heard = Recorder()
    ecgfed.train(cohort_path, tmp_path / "run", resume=True, progress=heard, **{**plan, "rounds": 3})  # type: ignore[arg-type]
    assert any("begun for 2 rounds and goes on to 3; warm_start=0.6 went by 2" in text for text in heard.warnings)
    meta = json.loads((tmp_path / "run" / "run.json").read_text())
    for wrong in (["x"], [{"rounds": 0, "until": 1}], [{"rounds": 2}], "x"):
        (tmp_path / "run" / "run.json").write_text(json.dumps({**meta, "earlier_lengths": wrong}))
        with pytest.raises(RunError, match="earlier_lengths"):
            ecgfed.train(cohort_path, tmp_path / "run", resume=True, **{**plan, "rounds": 9})  # type: ignore[arg-type]


def test_a_run_that_is_made_shorter_has_more_of_it_behind(cohort_path: Path, tmp_path: Path) -> None:
    heard, plan = Recorder(), {**SHORT, "method": "lg-fedavg", "settings": {"warm_start": 0.5}, "eval_every": 0}
    ecgfed.train(cohort_path, tmp_path / "run", **plan)  # type: ignore[arg-type]
    change_plan = json.loads((tmp_path / "run" / "run.json").read_text())
    change_plan["plan"]["rounds"] = 10  # as if begun for 10 and stopped: 2 are all warm start; of 3 they are not
    (tmp_path / "run" / "run.json").write_text(json.dumps(change_plan))
    ecgfed.train(cohort_path, tmp_path / "run", resume=True, progress=heard, **{**plan, "rounds": 3})  # type: ignore[arg-type]
    assert any("begun for 10 rounds and goes on to 3; warm_start=0.5" in text for text in heard.warnings)


def test_what_has_not_begun_is_no_reason_to_warn() -> None:
    """Stopped before the local steps: a run of the new length would have done the same until then."""

    def planned(method: str, over: float, **settings: float | str) -> tuple[str, ...]:
        made: Settings = make_settings(method_by_name(method).settings_type, settings)
        return made.planned_by_length(over)

    assert planned("grp-fed", 0.0) == planned("lg-fedavg", 0.5) == ()
    assert planned("grp-fed", 0.5) == ("server_schedule=cosine",)
    assert planned("grp-fed", 0.9) == ("server_schedule=cosine", "personal_start=0.8")
    assert planned("grp-fed", 0.8, server_schedule="constant") == ()
    assert planned("lg-fedavg", 0.9) == ("warm_start=0.8",)


def test_only_a_run_is_replaced(cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"x")
    with pytest.raises(OptionError, match="is not a run"):
        ecgfed.train(cohort_path, tmp_path / "photos", overwrite=True, **SHORT)  # type: ignore[arg-type]
    assert (tmp_path / "photos" / "me.jpg").read_bytes() == b"x"


def test_an_overwrite_killed_before_its_first_round_loses_nothing(cohort_path: Path, tmp_path: Path) -> None:
    ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    (tmp_path / "run").rename(tmp_path / ".run.replaced")  # what a kill leaves: the old one aside, the new one begun
    (tmp_path / "run").mkdir()
    shutil.copy(tmp_path / ".run.replaced" / "run.json", tmp_path / "run" / "run.json")
    with pytest.raises(ecgfed.EcgfedError):
        ecgfed.train(cohort_path, tmp_path / "run", overwrite=True, settings={"lr": 1e30}, **SHORT)  # type: ignore[arg-type]
    assert open_run(tmp_path / "run").store.rounds() == 2


def test_several_seeds_are_runs_side_by_side_and_scored_together(cohort_path: Path, tmp_path: Path) -> None:
    runs = ecgfed.train_seeds(cohort_path, (3, 5), tmp_path / "runs", **SHORT)
    assert [run.path.name for run in runs] == ["seed-3", "seed-5"]
    assert run_folders(tmp_path / "runs") == [run.path for run in runs]
    scores = ecgfed.evaluate(tmp_path / "runs", split="valid")
    alone = [ecgfed.evaluate(run, split="valid").T_g for run in runs]
    assert scores.each("T_g") == alone
    assert pytest.approx(sum(alone) / 2) == scores.T_g
    with pytest.raises(RunError, match="seed-3, seed-5"):
        open_single_run(tmp_path / "runs")
    again = ecgfed.train_seeds(cohort_path, (3, 5, 7), tmp_path / "runs", resume=True, **SHORT)
    assert [run.path.name for run in again] == ["seed-3", "seed-5", "seed-7"]


@pytest.mark.parametrize(
    ("seeds", "more"),
    [
        ((), {}),
        ((1, 1), {}),
        ((1.0, 2), {}),
        ("0,1", {}),
        ((1,), {"seed": 2}),
        ((0, 1), {"resume": True, "overwrite": True}),
    ],
)
def test_seeds_that_cannot_be(cohort_path: Path, tmp_path: Path, seeds: tuple[int, ...], more: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        ecgfed.train_seeds(cohort_path, seeds, tmp_path / "runs", **more)
    assert not (tmp_path / "runs").exists()


def test_seeds_are_refused_before_the_first_is_trained(cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "seed-1").mkdir(parents=True)
    with pytest.raises(OptionError, match="seed-1"):
        ecgfed.train_seeds(cohort_path, (0, 1), tmp_path / "runs", **SHORT)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["seed-1"]
    ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="is a run itself"):
        ecgfed.train_seeds(cohort_path, (0, 1), tmp_path / "run", **SHORT)


def test_runs_that_differ_in_more_than_their_seed_have_no_mean(cohort_path: Path, tmp_path: Path) -> None:
    ecgfed.train_seeds(cohort_path, (0,), tmp_path / "runs", **SHORT)
    ecgfed.train_seeds(cohort_path, (1,), tmp_path / "runs", **{**SHORT, "rounds": 1})
    with pytest.raises(RunError, match="seed-1: differs from seed-0 in its plan"):
        ecgfed.evaluate(tmp_path / "runs", split="valid")


def test_a_seed_of_an_older_version_does_not_say_who_was_held_out(cohort_path: Path, tmp_path: Path) -> None:
    ecgfed.train_seeds(cohort_path, (0, 1, 2), tmp_path / "runs", **{**SHORT, "rounds": 1})
    files = [tmp_path / "runs" / f"seed-{seed}" / "run.json" for seed in range(3)]

    def keep(of_seed: list[list[str] | None]) -> None:
        for file, held_out in zip(files, of_seed, strict=True):
            meta = json.loads(file.read_text())
            meta.pop("held_out_clients", None)
            file.write_text(json.dumps(meta if held_out is None else {**meta, "held_out_clients": held_out}))

    mine = json.loads(files[0].read_text())["held_out_clients"]
    keep([None, mine, None])
    ecgfed.evaluate(tmp_path / "runs", split="valid")
    keep([[*mine, "a"], None, mine])
    with pytest.raises(RunError, match="in its held-out clients"):
        ecgfed.evaluate(tmp_path / "runs", split="valid")


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 2.5},
        {"rounds": True},
        {"rounds": "2"},
        {"seed": 1.5},
        {"batch_size": 0},
        {"settings": "lr"},
        {"workers": 0},
    ],
)
def test_values_of_another_type_are_one_line_and_leave_nothing(
    cohort_path: Path, tmp_path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(OptionError):
        ecgfed.train(cohort_path, tmp_path / "run", **{**SHORT, **wrong})  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_an_interrupted_overwrite_brings_back_the_old_run(cohort_path: Path, tmp_path: Path) -> None:
    class Stop(Recorder):
        def note(self, text: str) -> None:
            raise KeyboardInterrupt

    ecgfed.train(cohort_path, tmp_path / "run", **SHORT)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        ecgfed.train(cohort_path, tmp_path / "run", overwrite=True, progress=Stop(), **SHORT)  # type: ignore[arg-type]
    assert open_run(tmp_path / "run").store.rounds() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
