"""Reports of a folder: each as by itself, an index of all, failures listed, and a stopped call goes on."""

import csv
import io
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_driver import chromium_path, driven
from conftest import Said
from edits_files import AUTHOR, SAVED, document_of, label
from support import Recorder, assert_refused, exported, snapshot

import ecgfed as front
from ecgfed.base.errors import OptionError
from ecgfed.reports.folder_index import RecordingRow, index_page
from ecgfed.tasks.predict_batch import predict_batch
from ecgfed.tasks.progress import ProgressReporter

INDEX = {"index.html", "index.csv", "index.json"}
STATE = "reports.unfinished.jsonl"
HOSTILE = "</td><script>window.hacked = true</script>"


@pytest.fixture
def folder(records: Path, tmp_path: Path) -> Path:
    """Two recordings, one of them in a sub-folder, and a broken file."""
    root = tmp_path / "in"
    for name, to in (("p1", root), ("p2", root / "day")):
        to.mkdir(parents=True, exist_ok=True)
        for end in ("hea", "dat", "atr"):
            shutil.copy(records / f"{name}.{end}", to)
    (root / "broken.edf").write_bytes(b"0       ")
    return root


@pytest.fixture
def call(folder: Path, fedavg_run: Path, tmp_path: Path) -> dict[str, Any]:
    return {"folder": folder, "out": tmp_path / "out", "bundle": exported(fedavg_run)}


