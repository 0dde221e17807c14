"""Records of many segments: one recording, NaN where a segment or a lead is missing, each checksum verified."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import cut, edit, flip_byte, write_212

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.wfdb_files import read_recording

A, B = list(range(1000, 1400, 2)), list(range(1500, 1300, -1))
MV_A, MV_B = (np.array(A) - 1024) / 200, (np.array(B) - 1024) / 200


def fixed(folder: Path) -> Path:
    """Two segments of 200 samples with a gap of 100 between them, both leads in each."""
    write_212(folder, "s1", [A, B])
    write_212(folder, "s2", [B, A])
    (folder / "m.hea").write_text("m/3 2 360 500\ns1 200\n~ 100\ns2 200\n# a comment\n")
    return folder / "m"


def variable(folder: Path) -> Path:
    """A layout segment that names three leads, then segments with some of them in another order."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m_layout.hea").write_text(
        "m_layout 3 360 0\n~ 0 200 12 1024 0 0 0 MLII\n~ 0 200 12 1024 0 0 0 V1\n~ 0 200 12 1024 0 0 0 V5\n"
    )
    write_212(folder, "s1", [A, B], leads=("V1", "MLII"))
    write_212(folder, "s2", [B, A], leads=("V1", "V2"))
    (folder / "m.hea").write_text("m/4 3 360 450\nm_layout 0\ns1 200\n~ 50\ns2 200\n")
    return folder / "m"


def fails(record: Path, lead: str = "MLII") -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        read_recording(record, (lead,), every_lead=True)
    return caught.value.code, caught.value.parameter


def test_a_fixed_layout_is_its_segments_in_a_row(tmp_path: Path) -> None:
    read = read_recording(fixed(tmp_path), ("V1",), every_lead=True)
    gap = np.full(100, np.nan)
    np.testing.assert_allclose(
        read.signals_mv, [np.concatenate([MV_A, gap, MV_B]), np.concatenate([MV_B, gap, MV_A])], atol=1e-12
    )
    assert (read.name, read.lead, read.leads, read.fs_hz) == ("m", "V1", ("MLII", "V1"), 360.0)
    assert read.comments == ("a comment",)
    assert {path.name for path in read.files} == {"m.hea", "s1.hea", "s1.dat", "s2.hea", "s2.dat"}


def test_a_variable_layout_has_nan_where_a_segment_lacks_the_lead(tmp_path: Path) -> None:
    read = read_recording(variable(tmp_path), ("MLII",), every_lead=True)
    expected = [np.concatenate([MV_B, np.full(250, np.nan)]), np.concatenate([MV_A, np.full(50, np.nan), MV_B])]
    np.testing.assert_allclose(read.signals_mv, expected, atol=1e-12)
    assert (read.leads, read.skipped) == (("MLII", "V1"), ("V5: in no segment",))
    assert fails(tmp_path / "m", "V5") == ("unknown-lead", "leads")
    assert fails(tmp_path / "m", "V2") == ("unknown-lead", "leads")


@pytest.mark.parametrize("make", [fixed, variable])
def test_it_is_what_wfdb_makes_of_it(tmp_path: Path, make: object) -> None:
    """wfdb does not read a gap in a fixed layout."""
    record = make(tmp_path)  # type: ignore[operator]
    if make is fixed:
        (tmp_path / "m.hea").write_text("m/2 2 360 400\ns1 200\ns2 200\n")
    reference = wfdb.rdrecord(str(record))
    read = read_recording(record, ("V1",), every_lead=True)
    for lead, signal in zip(read.leads, read.signals_mv, strict=True):
        np.testing.assert_allclose(signal, reference.p_signal[:, reference.sig_name.index(lead)], atol=1e-12)


def test_a_corrupt_and_a_truncated_segment_are_named(tmp_path: Path) -> None:
    record = fixed(tmp_path)
    flip_byte(tmp_path / "s2.dat", 300)
    assert fails(record) == ("invalid-record", None)
    cut(tmp_path / "s2.dat", 3 * 150)
    assert fails(record) == ("invalid-record", "repair")
    (tmp_path / "s2.hea").unlink()
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("~ 100\ns2 200", "~ 101\ns2 199"),
        ("360 500", "250 500"),
        ("360 500", "360 501"),
        ("360 500", "0 500"),
        ("m/3", "m/4"),
        ("m/3", "m/1000000"),
        ("~ 100", "~ 1000000000000"),
        ("s2 200", "m 200"),
        ("s1 200\n~ 100\ns2 200", "~ 200\n~ 100\n~ 200"),
        ("s2 200", "s3 200"),
    ],
)
def test_a_master_header_that_will_not_do(tmp_path: Path, old: str, new: str) -> None:
    record = fixed(tmp_path)
    edit(record.with_suffix(".hea"), old, new)
    assert fails(record) == ("invalid-record", None)


def test_segments_of_segments_and_of_other_leads_are_refused(tmp_path: Path) -> None:
    record = fixed(tmp_path)
    edit(tmp_path / "s2.hea", "MLII", "II")
    assert fails(record) == ("invalid-record", None)
    (tmp_path / "s2.hea").write_text("s2/1 2 360 200\ns1 200\n")
    assert fails(record) == ("invalid-record", None)
    (tmp_path / "s1.hea").write_text("s1/1 2 360 200\ns3 200\n")
    assert fails(record) == ("invalid-record", None)
