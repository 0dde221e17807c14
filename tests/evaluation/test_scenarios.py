"""T_g, T_p, T_r, T_l of real runs, computed again by hand: checkpoint files, torch logits, scikit-learn."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import train_run, write_record
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from support import SavedRun, copied, resealed, softmax
from torch import nn

import ecgfed
from ecgfed.base.errors import CohortError, RunError
from ecgfed.core.evaluation.local_models import local_models
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scenarios import evaluate
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import train
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.sources import PrepareOptions

TEST = 2
#: key in the result -> the classes scikit-learn averages over (None: its default)
CONVENTIONS: dict[str, Callable[[NDArray[np.integer]], Any]] = {"scores": lambda _: None, "scores_truth": np.unique}


def _evaluated(run: Path, split: int = TEST, **options: Any) -> dict[str, Any]:
    opened = open_run(run)
    return evaluate(opened, opened.cohort(), opened.state(), split, **options)


def _f1(truth: NDArray[np.integer], predicted: NDArray[np.integer], labels: Any) -> float:
    return float(f1_score(truth, predicted, labels=labels, average="macro", zero_division=0))


def _by_hand(
    saved: SavedRun,
    everyone: NDArray[np.integer],
    personal: list[NDArray[np.integer]],
    rows: NDArray[np.integer],
    key: str,
) -> dict[str, float]:
    """The scenarios from labels: the definitions of the GRP-FED paper, section 4.1, on predicted labels of the pool."""
    truth, owner = saved.array["label"][rows], saved.array["client"][rows]
    classes = CONVENTIONS[key]
    t_p, t_r = [], []
    for client, mine in enumerate(personal):
        own = owner == client
        t_p.append(_f1(truth[own], mine[own], classes(truth[own])))
        t_r.append(_f1(truth, mine, classes(truth)))
    of_global = [_f1(truth[owner == c], everyone[owner == c], classes(truth[owner == c])) for c in range(len(personal))]
    p, r = float(np.mean(t_p)), float(np.mean(t_r))
    each = [0.0 if a + b == 0 else 2 * a * b / (a + b) for a, b in zip(t_p, t_r, strict=True)]
    return {
        "T_g": _f1(truth, everyone, classes(truth)),
        "T_p": p,
        "T_r": r,
        "T_l": 2 * p * r / (p + r),
        "T_p_global": float(np.mean(of_global)),
        "T_l_clients": float(np.mean(each)),
    }


@pytest.mark.parametrize("split", [1, TEST])
def test_fedavg_by_hand(fedavg_run: Path, cohort_path: Path, split: int) -> None:
    saved = SavedRun(fedavg_run, cohort_path)
    rows = np.flatnonzero(saved.array["split"] == split)
    labels = saved.logits("server", *saved.inputs(rows)).argmax(1)
    result = _evaluated(fedavg_run, split)
    for key in CONVENTIONS:
        assert result[key] == pytest.approx(_by_hand(saved, labels, [labels] * 4, rows, key), abs=1e-12)
    assert result["beats"] == len(rows)
    assert result["accuracy"] == pytest.approx((labels == saved.array["label"][rows]).mean())


@pytest.mark.parametrize("protocol", ["ensemble", "average"])
def test_local_by_hand(local_run: Path, cohort_path: Path, protocol: str) -> None:
    saved = SavedRun(local_run, cohort_path)
    rows = np.flatnonzero(saved.array["split"] == TEST)
    window, _ = saved.inputs(rows)
    models = [saved.params(f"client/{i}") for i in range(4)]
    logits = [saved.logits_of(model, window) for model in models]
    if protocol == "ensemble":
        everyone = np.mean([softmax(each) for each in logits], axis=0).argmax(1)
    else:
        average = {name: torch.stack([model[name] for model in models]).mean(0) for name in models[0]}
        everyone = saved.logits_of(average, window).argmax(1)
    result = _evaluated(local_run, protocol=protocol)
    for key in CONVENTIONS:
        expected = _by_hand(saved, everyone, [each.argmax(1) for each in logits], rows, key)
        assert result[key] == pytest.approx(expected, abs=1e-12)


def test_per_patient_and_per_class_rows(fedavg_run: Path, cohort_path: Path) -> None:
    saved = SavedRun(fedavg_run, cohort_path)
    rows = np.flatnonzero(saved.array["split"] == TEST)
    truth, owner = saved.array["label"][rows], saved.array["client"][rows]
    result = _evaluated(fedavg_run)
    assert [row["client"] for row in result["per_patient"]] == saved.clients == ["p1", "p2", "p3", "p4"]
    assert [row["beats"] for row in result["per_patient"]] == [int((owner == i).sum()) for i in range(4)]
    assert [row["classes"] for row in result["per_patient"]] == [len(np.unique(truth[owner == i])) for i in range(4)]
    assert all(row["personal_f1"] == row["global_f1"] for row in result["per_patient"])  # one model for all
    assert sum(row["beats"] for row in result["per_class"]) == len(rows)
    assert np.array(result["confusion"]).sum() == len(rows)


def test_the_personal_confusion_is_each_patients_beats_by_its_own_model(local_run: Path, cohort_path: Path) -> None:
    saved = SavedRun(local_run, cohort_path)
    matrix = np.zeros((len(saved.meta["classes"]),) * 2, np.int64)
    for i in range(4):
        rows = np.flatnonzero((saved.array["split"] == TEST) & (saved.array["client"] == i))
        guess = saved.logits(f"client/{i}", saved.inputs(rows)[0]).argmax(1)
        np.add.at(matrix, (saved.array["label"][rows], guess), 1)
    assert _evaluated(local_run)["confusion_personal"] == matrix.tolist()


def test_progress_counts_every_patient(fedavg_run: Path) -> None:
    seen: list[tuple[int, int]] = []
    _evaluated(fedavg_run, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.fixture(scope="module")
def tiny_patient(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A cohort whose second patient has two beats, none of them in the test split, and a run on it."""
    folder = tmp_path_factory.mktemp("tiny")
    write_record(folder / "records", "a", "NNNV" * 10, seed=3)
    write_record(folder / "records", "b", "NN", seed=4)
    build_cohort(folder_sources(folder / "records"), folder / "cohort", PrepareOptions(), kind="folder", workers=1)
    return folder / "cohort", train_run(folder / "cohort", folder / "run", method="local", rounds=1, rr=False)


