"""The page in headless Chromium: opened, clicked, used by keyboard, printed, and read by an accessibility checker.

``make browser`` brings Chromium and the packages of ``tests/browser``; where they are not there these tests skip, and
where ECGFED_BROWSER says that they are, one that skips has failed (tests/conftest.py).
"""

import re
from pathlib import Path
from typing import Any

import pytest
from browser_driver import chromium_path, opened
from conftest import synthetic_signal, write_record

import ecgfed

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_path()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three minutes with a run, a couplet, bigeminy and a hostile name."""
    folder = tmp_path_factory.mktemp("page")
    symbols = "N" * 40 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "NVNVNVNV" + "A" + "N" * 120
    record = write_record(folder, "rec", symbols, comments=["</script><script>window.hacked = true</script>"])
    _, at = synthetic_signal(symbols)
    rows = [f"{sample},{symbol}," for sample, symbol in zip(at.tolist(), symbols, strict=True)]
    note = "(<script>window.hacked = true</script>"
    (folder / "labels.csv").write_text("\n".join(["sample,symbol,note", *rows, f"{at[1]},+,{note}"]) + "\n")
    out = folder / "page.html"
    ecgfed.report(record, labels=folder / "labels.csv", out=out)
    return out


@pytest.fixture(scope="module")
def told(page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened when the page was opened and used."""
    return opened(page, tmp_path_factory.mktemp("shots"))


def test_it_opens_without_an_error_and_asks_for_nothing(told: dict[str, Any], page: Path) -> None:
    assert told["errors"] == []
    assert set(told["requests"]) == {page.as_uri()}
    assert told["hacked"] is False
    assert told["title"] == "ECG report: rec"


def test_it_fits_a_desktop_and_a_phone(told: dict[str, Any]) -> None:
    assert told["widths"] == {"desktop": 1280, "phone": 390, "small": 320}


def test_strips_are_true_to_scale_and_labelled(told: dict[str, Any]) -> None:
    first = told["strips"][0]
    assert first["mm"] == pytest.approx(15 + 10 * 25, abs=0.1)  # the pulse's paper, and 25 mm a second
    assert "".join(first["beats"]).count("VVVV") == 1
    assert first["events"][0].startswith("run of 4")
    assert first["said"].startswith("Longest ventricular run")
    assert "MLII and V1" in first["said"]


def test_the_timeline_is_used_by_mouse_and_by_keyboard(told: dict[str, Any]) -> None:
    columns = told["columns"]
    assert columns >= 17
    assert told["clicked"]["at"] in range(int(0.7 * columns), int(0.85 * columns) + 1)
    assert told["clicked"]["said"] != told["begin"]["said"]
    assert told["clicked"]["caption"] != told["begin"]["caption"]
    assert told["focused"] == "timeline-slider"
    assert told["keys"][:5] == [0, 1, 2, 1, columns - 1]
    assert told["keys"][5] < columns - 1
    assert re.search(r"\d V", told["after"]["said"])
    low, high = (
        sum(60**power * int(part) for power, part in enumerate(reversed(time.split(":"))))
        for time in re.match(r"([\d:]+) to ([\d:]*\d)", told["linked"]["said"]).groups()  # type: ignore[union-attr]
    )
    assert low <= told["linked"]["seconds"] < high
    assert told["linked"]["focused"] == "timeline-slider"


def test_the_accessibility_checker_finds_nothing(told: dict[str, Any]) -> None:
    assert told["passes"] > 20
    assert told["axe"] == {"desktop": [], "phone": []}


def test_it_prints_on_a4(told: dict[str, Any]) -> None:
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", told["pdf"])
    assert boxes
    for width, height in boxes:
        assert float(width) / 72 * 25.4 == pytest.approx(297, abs=1)
        assert float(height) / 72 * 25.4 == pytest.approx(210, abs=1)


def test_the_command_prints_through_chromium(chromium: str, page: Path) -> None:
    del chromium
    out = page.with_name("printed.html")
    found = ecgfed.report(page.with_name("rec"), labels=page.with_name("labels.csv"), out=out, pdf=True)
    assert found.files == (out, out.with_suffix(".pdf"))
    assert out.read_bytes() == page.read_bytes()
    data = out.with_suffix(".pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 4
