"""Full disclosure: against the lowest and highest values of the filtered lead, and how the sheets are printed."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest
from browser_driver import chromium_path
from conftest import write_record
from record_files import write_signals

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.filters import band_pass_taps
from ecgfed.reports.disclosure import COLUMNS, MOST_BYTES, check_length, full_disclosure
from ecgfed.reports.signals import DrawnLeads

FS_HZ = 360
NONE = -128


def columns_of(data: dict[str, object]) -> np.ndarray:
    """The lowest and the highest value of each column, (columns, 2) int8."""
    return np.frombuffer(base64.b64decode(str(data["int8"])), np.int8).reshape(-1, 2)


def test_no_peak_is_lost(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    signal = 0.1 * rng.standard_normal(90 * FS_HZ)
    signal[np.arange(FS_HZ, len(signal), 300)] += 3.0
    recording = ecgfed.read_recording(write_signals(tmp_path, "full", signal[None], fs_hz=FS_HZ, leads=("II",)))
    found = full_disclosure(DrawnLeads.of(recording, {"II": quality_of(recording, "II")}))
    assert (found.data["rows"], found.data["columns"], found.hours) == (2, COLUMNS[0], 1)
    taps = band_pass_taps(FS_HZ)
    half = len(taps) // 2
    stored = recording.lead_mv("II", 0, recording.samples)
    filtered = np.convolve(np.pad(stored, half, mode="edge"), taps, mode="valid")
    width = FS_HZ // 20
    pieces = filtered[: 90 * FS_HZ].reshape(-1, width)
    drawn = columns_of(found.data)
    assert np.abs(drawn[: len(pieces), 0] / 20 - pieces.min(axis=1)).max() <= 0.026
    assert np.abs(drawn[: len(pieces), 1] / 20 - pieces.max(axis=1)).max() <= 0.026
    assert (drawn[len(pieces) :] == NONE).all()  # the last row is not full
    assert found.size_mb == pytest.approx(len(str(found.data["int8"])) / 1e6)


def test_it_is_bounded() -> None:
    """A day has every 0.05 s; longer recordings fewer columns, and a page has an end."""
    assert check_length(24 * 3600) == COLUMNS[0]
    hours = np.arange(1, 125)
    columns = [check_length(3600 * hour) for hour in hours.tolist()]
    assert max(hours * 60 * np.array(columns) * 2 * 4 / 3) <= MOST_BYTES
    assert set(columns) == set(COLUMNS)
    with pytest.raises(OptionError, match="full_disclosure"):
        check_length(14 * 24 * 3600)


def test_a_page_without_it_has_nothing_of_it(tmp_path: Path) -> None:
    record = write_record(tmp_path, "rec", "N" * 40)
    how = {"labels": record.with_suffix(".atr")}
    plain, full = ecgfed.report(record, **how), ecgfed.report(record, full_disclosure=True, **how)
    assert "disclosed" not in plain.html
    assert full.html.count("data-hour=") == 1
    assert '"disclosure":{"rows":1' in full.html


@pytest.mark.browser
def test_an_hour_is_a_sheet(tmp_path: Path) -> None:
    chromium_path()
    record = write_record(tmp_path, "rec", ("N" * 50 + "V") * 106)  # an hour and a quarter
    how = {"labels": record.with_suffix(".atr"), "pdf": True}
    sheets = []
    for name, full in (("plain", False), ("full", True)):
        report = ecgfed.report(record, out=tmp_path / f"{name}.html", full_disclosure=full, **how)
        sheets.append(len(re.findall(rb"/Type\s*/Page\b", (tmp_path / f"{name}.pdf").read_bytes())))
    assert report.parts.disclosure is not None
    assert report.parts.disclosure.hours == 2
    assert sheets[1] - sheets[0] == 2