def test_a_patient_without_test_beats_is_left_out_of_t_p(tiny_patient: tuple[Path, Path]) -> None:
    cohort, run = tiny_patient
    saved = SavedRun(run, cohort)
    rows = np.flatnonzero(saved.array["split"] == TEST)
    assert set(saved.array["client"][rows]) == {0}, "the second patient must have no test beat"
    mine = saved.logits("client/0", saved.inputs(rows)[0]).argmax(1)
    result = _evaluated(run)
    assert result["patients"] == 1
    assert [row["client"] for row in result["per_patient"]] == ["a"]
    assert result["scores"]["T_p"] == pytest.approx(_f1(saved.array["label"][rows], mine, None))


def test_a_split_without_beats_is_refused(tiny_patient: tuple[Path, Path], tmp_path: Path) -> None:
    cohort = copied(tiny_patient[0], tmp_path / "cohort")
    np.save(cohort / "split.npy", np.zeros_like(np.load(cohort / "split.npy")))
    run = open_run(tiny_patient[1])
    with pytest.raises(CohortError, match="in the split test"):
        evaluate(run, open_cohort(resealed(cohort)), run.state(), TEST)


@pytest.fixture
def two_torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_torch_threads")
@pytest.mark.parametrize("beats", [1, 7, 600])
def test_the_number_of_workers_changes_no_bit(beats: int) -> None:
    """A small batch is where torch's own threads would split one convolution and round it otherwise."""
    net = ResNet1d(NetSpec(12))
    window = np.random.default_rng(0).normal(size=(beats, 1, 256)).astype(np.float32)
    data = TrainingData(np.array([0]), {0: np.arange(1)}, window, None, np.zeros(beats, np.int64), 12)
    chain = Pipeline((Stage("model", net.initial(0), shared=True),))
    one, two, three = (Predictor(net, data, np.arange(beats), n).probabilities(chain) for n in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


def test_the_number_of_workers_changes_no_score(local_run: Path) -> None:
    assert _evaluated(local_run, workers=1) == _evaluated(local_run, workers=2)


def test_a_model_that_answers_nan_has_no_score(fedavg_run: Path) -> None:
    """Its last step went too far, after the last loss was looked at; argmax would call every beat normal."""
    run = open_run(fedavg_run)
    state = run.state()
    state.server["model"]["head.out.bias"] = torch.full((12,), torch.nan)
    with pytest.raises(RunError, match="not finite"):
        evaluate(run, run.cohort(), state, TEST)


def test_a_predictor_remembers_a_chain_and_takes_no_beats(fedavg_run: Path) -> None:
    run = open_run(fedavg_run)
    data = training_data(run.cohort(), rr=True)
    chain = run.method.personal_model(run.state().server, {})
    predictor = Predictor(run.net, data, np.arange(5), 1)
    assert predictor.probabilities(chain) is predictor.probabilities(chain)
    assert Predictor(run.net, data, np.empty(0, np.int64), 1).probabilities(chain).shape == (0, 12)


def test_accuracies_and_fairness_by_hand(local_run: Path, cohort_path: Path) -> None:
    saved = SavedRun(local_run, cohort_path)
    rows = np.flatnonzero(saved.array["split"] == TEST)
    truth, owner = saved.array["label"][rows], saved.array["client"][rows]
    window, _ = saved.inputs(rows)
    labels = [saved.logits_of(saved.params(f"client/{i}"), window).argmax(1) for i in range(4)]
    result = _evaluated(local_run)
    own = [accuracy_score(truth[owner == i], labels[i][owner == i]) for i in range(4)]
    sizes = [(owner == i).sum() for i in range(4)]
    found = result["accuracies"]
    assert found["G_FL"] == result["accuracy"]
    assert found["P_FL_split"] == pytest.approx(np.average(own, weights=sizes))
    assert found["drift"] == pytest.approx(np.mean([balanced_accuracy_score(truth, each) for each in labels]))
    train = saved.array["split"] == 0
    mixes = [np.bincount(saved.array["label"][train & (saved.array["client"] == i)], minlength=12) for i in range(4)]
    by_mix = [accuracy_score(truth, each, sample_weight=m[truth]) for each, m in zip(labels, mixes, strict=True)]
    assert found["P_FL_reweighted"] == pytest.approx(np.mean(by_mix))
    assert result["fairness"]["personal_accuracy"]["std"] == pytest.approx(np.std(own))
    assert result["fairness"]["personal_accuracy"]["worst"] == pytest.approx(min(own))
    assert result["local_models"] is None


def test_local_models_are_one_more_round_of_local_training(fedavg_run: Path, cohort_path: Path) -> None:
    """A client that trains one more round alone: a run of one client, begun where this one ended, is the reference."""
    run = open_run(fedavg_run)
    cohort, state = run.cohort(), run.state()
    data = training_data(cohort, rr=run.net.spec.rr)
    result = _evaluated(fedavg_run)
    before = {name: value.clone() for name, value in state.server["model"].items()}
    rows = cohort.pool(TEST)
    expected = []
    for client in cohort.federation:
        alone = replace(data, clients=np.array([client.index]), rows={client.index: data.rows[client.index]})
        begun = State(state.round, state.server, {}, dict(state.beats_used))
        with ThreadEngine(alone, run.plan, 1) as engine:
            ended = train(run.method, alone, replace(run.plan, rounds=state.round + 1), engine, begun)
        own = rows[cohort.client[rows] == client.index]
        chain = Pipeline(
            (Stage("model", ended.server["model"], shared=False),)
        )  # the mean of one client is that client
        labels = Predictor(run.net, data, own, 1).labels(chain)
        expected.append(_f1(cohort.label[own], labels, None))
    assert [row["local_f1"] for row in result["per_patient"]] == pytest.approx(expected)
    assert result["local_models"]["T_p"] == pytest.approx(np.mean(expected))
    assert all(torch.equal(before[name], value) for name, value in run.state().server["model"].items())
    assert _evaluated(fedavg_run, local=False)["local_models"] is None


def test_local_models_draw_an_epoch_as_the_run_does(cohort_path: Path, tmp_path: Path) -> None:
    """An epoch of one beat of each class is one step; of all beats it would be several."""
    options: dict[str, Any] = {"local_epochs": 1, "most_per_class": 1, "settings": {**PLAIN_MEAN, "lr": 0.5}}
    run = ecgfed.train(cohort_path, tmp_path / "few", method="fedavg", rounds=1, **options)
    data = training_data(run.cohort(), rr=run.net.spec.rr, most_per_class=1)
    state, client = run.state(), run.cohort().federation[0].index
    begun = State(state.round, state.server, {}, dict(state.beats_used))
    alone = replace(data, clients=np.array([client]), rows={client: data.rows[client]})
    with ThreadEngine(alone, run.plan, 1) as engine:
        ended = train(run.method, alone, replace(run.plan, rounds=2), engine, begun)
    everyone = training_data(run.cohort(), rr=run.net.spec.rr)
    ((_, model),) = local_models(run, everyone, state, [client], 1)
    assert all(torch.equal(value, ended.server["model"][name]) for name, value in model.stages[0].params.items())


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.body(x)))