def test_a_page_of_each_and_an_index_of_all(
    ecgfed: Callable[..., Said], call: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    out = call["out"]
    printed = ecgfed("report", folder, "--bundle", call["bundle"], "--out", out, "--json")
    assert printed.code == 1  # one failed
    assert len(printed.error_lines) == 1
    assert "broken.edf" in printed.error_lines[0]
    answer = json.loads(printed.out)
    assert answer.pop("seconds") > 0
    assert set(snapshot(out)) == {"p1.html", "day/p2.html", *INDEX}
    assert json.loads((out / "index.json").read_text()) == answer
    (failure,) = answer["failed"]
    assert failure["file"] == "broken.edf"
    assert failure["problem"] in (out / "index.html").read_text()
    page = (out / "index.html").read_text()
    assert re.findall(r'<a href="([^"#]+)">', page) == ["day/p2.html", "p1.html"]
    for row in answer["done"]:
        alone = front.report(folder / row["file"], call["bundle"], out=tmp_path / "alone.html", overwrite=True)
        assert (out / row["page"]).read_bytes() == (tmp_path / "alone.html").read_bytes()
        counts = alone.to_dict()
        assert row["beats"] == counts["counted"]
        assert row["usable_s"] == counts["usable_s"][row["lead"]]
        assert row["heart_rate_per_min"] == pytest.approx(counts["rates"]["mean"], abs=0.05)
        for kind in ("ventricular", "supraventricular"):
            percent = None if counts[kind] is None else pytest.approx(counts[kind]["percent"], abs=1e-3)
            assert row[f"{kind}_percent"] == percent
        assert row["withheld"] == list(counts["withheld"])
        assert row["warnings"] == [warning["text"] for warning in counts["warnings"]]
        assert row["reviewed"] is False
    table = list(csv.DictReader(io.StringIO((out / "index.csv").read_text())))
    assert [row["file"] for row in table] == [*(row["file"] for row in answer["done"]), "broken.edf"]
    assert [row["beats"] for row in table] == [*(str(row["beats"]) for row in answer["done"]), ""]
    assert table[-1]["problem"] == failure["problem"]


def test_edits_beside_a_recording_are_applied(call: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """One recording's report is reviewed and has one beat less; edits of another recording are refused in its row."""
    plain = front.report(folder / "p1", call["bundle"])
    removed = int(front.predict(call["bundle"], folder / "p1").sample[5])
    edits = document_of(plain, label("|", removed), reviewed={"by": AUTHOR, "at": SAVED})
    for name in ("p1", "day/p2"):
        (folder / f"{name}-edits.json").write_text(json.dumps(edits))
    made = front.report_folder(**call)
    (row,) = made.rows
    assert (row.file, row.reviewed, row.beats) == ("p1", True, plain.to_dict()["counted"] - 1)
    assert f"Reviewed by {AUTHOR}" in (call["out"] / "p1.html").read_text()
    assert (call["out"] / "p1.edited").is_file()
    assert {one["file"] for one in made.failed} == {"broken.edf", "day/p2"}
    how = {"edits": folder / "p1-edits.json", "formats": "fhir,table", "out": tmp_path / "page.html"}
    front.report(folder / "p1", call["bundle"], **how)
    assert '"status": "final"' in (tmp_path / "page.fhir.json").read_text()
    # a report that is made anew without the edits leaves these files, with a warning
    with pytest.warns(front.EcgfedWarning, match="page.edited, page.fhir.json"):
        front.report(folder / "p1", call["bundle"], out=tmp_path / "page.html", overwrite=True)


def test_edits_saved_again_under_another_name_are_not_passed_over_silently(call: dict[str, Any], folder: Path) -> None:
    """A browser calls the second download so, and the folder would show the first as the physician's last word."""
    (folder / "p1-edits (1).json").write_text("{}")
    told = Recorder()
    front.report_folder(**call, progress=told)
    assert [line for line in told.warnings if "p1-edits (1).json" in line]


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of another kind")
def test_what_cannot_be_read_is_named_and_the_others_are_reported(call: dict[str, Any], folder: Path) -> None:
    """Broken and circular links, a pipe, a socket and a link to a folder elsewhere; nothing of other names."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (folder / "broken.edf").unlink()
    for name, target in {"a.edf": "gone", "c.hea": "gone", "d.xml": "d.xml", "ward": elsewhere, "in": "day"}.items():
        (folder / name).symlink_to(target)
    for name in ("notes.md", ".#p1.csv", "p1.atr.csv"):  # not the name of a recording
        (folder / name).symlink_to("gone")
    os.mkfifo(folder / "day" / "e.ecg")
    place = Path.cwd()
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(folder)  # the path of a socket has 108 characters at most
        try:
            made.bind("f.dcm")
        finally:
            os.chdir(place)
    unread = ["a.edf", "c.hea", "d.xml", "day/e.ecg", "f.dcm", "ward"]
    made_reports = front.report_folder(**call)
    assert [row.file for row in made_reports.rows] == ["day/p2", "p1"]
    assert sorted(one["file"].removesuffix(".hea") for one in made_reports.failed) == [
        name.removesuffix(".hea") for name in unread
    ]
    index = (call["out"] / "index.html").read_text()
    assert all(name.removesuffix(".hea") in index for name in unread)
    assert front.report_folder(**call, overwrite=True).failed == made_reports.failed
    batch = predict_batch(folder, call["out"].parent / "predicted", bundle=call["bundle"])
    assert [one["file"] for one in batch.failed] == [one["file"] for one in made_reports.failed]
    assert len(batch.completed) == 2
    with pytest.raises(front.EcgfedError):  # a folder without anything of that kind is still refused
        predict_batch(elsewhere, call["out"].parent / "none", bundle=call["bundle"])


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root reads every file")
def test_files_and_folders_without_permission_are_named(call: dict[str, Any], folder: Path) -> None:
    (folder / "x.xml").write_text("<AnnotatedECG/>")
    for name in ("x.xml", "day"):
        (folder / name).chmod(0)
    try:
        made = front.report_folder(**call)
    finally:
        (folder / "day").chmod(0o700)
    assert {one["file"] for one in made.failed} == {"broken.edf", "x.xml", "day"}


@pytest.mark.skipif(sys.platform != "linux", reason="macOS and Windows refuse such names")
def test_a_name_that_is_not_utf8_ends_no_call(call: dict[str, Any], folder: Path) -> None:
    (folder / "broken.edf").rename(os.fsdecode(os.fsencode(folder) + b"/p\xff.edf"))
    made = front.report_folder(**call)
    (failure,) = made.failed
    assert (len(made.rows), failure["file"]) == (2, "p\\udcff.edf")
    assert json.loads((call["out"] / "index.json").read_text())["failed"] == [failure]
    predicted = predict_batch(folder, call["out"].parent / "predicted", bundle=call["bundle"])
    assert [one["file"] for one in predicted.failed] == [failure["file"]]


class StopsAfter(ProgressReporter):
    """Ctrl-C after so many recordings."""

    def __init__(self, count: int) -> None:
        self.count = count

    def update(self, what: str, completed: int, *more: object, **others: object) -> None:
        if what == "recordings" and completed == self.count:
            raise KeyboardInterrupt


def test_a_stopped_call_goes_on_and_ends_the_same(call: dict[str, Any], folder: Path) -> None:
    out = call["out"]
    front.report_folder(**call)
    whole = snapshot(out)
    shutil.rmtree(out)
    with pytest.raises(KeyboardInterrupt):
        front.report_folder(**call, progress=StopsAfter(2))
    assert set(snapshot(out)) == {"day/p2.html", STATE}
    with pytest.raises(OptionError):
        front.report_folder(**call)  # neither resume nor overwrite
    with pytest.raises(OptionError):
        front.report_folder(**call, resume=True, header=True)  # another call
    written = (out / "day/p2.html").stat().st_mtime_ns
    front.report_folder(**call, resume=True)
    assert (out / "day/p2.html").stat().st_mtime_ns == written
    assert snapshot(out) == whole
    with pytest.raises(OptionError):
        front.report_folder(**call, resume=True)  # it is finished
    assert (folder / "p1.hea").exists()


def test_a_report_whose_page_has_changed_is_made_again(call: dict[str, Any]) -> None:
    out = call["out"]
    with pytest.raises(KeyboardInterrupt):
        front.report_folder(**call, progress=StopsAfter(2))
    page = (out / "day/p2.html").read_bytes()
    (out / "day/p2.html").write_bytes(b"changed")
    front.report_folder(**call, resume=True)
    assert (out / "day/p2.html").read_bytes() == page


def test_recordings_of_one_name_do_not_replace_one_another(call: dict[str, Any], folder: Path) -> None:
    (folder / "p1.npy").write_bytes(b"")
    for end in ("hea", "dat", "atr"):
        shutil.copy(folder / f"p1.{end}", folder / f"index.{end}")
    (folder / "index.hea").write_text((folder / "p1.hea").read_text().replace("p1", "index"))
    made = front.report_folder(**call)
    assert {row.file for row in made.rows} == {"day/p2", "p1"}
    assert {failure["file"] for failure in made.failed} == {"broken.edf", "p1.npy", "index"}


@pytest.mark.parametrize(
    "option",
    [
        ("--labels", "x.csv"),
        ("--patient", "p1"),
        ("--subject", "x"),
        ("--format", "table"),
        ("--cohort", "c"),
        ("--edits", "x.json"),
        ("--indication", "Syncope"),
    ],
)
def test_options_of_one_recording_are_refused(
    ecgfed: Callable[..., Said], folder: Path, tmp_path: Path, option: tuple[str, str]
) -> None:
    assert_refused(ecgfed("report", folder, "--out", tmp_path / "out", *option), option[0])
    assert not (tmp_path / "out").exists()


def test_a_folder_without_recordings_and_resume_of_one_recording_are_refused(
    ecgfed: Callable[..., Said], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert_refused(ecgfed("report", tmp_path / "empty", "--out", tmp_path / "out"), "empty")
    assert_refused(ecgfed("report", folder / "p1", "--out", tmp_path / "p1.html", "--resume"), "--resume")


def row(file: str, *, percent: float | None, usable_s: float, rate: float | None, warnings: int) -> RecordingRow:
    page, texts = f"{file}.html", [f"warning {number}" for number in range(warnings)]
    counts = (None, None) if percent is None else (10, percent)
    return RecordingRow(
        file,
        page,
        False,
        "MLII",
        100.0,
        usable_s,
        90,
        rate,
        {"AF or flutter": 30.0},
        ["AF or flutter"],
        *counts,
        0,
        0.0,
        [],
        texts,
        "Research.",
        "AF or flutter (to review) 0:30",
        texts,
    )


@pytest.mark.browser
def test_headings_sort_the_rows_and_the_page_is_accessible(tmp_path: Path) -> None:
    chromium_path()
    rows = [
        row("rec 10", percent=2.5, usable_s=90.0, rate=70.0, warnings=0),
        row("rec 9", percent=None, usable_s=100.0, rate=None, warnings=2),
        row(f"b{HOSTILE}", percent=11.0, usable_s=50.0, rate=120.0, warnings=1),
    ]
    page = tmp_path / "index.html"
    page.write_text(index_page(rows, [{"file": HOSTILE, "problem": HOSTILE}], HOSTILE))
    seen = driven("index.mjs", {"page": page.as_uri()}, tmp_path, timeout_s=120)
    assert seen["errors"] == []
    assert seen["hacked"] is False
    names = [f"b{HOSTILE}", "rec 9", "rec 10"]
    assert seen["sorted"]["Recording"] == [names, names[::-1]]
    ascending = ["rec 10", f"b{HOSTILE}", "rec 9"]
    assert seen["sorted"]["Ventricular burden"] == [ascending, [ascending[1], ascending[0], ascending[2]]]
    assert seen["sorted"]["Usable"][0] == [f"b{HOSTILE}", "rec 10", "rec 9"]
    assert seen["states"] == ["ascending", "descending"]
    assert seen["links"] == ["rec%2010.html", "rec%209.html"]
    assert seen["axe"] == {"desktop": [], "phone": []}
    assert seen["widths"] == {"desktop": 1280, "phone": 390}
