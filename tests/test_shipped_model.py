"""The model in the package: it is there, small, whole, and its card is what the benchmark's results say."""

import json
import sys
from pathlib import Path

import pytest

from ecgfed.device import open_bundle
from ecgfed.device.shipped import CARD, CARD_DATA, MODEL, shipped_model
from ecgfed.tasks.predict import predict

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tests" / "data" / "version-0.1" / "recording" / "demo01"


def test_it_is_there_small_and_whole() -> None:
    bundle = open_bundle(shipped_model())
    assert sum(file.stat().st_size for file in MODEL.rglob("*") if file.name not in (CARD, CARD_DATA)) <= 300_000
    assert all(file.is_file() for file in MODEL.iterdir()), "the package takes files of the folder itself alone"
    assert bundle.patients == ()
    assert bundle.leads == ("MLII",)
    assert bundle.rr_version == 2
    assert len(predict(RECORD)) > 60


def test_its_card_is_of_this_bundle_and_of_the_benchmarks_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "shipped"))
    for name in ("card", "unseen"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from card import card_of, markdown

    card = json.loads((MODEL / CARD_DATA).read_text())
    assert card["bundle"]["digest"] == open_bundle(MODEL).manifest["digest"]
    results = json.loads((ROOT / "benchmarks" / "shipped" / "results.json").read_text())
    assert json.loads(json.dumps(card_of(results))) == card
    assert (MODEL / CARD).read_text() == markdown(card)
