"""The live page in headless Chromium: a record dropped on it, a stream from a serial port, bad files, small screens."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import HERE, driven
from conftest import write_record
from node_runtime import node_path, serial_lines

import ecgfed
from ecgfed.device import open_bundle
from ecgfed.web.live import main

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
HOSTILE = "</td><script>window.hacked = true</script><img src=x onerror='window.hacked=true'>"
SYMBOLS = "NNNNNVNNNNNANNNNNVNN" * 4


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    node_path("onnxruntime-web")
    folder = tmp_path_factory.mktemp("live")
    assert main([str(folder / "live.html"), "--ort", str(HERE / "node_modules" / "onnxruntime-web")]) == 0
    record = write_record(folder / "records", "made", SYMBOLS, seed=3, annotate=False)
    files = [f"{record}.hea", f"{record}.dat"]
    bad = folder / "bad"
    bad.mkdir()
    (bad / "cut.dat").write_bytes((folder / "records" / "made.dat").read_bytes()[:3000])
    header = (folder / "records" / "made.hea").read_text()
    (bad / "cut.hea").write_text(header.replace("made", "cut"))
    (bad / "table.csv").write_text(f"time,{HOSTILE}\n0,1\n0.01,{HOSTILE}\n")
    (bad / "odd.bin").write_bytes(b"\x00\x01")
    shutil.make_archive(str(folder / "another"), "zip", MODEL)
    given = {
        "page": str(folder / "live.html"),
        "recording": files,
        "bundle": [str(folder / "another.zip")],
        "bad": [
            [str(bad / "cut.hea"), str(bad / "cut.dat")],
            [str(bad / "table.csv")],
            [str(bad / "odd.bin")],
            files[1:],
        ],
        "lines": serial_lines(record, "1000/mV"),
    }
    answer = driven("live.mjs", given, folder, timeout_s=500)
    return {**answer, "python": ecgfed.predict(record), "folder": folder}


def test_the_page_works_without_a_network_or_an_error(told: dict[str, Any]) -> None:
    assert told["errors"] == []
    assert {one.split(":")[0] for one in told["requests"]} <= {"file", "blob"}
    assert f"5 classes (N, S, V, F, Q), lead {' or '.join(open_bundle(MODEL).leads)}" in told["model"]


def test_a_recording_that_was_dropped_has_pythons_labels(told: dict[str, Any]) -> None:
    found = told["python"]
    rows = list(csv.DictReader(io.StringIO(told["saved"]["text"])))
    assert [int(row["sample"]) for row in rows] == found.sample.tolist()
    assert [row["class"] for row in rows] == list(found.names)
    assert [bool(int(row["uncertain"])) for row in rows] == found.low_confidence.tolist()
    assert [row["poor_quality"] for row in rows] == list(found.poor)
    assert np.abs(np.array([float(row["probability"]) for row in rows]) - found.confidence).max() < 2e-4
    assert told["saved"]["name"] == "made-beats.csv"
    counted = {name: count for name, count in found.counts.items() if count}
    assert {name: int(count) for name, count, _ in told["classified"]["counts"]} == counted
    assert told["classified"]["said"] == f"{len(found)} beats."


def test_the_strip_is_drawn_and_moved_by_keys(told: dict[str, Any]) -> None:
    assert len(told["classified"]["strip"]["beats"]) >= 8
    assert "ECG: 10 s from 0:00.0; MLII" in told["classified"]["strip"]["said"]
    assert "ECG: 10 s from 0:05.0" in told["moved"]
    assert "probability" in told["unusual"]["said"]


def test_a_stream_of_a_serial_port_has_the_labels_of_the_whole(told: dict[str, Any]) -> None:
    """Those of each beat by itself: a stream averages over no alike beats (docs/stream.md)."""
    found = open_bundle(MODEL).classifier().classify_blocks(told["python"].cut.blocks())
    counted = {name: count for name, count in found.counts.items() if count}
    assert {name: int(count) for name, count, _ in told["serial"]["counts"]} == counted
    assert told["serial"]["said"] == f"Ended: {len(found):,} beats."
    assert told["serial"]["closed"] == [115200, True]
    assert any(label.rstrip("?").endswith("\u2026") for label in told["live"]["strip"]["beats"])


def test_bad_files_are_one_line_and_never_markup(told: dict[str, Any]) -> None:
    cut, table, odd, alone = told["bad"]
    assert cut.startswith("cut.dat: is cut short at 1000 of")
    assert table.startswith("table.csv: ")
    assert odd.startswith("odd.bin: is of no format")
    assert alone.startswith("made.dat: came without its header")
    assert not told["hacked"]
    assert all("\n" not in line for line in told["bad"])


def test_another_bundle_is_opened(told: dict[str, Any]) -> None:
    assert told["bundle"]["model"].startswith("another.zip: 5 classes")
    assert told["bundle"]["patients"] == [""]


def test_the_page_can_be_used_by_everybody_and_on_small_screens(told: dict[str, Any]) -> None:
    assert told["axe"] == []
    assert told["widths"] == {"phone": 390, "small": 320}
