"""Beats whose window shows no signal have no class: in the annotation, the tables, JSON, batches and the stream."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import Said, synthetic_signal
from record_files import write_leads

import ecgfed as front
from ecgfed.base.errors import RecordError
from ecgfed.device import Predictions, StreamClassifier, open_bundle
from ecgfed.domain.beats.extract import without_signal
from ecgfed.domain.labels.user_labels import read_user_labels
from ecgfed.domain.signal.spans import Spans
from ecgfed.exports.device.shipped import shipped_model

SYMBOLS = "NNNVNN" * 8


@pytest.fixture
def no_lead(tmp_path: Path) -> Path:
    """A record whose chosen lead, MLII, holds no sample; V1 shows the beats."""
    signal, _ = synthetic_signal(SYMBOLS, seed=1)
    return write_leads(tmp_path / "in", "none", {"V1": signal, "MLII": np.full(len(signal), np.nan)})


def test_no_beat_of_a_lead_without_signal_has_a_class(
    ecgfed: Callable[..., Said], no_lead: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = ecgfed("predict", no_lead, "--leads", "MLII,V1", "--out", out, "--json")
    told, document = json.loads(said.out), json.loads((out / "none.json").read_text())
    marks = wfdb.rdann(str(out / "none"), "ecgfed")
    with (out / "none.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(marks.sample) == told["beats"] > 40
    assert set(marks.symbol) == {"Q"}
    assert set(marks.aux_note) == {""}
    assert {(row["class"], row["symbol"], row["probability"], row["uncertain"]) for row in rows} == {("", "Q", "", "1")}
    assert {(one["class"], one["symbol"], one["probability"]) for one in document["beats"]} == {(None, "Q", None)}
    assert sum(told["counts"].values()) == told["uncertain_beats"] == 0
    assert told["unclassified_counts"] == {"Q": len(rows)}
    assert told["excluded"]["beats"] == {"read": len(rows), "used": 0, "excluded": {"no_signal": len(rows)}}
    assert "no-signal" in told["grave_warnings"]


def test_a_batch_counts_them_too(ecgfed: Callable[..., Said], no_lead: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = ecgfed("predict", no_lead.parent, "--leads", "MLII,V1", "--out", out, "--json")
    told = json.loads(said.out)
    assert told["unclassified_beats"] == told["beats"] == told["done"][0]["beats"] > 40
    assert sum(told["counts"].values()) == 0
    assert "unclassified" in ecgfed("predict", no_lead.parent, "--leads", "MLII,V1", "--out", out, "--overwrite").out


def test_only_windows_that_were_not_recorded_are_unclassified(tmp_path: Path) -> None:
    signal, r = synthetic_signal(SYMBOLS, seed=2)
    other = 0.8 * signal + 0.01 * np.random.default_rng(0).standard_normal(len(signal))
    start, stop = int(10.05 * 360), int(14.3 * 360)
    signal[start:stop] = np.nan
    write_leads(tmp_path / "in", "gap", {"MLII": signal, "V1": other})
    wfdb.wrann("gap", "atr", r, list(SYMBOLS), write_dir=str(tmp_path / "in"))
    found = front.predict(recording=tmp_path / "in" / "gap", peaks="annotated")
    # by hand: half of the samples R-100 to R+155, or of R-25 to R+35, lie in the gap
    lost = np.zeros(len(signal), bool)
    lost[start:stop] = True
    by_hand = np.array(
        [lost[at - 100 : at + 156].mean() >= 0.5 or lost[at - 25 : at + 36].mean() >= 0.5 for at in r.tolist()]
    )
    assert 2 < by_hand.sum() < 10
    assert (found.symbols == "Q").tolist() == by_hand.tolist()
    assert len(found) == sum(found.counts.values()) + sum(found.unclassified_counts.values())


def test_windows_that_hardly_move_show_no_signal() -> None:
    window_mv = np.zeros((3, 1, 256), np.float32)
    window_mv[1, 0, 100], window_mv[2, 0, 100] = 0.010, 0.011
    nothing = Spans.merged([])
    assert without_signal(window_mv, 360.0, np.array([500, 1000, 1500]), nothing).tolist() == [True, True, False]


def test_a_stream_says_what_predict_says(no_lead: Path) -> None:
    recording = front.read_recording(no_lead, ("MLII",), every_lead=True)
    row = recording.leads.index("MLII")
    stream = StreamClassifier(open_bundle(shipped_model()).classifier(), 360.0, leads=2, lead=row)
    final = [one for one in (*stream.push(recording.signals_mv), *stream.finish()) if one.stage == "final"]
    assert len(final) > 40
    assert {(one.override, one.name) for one in final} == {("Q", "")}
    assert all(np.isnan(one.probability) for one in final)


def test_an_override_that_is_a_class_is_that_class() -> None:
    probability = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]], np.float32)
    found = Predictions(
        probability.argmax(1), probability, np.zeros(3, np.uint8), ("N", "/"), override=np.array(["", "/", "Q"])
    )
    assert found.names == ("N", "/", "Q")
    assert found.counts == {"N": 1, "/": 1}
    assert found.unclassified_counts == {"Q": 1}
    assert [(one["class"], one["probability"]) for one in found.beats()] == [("N", 0.9), ("/", None), (None, None)]


def test_a_class_called_q_is_not_what_is_unclassified() -> None:
    probability = np.array([[0.1, 0.9], [0.1, 0.9]], np.float32)
    found = Predictions(
        probability.argmax(1), probability, np.zeros(2, np.uint8), ("N", "Q"), override=np.array(["", "Q"])
    )
    assert found.counts == {"N": 0, "Q": 1}
    assert found.unclassified_counts == {"Q": 1}


@pytest.mark.parametrize(("time_s", "good"), [("2.000", True), ("2,004", True), ("", True), ("3.000", False)])
def test_times_and_samples_of_labels_agree(tmp_path: Path, time_s: str, good: bool) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(f'sample,time_s,label\n360,1.000,N\n720,"{time_s}",V\n')
    if good:
        assert [one.sample for one in read_user_labels(file, 360.0)] == [360, 720]
        return
    with pytest.raises(RecordError, match=r"line 3: sample 720 is 2\.000 s"):
        read_user_labels(file, 360.0)
