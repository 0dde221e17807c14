"""``ecgfed inspect``: usable seconds, reasons and where, as text, JSON and a picture."""

import json
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from record_files import write_212, write_signals
from support import Command, assert_full_disk, assert_refused, run_limited

REASONS = {"gap", "flat", "rail", "spike", "noise", "baseline"}
FS = 360


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes; MLII flat at 30 s for 4 s, at the rail at 60 s for 3 s, a spike at 80 s; V1 with a gap at 90 s."""
    folder = tmp_path_factory.mktemp("damaged")
    signal, r = synthetic_signal("N" * 150, seed=7)
    signal = signal[: 120 * FS]
    signals = np.stack([signal, 0.6 * signal], axis=1)
    signals[30 * FS : 34 * FS, 0] = -0.3
    signals[60 * FS : 63 * FS, 0] = 5.115
    signals[80 * FS, 0] = -10.0
    signals[90 * FS : 92 * FS, 1] = np.nan
    write_signals(folder, "rec", signals.T, fs_hz=FS, leads=("MLII", "V1"), adc_gain=200.0)
    r = r[r < 120 * FS]
    wfdb.wrann("rec", "atr", r, ["N"] * len(r), write_dir=str(folder))
    return folder / "rec"


def inspected(ecgfed: Command, *arguments: object) -> dict[str, Any]:
    said = ecgfed("inspect", *arguments, "--json")
    assert (said.code, said.err) == (0, "")
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def test_json_says_what_where_and_how_long(ecgfed: Command, damaged: Path) -> None:
    answer = inspected(ecgfed, damaged)
    assert set(answer) == {
        "record",
        "path",
        "fs_hz",
        "duration_s",
        "lead",
        "detector",
        "heart_rate_per_min",
        "leads",
        "findings",
        "left_out",
        "notes",
        "picture",
        "excluded",
        "seconds",
    }
    assert (answer["record"], answer["fs_hz"], answer["duration_s"], answer["lead"]) == ("rec", 360.0, 120.0, "MLII")
    assert answer["heart_rate_per_min"] == pytest.approx(75, abs=3)
    assert answer["picture"] is None
    first, second = answer["leads"]
    assert (first["lead"], second["lead"]) == ("MLII", "V1")
    for about in answer["leads"]:
        assert set(about) == {"lead", "usable_s", "usable_percent", "seconds", "stretches"}
        assert about["usable_percent"] == pytest.approx(100 * about["usable_s"] / 120, abs=0.01)
        for part in about["stretches"]:
            assert set(part) == {"start_s", "stop_s", "start_sample", "stop_sample", "reason"}
            assert part["reason"] in REASONS
            assert part["start_s"] == pytest.approx(part["start_sample"] / 360, abs=0.001)
    where = {part["reason"]: (part["start_s"], part["stop_s"]) for part in first["stretches"]}
    assert where["flat"] == pytest.approx((30, 34), abs=0.05)
    assert where["rail"] == (60.0, 63.0)
    assert where["spike"] == pytest.approx((80, 80), abs=0.06)
    assert second["stretches"] == [
        {"start_s": 90.0, "stop_s": 92.0, "start_sample": 32400, "stop_sample": 33120, "reason": "gap"}
    ]
    assert second["seconds"] == {"gap": 2.0}
    assert second["usable_s"] == 118.0
    assert answer["findings"] == []


def test_text_says_the_same(ecgfed: Command, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ecgfed("inspect", damaged)
    assert (said.code, said.err) == (0, "")
    for words in ("Record rec: 2:00.0 at 360 Hz, leads MLII, V1", "usable", "rail", "1:00.0-1:03.0", "1:30.0-1:32.0"):
        assert words in said.out
    assert ecgfed("inspect", damaged, "--quiet").out == ""


def test_a_sound_record(ecgfed: Command, records: Path) -> None:
    said = ecgfed("inspect", records / "p1.hea")
    assert "No stretch of any lead is amiss." in said.out
    assert "100.00%" in said.out


def test_the_heart_rate_is_the_detectors(ecgfed: Command, records: Path, tmp_path: Path) -> None:
    """An own detector that marks a beat each second at 60 Hz mains, and two at 50."""
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "from ecgfed.domain.signal.detectors import Detector\n"
        "find = lambda s, fs, lead, mains: np.arange(0, s.shape[1], int(fs * (mains - 40) / 20))\n"
        "OWN = Detector('own', find, 'a test')\n"
    )
    own = ("--detector", f"{tmp_path / 'own.py'}:OWN")
    found = inspected(ecgfed, records / "p1", *own)
    assert (found["heart_rate_per_min"], found["detector"]) == (60.0, "own.py:OWN")
    assert inspected(ecgfed, records / "p1", *own, "--mains", "50")["heart_rate_per_min"] == 120.0
    assert inspected(ecgfed, records / "p1")["detector"] == "ecgfed"
    assert_refused(ecgfed("inspect", records / "p1", "--mains", "16"), "--mains: 16", "50 or 60")
    assert_refused(ecgfed("inspect", records / "p1", "--detector", "magic"), "--detector", "one of ecgfed")


def test_the_lead_asked_for_is_the_one_that_is_judged(ecgfed: Command, damaged: Path, tmp_path: Path) -> None:
    assert inspected(ecgfed, damaged, "--lead", "V9,V1")["lead"] == "V1"
    other = write_record(tmp_path, "other", "N" * 20, leads=("V5", "V2"))
    answer = inspected(ecgfed, other)
    assert answer["lead"] == "V5"
    (found,) = answer["findings"]
    assert set(found) == {"kind", "lead", "text", "evidence"}
    assert found["kind"] == "missing-lead"
    assert found["evidence"]["present"] == ["V5", "V2"]
    assert f"- {found['text']}" in ecgfed("inspect", other).out
    second = write_record(tmp_path, "second", "N" * 20, leads=("V5", "MLII"))  # as in 114
    assert inspected(ecgfed, second)["lead"] == "MLII"


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_picture_is_a_page_of_true_size(ecgfed: Command, damaged: Path, tmp_path: Path) -> None:
    said = ecgfed("inspect", damaged, "--out", tmp_path / "rec.png")
    assert said.code == 0, said.err
    assert "rec.png" in said.out
    width, height = png_size((tmp_path / "rec.png").read_bytes())
    assert width == pytest.approx((10.6 * 25 + 12) / 25.4 * 150, abs=2)  # 150 dots an inch
    assert 500 < height < 1500
    assert_refused(ecgfed("inspect", damaged, "--out", tmp_path / "rec.png"), "rec.png exists", "--overwrite")
    before = (tmp_path / "rec.png").read_bytes()
    assert ecgfed("inspect", damaged, "--out", tmp_path / "rec.png", "--overwrite").code == 0
    assert (tmp_path / "rec.png").read_bytes() == before  # the same record, the same bytes
    assert ecgfed("inspect", damaged, "--out", tmp_path / "rec.png", "--overwrite", "--at", "0:05").code == 0
    assert (tmp_path / "rec.png").read_bytes() != before


def test_an_svg_names_the_reasons_of_the_strip(ecgfed: Command, damaged: Path, tmp_path: Path) -> None:
    picture = tmp_path / "rec.svg"
    assert ecgfed("inspect", damaged, "--out", picture, "--at", "1:00").code == 0
    words = {(node.text or "").strip() for node in ElementTree.parse(picture).iter() if node.tag.endswith("}text")}
    assert {"rail", "MLII", "V1", "MLII from 1:00.0, as recorded · beyond ±4 mV not drawn"} <= words
    worst = tmp_path / "worst.svg"
    assert inspected(ecgfed, damaged, "--out", worst)["picture"] == str(worst)
    assert "flat" in worst.read_text()


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2:00", "less than 2:00.0"),
        ("9999", "less than"),
        ("soon", "a time in the record"),
        ("-5", "a time"),
        ("1:2:3:4", "a time"),
        ("", "a time"),
    ],
)
def test_a_moment_that_is_none(ecgfed: Command, damaged: Path, at: str, words: str) -> None:
    assert_refused(ecgfed("inspect", damaged, f"--at={at}"), "--at", words)


def test_a_picture_that_cannot_be_made(ecgfed: Command, damaged: Path, tmp_path: Path) -> None:
    assert_refused(ecgfed("inspect", damaged, "--out", tmp_path / "rec.gif"), "--out", ".png", ".svg")
    assert_refused(ecgfed("inspect", damaged, "--out", tmp_path / "no" / "rec.png"), "is not a folder")
    assert_full_disk(run_limited(3000, "inspect", damaged, "--out", tmp_path / "rec.png"), "rec.png")
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_cannot_be_read(ecgfed: Command, damaged: Path, tmp_path: Path) -> None:
    assert_refused(ecgfed("inspect", tmp_path / "none"), "none.hea", "does not exist")
    assert_refused(ecgfed("inspect", damaged, "--lead", "V9"), "no lead V9", "MLII, V1")
    assert_refused(ecgfed("inspect", damaged, "--lead", " ,"), "--lead", "is empty")
    short = write_record(tmp_path, "short", "NNNNN")
    short.with_suffix(".dat").write_bytes(short.with_suffix(".dat").read_bytes()[:-300])
    assert_refused(ecgfed("inspect", short), "short.dat", "cut short")


def test_what_is_amiss_is_no_error(ecgfed: Command, tmp_path: Path) -> None:
    """A flat record, a brief one and a broken annotation are findings: exit code 0."""
    still = write_212(tmp_path, "still", [[1024] * 7200, [1024] * 7200])
    answer = inspected(ecgfed, still, "--out", tmp_path / "still.png")
    assert [found["kind"] for found in answer["findings"]] == ["no-beats"]
    assert answer["leads"][0]["usable_s"] == 0.0
    assert answer["heart_rate_per_min"] is None
    assert png_size((tmp_path / "still.png").read_bytes())[0] > 1000
    brief = write_record(tmp_path, "brief", "N", annotate=False)
    assert [found["kind"] for found in inspected(ecgfed, brief)["findings"]] == ["no-beats"]
    broken = write_record(tmp_path, "broken", "N" * 30)
    broken.with_suffix(".atr").write_bytes(broken.with_suffix(".atr").read_bytes()[:-3])
    (found,) = inspected(ecgfed, broken)["findings"]
    assert found["kind"] == "annotation"
    assert "cut short" in found["text"]


def test_a_record_without_any_sample_is_drawn(ecgfed: Command, tmp_path: Path) -> None:
    lost = write_212(tmp_path, "lost", [[-2048] * 3600, [-2048] * 3600])
    answer = inspected(ecgfed, lost, "--out", tmp_path / "lost.png")
    assert [about["seconds"] for about in answer["leads"]] == [{"gap": 10.0}] * 2
    assert png_size((tmp_path / "lost.png").read_bytes())[0] > 1000


@pytest.mark.mitdb
def test_real_records(ecgfed: Command, mitdb: Path, tmp_path: Path) -> None:
    answer = inspected(ecgfed, mitdb / "116", "--out", tmp_path / "116.png")
    mlii = answer["leads"][0]
    assert mlii["seconds"]["rail"] == pytest.approx(2.56, abs=0.01)
    assert mlii["usable_percent"] > 99.5
    assert answer["heart_rate_per_min"] == pytest.approx(80, abs=2)  # 2,412 beats in 30 min
    assert inspected(ecgfed, mitdb / "114")["lead"] == "MLII"
    assert [found["kind"] for found in inspected(ecgfed, mitdb / "102")["findings"]] == ["missing-lead", "paced"]
