"""What reading and writing say where the packages of an extra are not installed."""

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import write_record
from record_files import edf_annotation, edf_bytes

from ecgfed.base.errors import MissingExtraError
from ecgfed.domain.record.reader import read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation, ReadOptions
from ecgfed.domain.record.wfdb_writer import annotation_bytes, record_bytes


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package of an extra can be imported."""
    for package in ("wfdb", "edfio", "pandas", "torch", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)


def test_edf_annotations_and_writing_name_their_extra(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    record = write_record(tmp_path, "r", "NNNN")
    second, times = np.zeros(250, int).tolist(), [edf_annotation(0) + edf_annotation(0.5, "N")]
    whole = edf_bytes([[second]], labels=["ECG MLII"], units=["mV"], reserved="EDF+C", annotations=times)
    (tmp_path / "e.edf").write_bytes(whole)
    recording = read_recording(record, ("MLII",))
    request.getfixturevalue("bare")
    for action in (
        lambda: read_annotation(read_recording(tmp_path / "e.edf", ("MLII",))),  # its signals need none
        lambda: record_bytes(recording, "again"),
    ):
        with pytest.raises(MissingExtraError, match=r"^\w+: is not installed, .*; pip install 'ecgfed\[records\]'$"):
            action()


def test_wfdb_records_and_plain_annotations_need_no_extra(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    recording = read_recording(write_record(tmp_path, "r", "NNNV"), ("MLII",))
    request.getfixturevalue("bare")
    np.testing.assert_array_equal(read_recording(recording.path, ("MLII",)).signals_mv, recording.signals_mv)
    assert read_annotation(recording).symbol.tolist() == list("NNNV")


@pytest.mark.usefixtures("bare")
def test_tables_arrays_and_annotations_need_no_extra(tmp_path: Path) -> None:
    signal = np.round(np.sin(np.arange(400) / 7), 4)
    (tmp_path / "r.csv").write_text("MLII (mV)\n" + "\n".join(map(str, signal.tolist())))
    np.save(tmp_path / "r.npy", signal)
    how = ReadOptions(fs_hz=250, units="mV")
    np.testing.assert_array_equal(read_recording(tmp_path / "r.csv", ("MLII",), how=how).signal_mv, signal)
    named = ReadOptions(fs_hz=250, units="mV", columns=("MLII",))
    np.testing.assert_array_equal(read_recording(tmp_path / "r.npy", ("MLII",), how=named).signal_mv, signal)
    assert annotation_bytes(Annotation(np.array([7]), np.array(["N"])), 250.0).endswith(b"\x07\x04\0\0")
