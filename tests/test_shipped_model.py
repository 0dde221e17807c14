"""The model in the package: it is there, small, whole, and its card is what the benchmark's results say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ecgfed.device import check_golden, open_bundle
from ecgfed.domain.beats.path import BeatOptions, read_beats
from ecgfed.exports.bundles.renew import renewed_bundle
from ecgfed.exports.device.shipped import CARD, CARD_DATA, MODEL, shipped_model
from ecgfed.tasks.predict import predict

ROOT = Path(__file__).parent.parent
OLD = ROOT / "tests" / "data" / "version-1" / "bundle"
RECORD = ROOT / "tests" / "data" / "version-0.1" / "recording" / "demo01"


def test_it_is_there_small_and_whole() -> None:
    bundle = open_bundle(shipped_model())
    assert sum(file.stat().st_size for file in MODEL.rglob("*")) <= 400_000
    assert all(file.is_file() for file in MODEL.iterdir()), "the package takes files of the folder itself alone"
    assert bundle.patients == ()
    assert bundle.leads == ("MLII", "ECG1", "ECG2", "ECG")
    assert bundle.rr_version == 3
    assert len(predict(RECORD)) > 60


def test_a_bundle_of_form_1_answers_the_same_in_form_2(tmp_path: Path) -> None:
    """The same weights: the form of the bundle changes, and no answer."""
    old = open_bundle(OLD)
    new = renewed_bundle(old, tmp_path / "new")
    assert (old.manifest["schema_version"], new.manifest["schema_version"]) == (1, 2)
    windows = read_beats(RECORD, BeatOptions(("MLII",))).windows
    before, after = (one.classifier().logits(windows.window_mv, windows.rr_s) for one in (old, new))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)
    assert new.manifest["global"] == old.manifest["global"]
    assert new.manifest["certainty"] == old.manifest["certainty"]
    before, after = (predict(one, RECORD) for one in (old, new))
    assert before.label.tolist() == after.label.tolist()
    assert before.low_confidence.tolist() == after.low_confidence.tolist()


def test_its_golden_vectors_are_what_this_machine_computes() -> None:
    found = check_golden(open_bundle(MODEL))
    assert found.agrees, str(found)


def test_its_card_is_of_this_bundle_and_of_the_benchmarks_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "shipped"))
    for name in ("card", "unseen"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from card import card_of, markdown

    card = json.loads((MODEL / CARD_DATA).read_text())
    assert card["bundle"]["run"] == open_bundle(MODEL).manifest["run"]
    results = json.loads((ROOT / "benchmarks" / "shipped" / "results.json").read_text())
    assert json.loads(json.dumps(card_of(results))) == card
    assert (MODEL / CARD).read_text() == markdown(card)
