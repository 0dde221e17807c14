"""The strip on ECG paper: true to scale, and where it begins."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecgfed.reports.strip import Strip, busiest_start, draw_strip


def size_of(png: bytes) -> tuple[int, int]:
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def drawn(signal: np.ndarray, dpi: int = 254) -> bytes:
    strip = Strip(signal, 360.0, np.array([720, 1080]), ["N", "V"], "N", "title", "footer")
    return draw_strip(strip, 0.0, dpi=dpi)


def test_a_second_is_25_mm_and_a_millivolt_10_mm() -> None:
    t = np.arange(10 * 360) / 360
    # 254 dots an inch are 10 dots a millimetre: 10.6 s of paper and 6 mm on either side
    width, height = size_of(drawn(0.9 * np.sin(2 * np.pi * t)))
    assert width == pytest.approx(10 * (10.6 * 25 + 12), abs=2)
    # from -1.5 to 1.5 mV (0.3 below, 0.5 above, up to whole 0.5 mV), title 9 mm, foot 8 mm
    assert height == pytest.approx(10 * (30 + 17), abs=2)
    _, taller = size_of(drawn(1.9 * np.sin(2 * np.pi * t)))
    assert taller - height == pytest.approx(10 * 20, abs=2)  # 2 mV more paper


def test_the_same_strip_has_the_same_bytes() -> None:
    signal = np.random.default_rng(0).normal(0, 0.3, 3600)
    assert drawn(signal) == drawn(signal)


def test_it_begins_where_most_kinds_of_beats_are() -> None:
    r = np.arange(1, 61) * 360  # a beat a second for a minute
    label = ["N"] * 60
    label[40], label[44], label[20], label[21], label[22] = "V", "A", "V", "V", "V"
    start = busiest_start(r, label, "N", 360.0, 61 * 360)
    assert start <= 41 <= 45 <= start + 10  # V and A together beat three V
    assert busiest_start(r[:5], label[:5], "N", 360.0, 6 * 360) == 0.0  # a recording shorter than a strip


def test_predict_draws_it(
    ecgfed: Callable[..., object], fedavg_run: Path, records: Path, tmp_path: Path, cohort_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    assert ecgfed("export", fedavg_run, "--out", bundle).code == 0  # type: ignore[attr-defined]
    said = ecgfed("predict", bundle, records / "p1", "--strip", "--out", tmp_path / "out")
    assert said.code == 0, said.err  # type: ignore[attr-defined]
    assert size_of((tmp_path / "out" / "p1.png").read_bytes())[0] > 1000
    said = ecgfed("predict", bundle, records / "p1", "--strip-at", "9999", "--out", tmp_path / "late")
    assert said.code == 2  # type: ignore[attr-defined]
    assert "less than" in said.err  # type: ignore[attr-defined]
    assert not (tmp_path / "late").exists()
