"""Pages of a recording, a run and a comparison in headless Chromium: opened, used, printed, checked for access.

``make browser`` brings Chromium and the packages of ``tests/browser``; where they are not there these tests skip, and
where ECGFED_BROWSER says that they are, one that skips has failed (tests/conftest.py).
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import chromium_path, opened
from conftest import synthetic_signal, write_record
from support import change_json
from written_run import write_run, write_scores

import ecgfed
from ecgfed.tasks.compare_page import compare_as_page

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>window.hacked = true</script>"
TITLES = {"recording": "ECG report: rec", "run": "Run report: first", "comparison": "Runs compared"}
KINDS = list(TITLES)


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_path()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three minutes with a run, a couplet, bigeminy and a hostile name."""
    folder = tmp_path_factory.mktemp("page")
    symbols = "N" * 40 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "NVNVNVNV" + "A" + "N" * 120
    record = write_record(folder, "rec", symbols, comments=[HOSTILE])
    _, at = synthetic_signal(symbols)
    rows = [f"{sample},{symbol}," for sample, symbol in zip(at.tolist(), symbols, strict=True)]
    note = "(<script>window.hacked = true</script>"
    (folder / "labels.csv").write_text("\n".join(["sample,symbol,note", *rows, f"{at[1]},+,{note}"]) + "\n")
    out = folder / "page.html"
    ecgfed.report(record, labels=folder / "labels.csv", out=out)
    return out


def many(folder: Path, name: str, seed: int, cohort: Path) -> Path:
    """A run of a hundred patients on a real cohort of four, evaluated, with hostile names."""
    document = json.loads((cohort / "cohort.json").read_text())
    classes = document["label_map"]["classes"]
    run = write_run(folder / name, method=HOSTILE, fingerprint=document["fingerprint"])
    clients = [client["id"] for client in document["clients"]]
    where = {"path": str(cohort), "fingerprint": document["fingerprint"]}
    change_json(run / "run.json", classes=classes, clients=clients, cohort=where)
    rng = np.random.default_rng(seed)
    patients = {
        f"patient {i}{HOSTILE * (i == 3)}": (float(a), float(b)) for i, (a, b) in enumerate(rng.random((100, 2)))
    }
    scores = {"T_g": 0.5, "T_p": 0.6, "T_r": 0.4, "T_l": 0.48}
    file = write_scores(run, scores, patients, classes={"N": (80, 90, 0.9), "V": (20, 10, 0.25)})
    matrix = rng.integers(0, 900, (len(classes), len(classes))).tolist()
    change_json(file, confusion=matrix, confusion_personal=matrix)
    return run


@pytest.fixture(scope="module")
def pages(page: Path, cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Kind of page -> what happened when it was opened and used."""
    folder = tmp_path_factory.mktemp("pages")
    first, second = (many(folder, name, seed, cohort_path) for seed, name in enumerate(("first", "second")))
    ecgfed.report_run(first, folder / "run.html")
    compare_as_page([first, second], folder / "comparison.html")
    paths = {"recording": page, **{kind: folder / f"{kind}.html" for kind in KINDS[1:]}}
    return {kind: {**opened(path, folder), "page": path} for kind, path in paths.items()}


@pytest.fixture(scope="module")
def told(pages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The recording's page."""
    return pages["recording"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_fits_prints_and_is_read_by_everybody(kind: str, pages: dict[str, dict[str, Any]]) -> None:
    """No error, no request, no markup of strangers; a desktop and phones; A4; the accessibility checker."""
    told = pages[kind]
    assert told["errors"] == []
    assert set(told["requests"]) == {told["page"].as_uri()}
    assert told["hacked"] is False
    assert told["title"] == TITLES[kind]
    assert told["widths"] == {"desktop": 1280, "phone": 390, "small": 320}
    assert told["passes"] > (20 if kind == "recording" else 15)
    assert told["axe"] == {"desktop": [], "phone": []}
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", told["pdf"])
    assert {(round(float(width) / 72 * 25.4), round(float(height) / 72 * 25.4)) for width, height in boxes} == {
        (297, 210)
    }
    if kind != "recording":
        assert len(boxes) >= 5  # with what is folded away
        assert told["unreachable"] == 0


@pytest.mark.parametrize("kind", KINDS[1:])
def test_charts_say_what_they_show(kind: str, pages: dict[str, dict[str, Any]]) -> None:
    told = pages[kind]
    said = " ".join(told["charts"])
    words = ("Gain of 100 patients", "Training loss", "Map of 4 clients") if kind == "run" else ("B against A",)
    assert all(word in said for word in words), said
    assert told["folded"]
    assert not any(told["folded"])  # a hundred rows are folded away; the chart has them


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


def test_printed_strips_are_low_and_state_their_scale(told: dict[str, Any]) -> None:
    assert 1 <= len(told["printed"]) <= 6
    for strip in told["printed"]:
        assert strip["mm"] <= 48  # three on a sheet of 188 mm, with their captions
        assert re.search(r"; 25 mm/s, (5|10) mm/mV", strip["caption"])
    assert told["restored"] == [strip["said"] for strip in told["strips"][: len(told["restored"])]]


def texts_of_pages(pdf: bytes) -> list[int]:
    """Count the operators that show text on each page of a PDF of Chromium's."""
    objects = dict(re.findall(rb"(\d+) 0 obj\n(.*?)\nendobj", pdf, re.DOTALL))
    counts = []
    for page in objects.values():
        if re.search(rb"/Type\s*/Page\b", page):
            content = objects[re.search(rb"/Contents (\d+) 0 R", page)[1]]  # type: ignore[index]
            stream = content.split(b"stream\n", 1)[1].rsplit(b"\nendstream", 1)[0]
            counts.append(len(re.findall(rb"\bT[jJ]\b", zlib.decompress(stream))))
    return counts


@pytest.mark.slow
@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["200", "208"])
def test_half_an_hour_takes_few_pages_and_none_is_nearly_empty(
    record: str, chromium: str, mitdb: Path, tmp_path: Path
) -> None:
    del chromium
    ecgfed.report(mitdb / record, labels=mitdb / f"{record}.atr", out=tmp_path / "page.html", pdf=True)
    pdf = (tmp_path / "page.pdf").read_bytes()
    texts = texts_of_pages(pdf)
    assert 4 <= len(texts) <= 8
    assert min(texts) > 100
    assert b"/StructTreeRoot" in pdf  # tagged, for screen readers


def test_the_command_prints_through_chromium(chromium: str, page: Path) -> None:
    del chromium
    out = page.with_name("printed.html")
    found = ecgfed.report(page.with_name("rec"), labels=page.with_name("labels.csv"), out=out, pdf=True)
    assert found.files == (out, out.with_suffix(".pdf"))
    assert out.read_bytes() == page.read_bytes()
    data = out.with_suffix(".pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 4
