"""A personal model of one's own, as a class and as FILE.py:CLASS, by examples/nearest_mean.py against scikit-learn."""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid
from support import Command, assert_refused, copied

import ecgfed as package
from ecgfed.base.errors import OptionError
from ecgfed.base.plugins import load_code
from ecgfed.core.federation.data import training_data
from ecgfed.core.personal.base import Personal, features_of
from ecgfed.core.personal.masked import Masked
from ecgfed.core.personal.registry import ENTRY_POINTS, personal_by_name, personal_models
from ecgfed.core.runs.run import open_run

FILE = f"{Path(__file__).parents[2] / 'examples' / 'nearest_mean.py'}:NearestMean"


def test_as_scikit_learn_says(fedavg_run: Path, tmp_path: Path) -> None:
    """The nearest centroid of each patient's training features; the bundle answers the same."""
    run = open_run(fedavg_run)
    cohort, data = run.cohort(), training_data(run.cohort(), rr=run.net.spec.rr)
    kind: Any = load_code(FILE, "personal").value
    scores = package.evaluate(run, personal=kind, out=tmp_path / "scores")
    by_name = package.evaluate(run, personal=FILE, out=tmp_path / "by-name")
    assert scores.results[0]["personal"] == "nearest-mean"
    assert scores.per_patient["personal_f1"].tolist() == by_name.per_patient["personal_f1"].tolist()
    model = run.state().server["model"]
    bundle = package.export(run, tmp_path / "bundle", personal=FILE)
    assert bundle.manifest["personal"] == "nearest-mean"
    columns = scores.predictions
    for client in cohort.federation:
        batch = data.batch(data.rows[client.index])
        mine = columns["client"] == client.id
        rows = columns["row"][mine]
        if len(batch.label.unique()) < 2:  # scikit-learn refuses one class
            expected = np.full(len(rows), int(batch.label[0]))
        else:
            peer = NearestCentroid().fit(features_of(run.net, model, batch).numpy(), batch.label.numpy())
            expected = peer.predict(features_of(run.net, model, data.batch(rows)).numpy())
        assert (expected == columns["personal"][mine]).mean() > 0.99  # a tie may fall either way
        device = bundle.classifier(client.id).logits(np.asarray(cohort.examples[rows]), cohort.rr[rows]).argmax(1)
        assert (device == columns["personal"][mine]).mean() > 0.99


def test_its_scores_have_a_folder_of_their_own(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    done = ecgfed("evaluate", run, "--split", "valid", "--personal", FILE, "--json")
    result = json.loads(done.out)
    assert result["personal"] == "nearest-mean"
    stored = json.loads((run / "evaluation-valid-nearest-mean" / "scores.json").read_text())
    assert stored["scores"] == result["scores"]
    missing = FILE.replace("nearest_mean.py", "none.py")
    assert_refused(ecgfed("evaluate", run, "--personal", missing), "no file")


def test_a_registered_class_is_its_name() -> None:
    assert personal_by_name(Masked) is personal_models()["masked"]


class Nameless(Masked):
    name: ClassVar[str] = "../up"


class Taken(Masked):
    name: ClassVar[str] = "gated"


class Abstract(Personal):
    name: ClassVar[str] = "abstract"
    title: ClassVar[str] = "no fit"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "is no personal model"),
        (Nameless, "a name of its own"),
        (Taken, "a name of its own"),
        (Abstract, "cannot be made"),
    ],
)
def test_what_is_no_personal_model(kind: type, words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        personal_by_name(kind)
    assert caught.value.parameter == "personal"


def test_an_installed_package_offers_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(FILE.rpartition(":")[0]).parent))
    entry = importlib.metadata.EntryPoint("nearest-mean", "nearest_mean:NearestMean", ENTRY_POINTS)
    monkeypatch.setattr("ecgfed.base.plugins.entry_points", lambda group: [entry] if group == ENTRY_POINTS else [])
    personal_models.cache_clear()
    try:
        assert type(personal_by_name("nearest-mean")).__name__ == "NearestMean"
        assert "nearest-mean" in personal_models()
    finally:
        personal_models.cache_clear()
        sys.modules.pop("nearest_mean", None)
