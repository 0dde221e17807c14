"""``ecgfed label``: the page, what it is made of, and what it refuses. Clicking it is ``tests/labels``."""

import csv
import json
import re
import shlex
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import write_record
from record_files import write_212
from support import Command, assert_refused, snapshot

import ecgfed as package
from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.base.errors import OptionError, StorageError
from ecgfed.domain.labels.page import page_data as served_data
from ecgfed.domain.labels.user_labels import read_user_labels
from ecgfed.tasks.grouped import recording_id


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes with V and A among N, two leads."""
    folder = tmp_path_factory.mktemp("label")
    return write_record(folder, "rec", "N" * 40 + "NNVNNNANNV" * 8 + "N" * 30, seed=4)


def page_data(page: Path) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page.read_text())
    data: dict[str, Any] = json.loads(text)
    return data


def test_the_page_and_what_is_said_of_it(ecgfed: Command, record: Path, tmp_path: Path) -> None:
    said = ecgfed("label", record, "--out", tmp_path / "labels", "--count", 7, "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    (page,) = (tmp_path / "labels").iterdir()
    assert page.name == "rec-label.html"
    assert told["files"] == [str(page)]
    data = page_data(page)
    assert (data["count"], data["record"], data["beats"]) == (7, "rec", told["beats"])
    assert data["recording"] == told["recording"]
    assert data["leads"] == told["leads"] == ["MLII", "V1"]
    assert data["groups"][0]["size"] == told["beats"] > 100
    assert data["file_name"] == "rec-labels.csv" == Path(told["labels_file"]).name
    assert str(record.parent) not in page.read_text()  # no path of this machine


def test_what_speaks_against_the_model_is_a_line_each(
    ecgfed: Command, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    one = ("label", record, "--lead", "V1")  # the model in the package has no scores of it
    notices = json.loads(ecgfed(*one, "--out", tmp_path / "script", "--json").out)["notices"]
    assert any(len(notice) > 30 for notice in notices)
    lines = ecgfed(*one, "--out", tmp_path / "person").out.splitlines()
    assert [line[2:] for line in lines if line.startswith("- ")] == notices


def test_the_same_recording_gives_the_same_bytes(ecgfed: Command, record: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert ecgfed("label", record, "--out", tmp_path / name, "--quiet").code == 0
    assert (tmp_path / "a" / "rec-label.html").read_bytes() == (tmp_path / "b" / "rec-label.html").read_bytes()


def test_only_beats_of_the_first_minutes_are_asked_for(ecgfed: Command, record: Path, tmp_path: Path) -> None:
    said = ecgfed("label", record, "--out", tmp_path, "--minutes", 0.5)
    assert said.code == 0, said.err
    assert "of the first 0.5 minutes" in said.out
    data = page_data(tmp_path / "rec-label.html")
    assert max(point["time_s"] for point in data["points"].values()) < 30
    assert data["groups"][0]["size"] == data["beats"] < 60


def test_labels_that_are_there_stay(ecgfed: Command, record: Path, tmp_path: Path) -> None:
    (tmp_path / "rec-labels.csv").write_text("mine")
    assert ecgfed("label", record, "--out", tmp_path, "--quiet").code == 0
    refused = ecgfed("label", record, "--out", tmp_path)
    assert_refused(refused, "--out", "rec-label.html", "--overwrite")
    assert ecgfed("label", record, "--out", tmp_path, "--overwrite", "--quiet").code == 0
    assert (tmp_path / "rec-labels.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--count", 0), "--count"),
        (("--count", 100_000), "--count"),
        (("--minutes", 0), "--minutes"),
        (("--minutes", "nan"), "--minutes"),
        (("--minutes", 0.001), "no beat"),
        (("--lead", "V9"), "V9"),
        (("--bundle", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_is_one_line_and_writes_nothing(
    ecgfed: Command, record: Path, tmp_path: Path, options: tuple[object, ...], said: str
) -> None:
    before = snapshot(tmp_path)
    assert_refused(ecgfed("label", record, "--out", tmp_path / "new", *options), said)
    assert snapshot(tmp_path) == before


def test_a_recording_without_a_beat(ecgfed: Command, tmp_path: Path) -> None:
    write_212(tmp_path, "flat", [[1024] * 360 * 20], leads=["MLII"])
    assert_refused(ecgfed("label", tmp_path / "flat", "--out", tmp_path / "out"), "flat", "no usable 3 s")
    assert not (tmp_path / "out").exists()


def test_in_python_nothing_is_written_until_it_is_asked_for(record: Path, tmp_path: Path) -> None:
    made = package.label(record, count=5)
    assert repr(made) == f"Labelling('rec': {made.grouped.grouped:,} beats in 100 groups)"
    assert made.files == ()
    assert made.html.startswith("<!DOCTYPE html>")
    assert package.label(package.read_recording(record), count=5).page.recording == made.page.recording
    with pytest.raises(OptionError, match="count: True"):
        package.label(record, count=True)


def test_a_recording_is_known_by_its_signal_not_by_its_name(record: Path, tmp_path: Path) -> None:
    for suffix in (".dat", ".hea"):
        text = record.with_suffix(suffix).read_bytes()
        (tmp_path / f"other{suffix}").write_bytes(text.replace(b"rec", b"other") if suffix == ".hea" else text)
    mine, other = (package.read_recording(one) for one in (record, tmp_path / "other"))
    assert recording_id(mine) == recording_id(other)
    third = write_record(tmp_path, "third", "N" * 40, seed=5)
    assert recording_id(package.read_recording(third)) != recording_id(mine)


def test_the_served_page_is_given_and_ends_by_itself(record: Path, tmp_path: Path) -> None:
    """The page itself is driven in the browser tests; here a request as it makes them, and the end by idleness."""
    made = package.label(record, tmp_path / "labels", count=3, page_file=False)
    seen: list[str] = []

    def opened(address: str) -> None:
        seen.append(address)
        threading.Thread(target=lambda: seen.append(urllib.request.urlopen(address).read().decode())).start()

    served = made.serve(opened, idle_s=1.0)
    assert (served.labels, served.ended) == (0, "idle")
    assert seen[0].startswith("http://127.0.0.1:")
    assert '"served":true' in seen[1]
    assert not (tmp_path / "labels" / "rec-labels.csv").exists()


def test_served_labels_are_in_the_file_before_the_next_question(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that ``serve`` does around the server: what keeps a second one out must not keep the answers out."""
    monkeypatch.setattr("ecgfed.base.files._WAIT_S", 0.2)
    made = package.label(record, tmp_path / "labels", count=3, page_file=False)
    data, told = served_data(made.page), list[Any]()
    sample = min(point["sample"] for point in data["points"].values())
    about = {"version": 1, "recording": data["recording"], "groups": data["digest"]}
    kept = {**about, "revision": 1, "cursor": 1, "actions": [{"do": "answer", "group": 0, "label": "V"}], "given": []}

    def opened(address: str) -> None:
        given = {"base": 0, "kept": kept, "rows": [[sample, "V", data["beats"], "clinician"]]}
        origin = address.rsplit("/", 2)[0]
        head = {"Origin": origin, "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}save", json.dumps(given).encode(), head)
        told.append(json.load(urllib.request.urlopen(asked)))
        told.extend(read_user_labels(made.labels_file))

    served = made.serve(opened, idle_s=0.5)
    assert told[0] == {"revision": 1}
    assert [(one.sample, one.label, one.beats) for one in told[1:]] == [(sample, "V", data["beats"])]
    assert (served.labels, served.ended) == (1, "idle")