@pytest.mark.parametrize("tested", [[0, 1, 2], [2]])
def test_clients_without_training_examples_are_scored(tested: list[int], tmp_path: Path) -> None:
    """Of three clients two train. Those who only test have no class distribution and no local model."""
    X, y, client = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 3, np.arange(90) % 9 // 3  # noqa: N806
    test = (client == 2) | (np.isin(client, tested) & (np.arange(90) > 60))
    cohort = ecgfed.cohort_from_arrays(X, y, client, split=np.where(test, "test", "train"))
    run = ecgfed.train(cohort, tmp_path / "run", net=Small, method="fedavg", rounds=1)
    scores = ecgfed.evaluate(run)
    of = scores.predictions
    own = [_f1(of["truth"][mine], of["personal"][mine], None) for mine in (of["client"] == str(c) for c in tested)]
    assert scores.T_p == pytest.approx(np.mean(own))
    (result,) = scores.results
    assert (result["accuracies"]["P_FL_expected"] is None) == (tested == [2])
    assert json.loads((tmp_path / "run/evaluation-test/scores.json").read_text())["scores"]["T_p"] == scores.T_p
    if tested != [2]:
        assert result["local_models"]["patients"] == 2
        assert [row["local_f1"] is None for row in result["per_patient"]] == [False, False, True]
