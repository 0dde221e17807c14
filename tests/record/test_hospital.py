"""DICOM, HL7 aECG, SCP-ECG and ISHNE alike: what they say becomes millivolts, what they say wrongly is one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hospital_records import MV, SAME_MV, aecg, dicom, fails, ishne, needs_pydicom, scp, written

from ecgfed.domain.record import groups
from ecgfed.domain.record.kinds import is_of_kind
from ecgfed.domain.record.reader import format_of, read_comments, read_recording

WHOLE: dict[str, tuple[str, Callable[[], bytes | str], float, np.ndarray]] = {
    "ishne": ("r.ecg", ishne, 200, MV),
    "scp": ("r.scp", scp, 500, SAME_MV),
    "aecg": ("r.xml", aecg, 500, SAME_MV),
    "dicom": ("r.dcm", dicom, 500, MV),
}
KINDS = [pytest.param(kind, marks=[needs_pydicom] if kind == "dicom" else []) for kind in WHOLE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file(tmp_path: Path, kind: str) -> None:
    name, make, fs_hz, mv = WHOLE[kind]
    path = written(tmp_path, name, make())
    assert format_of(path) == kind
    assert is_of_kind(path, kind)
    read = read_recording(path, every_lead=True)
    assert (read.name, read.lead, read.leads, read.fs_hz) == ("r", "II", ("II", "V1"), fs_hz)
    np.testing.assert_allclose(read.signals_mv, mv, atol=1e-9, rtol=0)
    one = read_recording(path, ("Lead V1",))
    assert (one.leads, one.requested_as, one.files) == (("V1",), "Lead V1", (path,))
    np.testing.assert_array_equal(one.signal_mv, read.signals_mv[1])
    assert "sex: F" in read.comments
    assert "age: 50" in read.comments
    assert any("Anna" in comment or "Quix" in comment for comment in read.comments)
    assert read_comments(path) == read.comments
    assert "no lead V9; it has II, V1" in fails(path, ("V9",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, kind: str) -> None:
    name, make, *_ = WHOLE[kind]
    content = make()
    data = content.encode() if isinstance(content, str) else content
    for keep in [0, 1, 7, 100, 131, 133, 300, 521, 522, 523, *range(0, len(data) - 1, max(1, len(data) // 60))]:
        fails(written(tmp_path, name, data[:keep]))
    fails(written(tmp_path, name, data[:-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_other_files_of_the_suffix(tmp_path: Path, kind: str) -> None:
    name = WHOLE[kind][0]
    for data in (b"", b"\0" * 2000, b"\xff" * 2000, b"<html/>", b"ISHNE2.0" + b"\0" * 600, bytes(range(256)) * 4):
        fails(written(tmp_path, name, data))
    assert "does not exist" in fails(tmp_path / f"none{name[1:]}")
    (tmp_path / f"d{name[1:]}").mkdir()
    fails(tmp_path / f"d{name[1:]}")


def test_a_wfdb_annotation_that_is_called_ecg_is_no_recording_of_a_folder(tmp_path: Path) -> None:
    """slpdb's beats are slp01a.ecg."""
    assert not is_of_kind(written(tmp_path, "slp01a.ecg", b"\x01\x04\0\0"), "ishne")
    for path, expected in (
        (written(tmp_path, "settings.xml", "<settings/>"), False),
        (tmp_path / "none.xml", False),
        (written(tmp_path, "r.xml", aecg().encode("utf-16")), True),
    ):
        assert is_of_kind(path, format_of(path)) == expected


def test_too_many_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_CHANNELS", 1)
    assert "holds 2 channels; expected 1 to 1" in fails(written(tmp_path, "r.xml", aecg()))


def test_two_leads_of_one_name(tmp_path: Path) -> None:
    path = written(tmp_path, "r.ecg", ishne(codes=(6, 6)))
    assert read_recording(path, every_lead=True).leads == ("II (1)", "II (2)")
    assert read_recording(path, ("#2",)).lead == "II (2)"
    assert "has 2 leads II" in fails(path, ("II",))