def test_no_torch_on_the_way(record: Path, tmp_path: Path) -> None:
    code = (
        "import sys; import ecgfed; "
        f"ecgfed.label({str(record)!r}, {str(tmp_path)!r}, count=3); "
        "print([name for name in ('torch', 'sklearn', 'onnx', 'wfdb', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_what_comes_next_can_be_typed_as_it_stands(ecgfed: Command, record: Path, tmp_path: Path) -> None:
    out = tmp_path / "my labels"
    said = ecgfed("label", record, "--out", out, "--seed", 3, "--minutes", 1, "--peaks", "annotated")
    assert said.code == 0, said.err
    (command,) = re.findall(r"Next: (ecgfed personalize .*)", " ".join(said.out.split()))
    typed = shlex.split(command)
    assert typed[2] == str(record)
    assert typed[4] == str(out / "rec-labels.csv")
    assert {"--seed", "--minutes", "--peaks"} <= set(typed)


def test_two_servers_of_one_file_and_a_file_where_the_folder_goes(record: Path, tmp_path: Path) -> None:
    made = package.label(record, tmp_path / "labels", count=3, page_file=False)
    refused: list[str] = []

    def opened(_: str) -> None:
        with pytest.raises(StorageError) as caught:
            made.serve(lambda address: None, idle_s=0.5)
        refused.append(str(caught.value))

    made.serve(opened, idle_s=0.5)
    assert len(refused) == 1
    assert "rec-labels.csv" in refused[0]
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="cannot be a folder"):
        package.label(record, tmp_path / "file", count=3, page_file=False).serve(lambda address: None)


def test_questions_and_answers_in_python(record: Path, tmp_path: Path) -> None:
    """A script asks as the page does, largest group first, and saves the table that the page saves."""
    labelling = package.label(record, tmp_path)
    data = page_data(tmp_path / "rec-label.html")
    marks = package.read_annotation(record).beats()
    known = dict(zip(marks.sample.tolist(), marks.symbol.tolist(), strict=True))
    answers: dict[int, str] = {}
    while len(answers) < 8:
        sample = labelling.next_beat(answers)
        assert sample is not None
        assert sample not in answers
        answers[sample] = known[min(known, key=lambda at: abs(at - sample))]
    assert next(iter(answers)) == data["points"][str(data["groups"][0]["beat"])]["sample"]
    assert {"N", "V"} <= set(answers.values()), "the rare ones are asked for early"
    file = labelling.save_labels(answers)
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [(int(row["sample"]), row["label"]) for row in rows] == sorted(answers.items())
    assert sum(int(row["beats"]) for row in rows) == data["beats"]
    assert {row["recording"] for row in rows} == {data["recording"]}
    everywhere = {point["sample"]: "N" for point in data["points"].values()}
    assert labelling.next_beat(everywhere) is None
    with pytest.warns(EcgfedDeprecation, match="use labels"):
        assert labelling.next_beat(answers=everywhere) is None  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="already has rec-labels"):
        labelling.save_labels(answers)
    assert labelling.save_labels({sample: "V"}, overwrite=True).read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("answers", "said"), [({}, "none"), ({-1: "N"}, "-1 is no beat"), ({"first": "normal"}, "'normal' at")]
)
def test_answers_that_cannot_be(answers: dict[Any, str], said: str, record: Path, tmp_path: Path) -> None:
    labelling = package.label(record, tmp_path / "labels", page_file=False)
    first = labelling.next_beat({})
    given = {first if key == "first" else key: label for key, label in answers.items()}
    with pytest.raises(OptionError, match=said):
        labelling.save_labels(given)
    assert not (tmp_path / "labels").exists()
