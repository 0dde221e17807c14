"""Files of labels that are a model's, of another recording, or that stop; the counts that rest on doubtful beats."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import synthetic_signal, write_record
from record_files import write_leads
from support import exported

import ecgfed
from ecgfed.domain.record.wfdb_writer import annotation_bytes

OLD = Path(__file__).parent.parent / "data" / "version-0.1"
DEMO = OLD / "recording" / "demo01"


def codes(found: ecgfed.RecordingReport) -> set[str]:
    return {code for code, _ in (*found.parts.warnings, *found.parts.notes)}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return write_record(tmp_path, "r1", "NNNVNNNNVVVNNNNN" * 3)


def test_what_predict_wrote_stays_a_models(record: Path, fedavg_run: Path, tmp_path: Path) -> None:
    """As CSV and as annotation: provisional, the same beats uncertain, and what predict warned of on the page."""
    bundle = exported(fedavg_run)
    found = ecgfed.predict(bundle, record)
    assert found.warnings
    found = replace(found, low_confidence=found.sample % 2 == 0)
    found.save(tmp_path / "out")
    assert found.low_confidence.any()
    for end in ("csv", "ecgfed"):
        page = ecgfed.report(record, labels=tmp_path / "out" / f"r1.{end}")
        assert page.parts.provisional
        assert "a model wrote" in page.parts.labelled_by
        assert codes(page) >= {"model-labels", *(one.code for one in found.warnings)}
        told = page.to_dict()
        assert told["provisional"] is True
        doubtful = [count for count in told["uncertain_by_class"].values() if count is not None]
        assert 0 < sum(doubtful) <= int(found.low_confidence.sum())
    again = tmp_path / "again.csv"  # as a spreadsheet writes it where the comma stands in numbers
    again.write_text((tmp_path / "out" / "r1.csv").read_text().replace(",", ";"))
    page = ecgfed.report(record, labels=again)
    assert page.parts.provisional
    assert sum(count or 0 for count in page.to_dict()["uncertain_by_class"].values()) > 0
    beside = tmp_path / "out" / "r1.json"
    beside.write_text("{")
    assert "unknown-training" in codes(ecgfed.report(record, labels=tmp_path / "out" / "r1.csv"))
    beside.write_text(json.dumps({"warnings": [{"code": 1}]}))
    assert "unknown-training" in codes(ecgfed.report(record, labels=tmp_path / "out" / "r1.csv"))


def test_a_readers_labels_are_no_models(record: Path) -> None:
    page = ecgfed.report(record, labels=record.with_suffix(".atr"))
    assert not page.parts.provisional
    assert not codes(page) & {"model-labels", "labels-apart", "no-beat-at-an-end"}
    assert set(page.to_dict()["uncertain_by_class"].values()) == {None}


def test_labels_of_another_recording_are_doubted(record: Path, tmp_path: Path) -> None:
    """Every label half a beat late: none lies at a QRS complex."""
    marks = ecgfed.read_annotation(ecgfed.read_recording(record, "MLII"))
    late = replace(marks, sample=marks.sample + 130)
    late = replace(late, sample=late.sample[:-1], symbol=late.symbol[:-1], subtype=None, note=())
    (tmp_path / "late.atr").write_bytes(annotation_bytes(late, 360.0))
    assert "labels-apart" in codes(ecgfed.report(record, labels=tmp_path / "late.atr"))


@pytest.mark.mitdb
def test_another_record_of_mit_bih_is_doubted_and_its_own_is_not(mitdb: Path) -> None:
    assert "labels-apart" in codes(ecgfed.report(mitdb / "208", labels=mitdb / "116.atr"))
    assert "labels-apart" not in codes(ecgfed.report(mitdb / "207", labels=mitdb / "207.atr"))


def test_labels_that_stop_are_said(record: Path, tmp_path: Path) -> None:
    """Ten labels of 48, the rest of the recording usable: seconds without a beat at its end, in no count of pauses."""
    marks = ecgfed.read_annotation(ecgfed.read_recording(record, "MLII"))
    first = replace(marks, sample=marks.sample[:10], symbol=marks.symbol[:10], subtype=None, note=())
    (tmp_path / "short.atr").write_bytes(annotation_bytes(first, 360.0))
    page = ecgfed.report(record, labels=tmp_path / "short.atr")
    assert "no-beat-at-an-end" in codes(page)
    (end,) = page.parts.events.pauses.ends
    assert end.start_s == pytest.approx(float(marks.sample[9]) / 360)
    assert page.parts.events.pauses.intervals == ()
    assert "no beat for" in page.html


def test_a_toy_is_refused_as_second_reader_too(tmp_path: Path) -> None:
    ecgfed.prepare_demo(tmp_path / "cohort", records=tmp_path / "demo", patients=2, minutes=1, workers=1)
    less: dict[str, Any] = {"rounds": 1, "local_steps": 1, "eval_every": 0, "workers": 1}
    run = ecgfed.train(tmp_path / "cohort", tmp_path / "run", method="fedavg", **less)
    toy = ecgfed.export(run, tmp_path / "toy")
    record = write_record(tmp_path, "person", "NNNV" * 12)
    with pytest.raises(ecgfed.EcgfedError, match="synthetic"):
        ecgfed.report(record, toy, labels=record.with_suffix(".atr"))
    forced = ecgfed.report(record, toy, labels=record.with_suffix(".atr"), force=True)
    assert "synthetic-model" in codes(forced)


def test_a_rate_that_no_heart_has_is_said(tmp_path: Path) -> None:
    """Narrow waves at 240/min, each labelled by a model."""
    signal, at = synthetic_signal("N" * 160, rr_s=0.25)
    write_leads(tmp_path, "r2", {"MLII": signal, "V1": 0.6 * signal})
    rows = "sample,symbol,probability,uncertain\n" + "".join(f"{beat},N,0.9,false\n" for beat in at.tolist())
    (tmp_path / "waves.csv").write_text(rows)
    assert "fast-waves" in codes(ecgfed.report(tmp_path / "r2", labels=tmp_path / "waves.csv"))
