"""The page on a recording's quality: where its strip begins, true scale, and what is written."""

import re
import struct

import numpy as np
import pytest

from ecgfed.reports.quality_page import COLOURS, QualityPage, draw_quality, worst_start

FS = 360.0


def page(leads: int = 2, seconds: float = 60.0, level: float = 1.0, **changes: object) -> QualityPage:
    at = np.arange(round(seconds * FS)) / FS
    signals = np.stack([level * 0.9 * np.sin(2 * np.pi * at) for _ in range(leads)])
    names = tuple(f"V{i + 1}" for i in range(leads))
    stretches = {name: [(12.0, 14.0, "noise"), (13.0, 15.5, "gap")] for name in names}
    given = {"signals_mv": signals, "leads": names, "chosen": "V1", "fs_hz": FS, "stretches": stretches}
    return QualityPage(**{**given, "title": "a title", "footer": "a footer", **changes})  # type: ignore[arg-type]


def size_mm(drawn: QualityPage) -> tuple[float, float]:
    data = draw_quality(drawn, 10.0, dpi=254)  # ten dots a millimetre
    width, height = struct.unpack(">II", data[16:24])
    return width / 10, height / 10


def test_the_strip_is_true_to_scale_and_each_lead_has_a_row() -> None:
    width, height = size_mm(page())
    assert width == pytest.approx(10.6 * 25 + 12, abs=0.3)
    # title 9, two rows of 16, their axis 7, 12 between, 3 mV of paper (30 mm), foot 8
    assert height == pytest.approx(9 + 32 + 7 + 12 + 30 + 8, abs=0.3)
    assert size_mm(page(level=1.9))[1] == pytest.approx(height + 20, abs=0.3)
    assert size_mm(page(leads=12))[1] == pytest.approx(height - 32 + 12 * 8, abs=0.3)


def test_the_paper_ends_where_no_ecg_goes() -> None:
    drawn = page()
    signals = drawn.signals_mv.copy()
    signals[0, 4000:4010] = 500.0
    spiked = page(signals_mv=signals)
    assert size_mm(spiked)[1] == pytest.approx(size_mm(drawn)[1] + 10 * (4.0 - 1.5), abs=0.3)
    assert b"beyond" in draw_quality(spiked, 10.0, form="svg")
    assert b"beyond" not in draw_quality(drawn, 10.0, form="svg")


def test_reasons_and_times_are_written() -> None:
    svg = draw_quality(page(), 10.0, form="svg").decode()
    words = re.findall(r">([^<>\n]+)</text>", svg)
    assert {"a title", "V1", "V2", "noise", "gap", "0:10", "V1 from 0:10.0, as recorded"} <= set(words)
    assert any("25 mm/s, 10 mm/mV" in text and "a footer" in text for text in words)
    assert "rail" not in words
    quiet = draw_quality(page(stretches={"V1": [], "V2": []}), 10.0, form="svg").decode()
    assert not any(f">{reason}<" in quiet for reason in COLOURS)


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_page_has_the_same_bytes(form: str) -> None:
    assert draw_quality(page(), 10.0, form=form) == draw_quality(page(), 10.0, form=form)


@pytest.mark.parametrize("seconds", [0.01, 1.0, 9.0, 5000.0])
def test_brief_long_and_lost_recordings_are_drawn(seconds: float) -> None:
    drawn = page(seconds=seconds)
    assert draw_quality(drawn, 0.0)
    assert draw_quality(page(seconds=seconds, signals_mv=np.full(drawn.signals_mv.shape, np.nan)), 0.0)


def test_the_worst_ten_seconds() -> None:
    bad = np.zeros(round(120 * FS), dtype=bool)
    assert worst_start(bad, FS) == 0.0
    bad[round(100 * FS) : round(103 * FS)] = True
    bad[round(20 * FS) : round(21 * FS)] = True
    start = worst_start(bad, FS)
    assert start == pytest.approx(96.5, abs=0.1)  # 100 to 103 s in the middle of ten
    bad[round(30 * FS) : round(60 * FS)] = True
    assert worst_start(bad, FS) == pytest.approx(40, abs=0.1)
    assert worst_start(np.ones(100, dtype=bool), FS) == 0.0
