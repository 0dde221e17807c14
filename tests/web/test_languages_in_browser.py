"""The labelling pages and the page of ``serve`` in another language, in headless Chromium: texts, widths, axe-core.

``make browser`` brings Chromium and the packages of ``tests/browser``.
"""

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import chromium_path, driven, driver_path
from test_languages import bracketed, words_outside_brackets

import ecgfed
from ecgfed.tasks.second_reader import second_reader_page
from ecgfed.tasks.serve import serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def used(folder: Path, language: str) -> dict[str, Any]:
    """What ``languages.mjs`` notes of pages in a language; it uses every button."""
    chromium_path(), driver_path()
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=1, minutes=1, workers=1)
    record = folder / "records" / "demo01"
    made = ecgfed.label(record, folder / "one", count=6, force=True, language=language)
    first = folder / "first.csv"
    first.write_text("".join(["sample,label\n", *(f"{sample},N\n" for sample in made.page.sample[10:18])]))
    second = second_reader_page(record, first, folder / "two", reader="AB", language=language)
    board, bad = folder / "board.csv", folder / "x.dat"
    values = np.asarray(ecgfed.read_recording(record).signal_mv).tolist()
    rows = [f"{round(i * 1000 / 360)},{round(value * 200) + 512}" for i, value in enumerate(values)]
    board.write_text("\n".join(["millis,ecg", *rows]) + "\n")
    bad.write_bytes(b"no recording")
    address: list[str] = []
    there = threading.Event()

    def opened(where: str) -> None:
        address.append(where)
        there.set()

    def work() -> None:
        serve(folder / "work", language=language, opened=opened, idle_s=240)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert there.wait(60)
    given = {
        "language": language,
        "labels": [str(made.files[0]), str(second.files[0])],
        "serve": address[0],
        "board": [str(board)],
        "bad": [str(bad)],
        "recording": [str(record.with_suffix(end)) for end in (".hea", ".dat")],
    }
    result = driven("languages.mjs", given, folder, timeout_s=500)
    thread.join(30)
    assert not thread.is_alive()
    return result


def test_no_text_that_the_pages_show_is_left_in_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bracketed(monkeypatch)
    result = used(tmp_path, "de")
    assert result["errors"] == []
    assert result["languages"] == ["de"] * 4
    names = r"demo01\S*|board\.csv|x\.(dat|hea)|model-1\.zip|beats-1/|ecgfed/model|'abc'|\b(AB|MB|WFDB|ecg|millis)\b"
    own = re.compile(rf"{re.escape(str(tmp_path))}\S*|{names}")
    left = [own.sub("", text) for text in words_outside_brackets(result["texts"])]
    assert words_outside_brackets(left) == []


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_the_pages_pass_axe_and_fit_a_phone(language: str, tmp_path: Path) -> None:
    result = used(tmp_path, language)
    assert result["errors"] == []
    assert result["switched"] == ["es es", "en en", f"{language} {language}"]
    assert {name: found for name, found in result["axe"].items() if found} == {}
    assert {name: width for name, width in result["widths"].items() if width > 0} == {}
    assert {name: found for name, found in result["cut"].items() if found} == {}
