"""docs/extend.md: its commands, snippets and entry points work as they stand, and what they make is right."""

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import wfdb
from support import snapshot
from wfdb.processing import compare_annotations

from ecgfed.base.plugins import load_code
from ecgfed.core.methods.registry import ENTRY_POINTS as METHODS
from ecgfed.domain.signal.detectors.registry import ENTRY_POINTS as DETECTORS
from ecgfed.testing import check_detector

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "extend.md"
BIN = Path(sys.executable).parent


def blocks() -> list[tuple[str, str]]:
    """Language and text of every block of the page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def run(command: list[object] | str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command if isinstance(command, str) else list(map(str, command)),
        shell=isinstance(command, str),
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of a reader who followed the page from its first block to its last, and what each block said."""
    folder = tmp_path_factory.mktemp("extend")
    (folder / "examples").symlink_to(ROOT / "examples")
    said = []
    for language, text in blocks():
        lines = {"sh": text.splitlines(), "python": [[sys.executable, "-c", text]]}.get(language, [])
        for line in lines:
            done = run(line, folder)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            said.append(done.stdout)
    return folder, said


@pytest.mark.slow
def test_the_page_is_followed_to_its_end(followed: tuple[Path, list[str]]) -> None:
    folder, said = followed
    text = "".join(said)
    assert "trimmed-mean passes " in text
    assert "envelope passes 9 checks:" in text
    assert len((folder / "trimmed" / "history.jsonl").read_text().splitlines()) == 2
    assert (folder / "my-run" / "evaluation-test" / "scores.json").is_file()


@pytest.mark.slow
def test_the_detector_finds_the_beats_of_the_demo_patient(followed: tuple[Path, list[str]]) -> None:
    """wfdb's own comparison with the annotation, 150 ms."""
    folder, _ = followed
    found = wfdb.rdann(str(folder / "peaks" / "demo01"), "qrs").sample
    marks = wfdb.rdann(str(folder / "records" / "demo01"), "atr")
    compared = compare_annotations(marks.sample[np.isin(marks.symbol, list("NLRVA/"))], found, 54)
    assert compared.fn <= 1
    assert compared.fp <= 1


def test_the_detector_keeps_the_promises_of_one() -> None:
    assert len(check_detector(f"{ROOT / 'examples' / 'energy_envelope.py'}:ENVELOPE").passed) == 9


@pytest.fixture(scope="module")
def my_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up data set of the page."""
    (snippet,) = [text for language, text in blocks() if language == "python" and "my-data" in text]
    folder = tmp_path_factory.mktemp("data")
    done = run([sys.executable, "-c", snippet], folder)
    assert done.returncode == 0, done.stderr
    return folder / "my-data"


def test_the_data_set_holds_the_beats_of_the_table(my_data: Path, tmp_path: Path) -> None:
    prepare = load_code(f"{ROOT / 'examples' / 'csv_labels.py'}:prepare", "").value
    cohort = prepare(my_data, tmp_path / "records", tmp_path / "cohort")  # type: ignore[operator]
    with (my_data / "beats.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    words = [row["word"] for row in rows]
    assert cohort.meta["class_counts"] == {word: words.count(word) for word in cohort.classes}
    assert [client.id for client in cohort.clients] == ["anna", "ben", "carl"]
    sample = np.load(tmp_path / "cohort" / "sample.npy")
    assert sample.tolist() == [round(float(row["second"]) * 250) for row in rows]
    # at R (sample 100 of a window at 360 Hz) stands the R wave: 1.15 mV less what the band-pass takes of it
    window = np.load(tmp_path / "cohort" / "beats.npy")
    assert 0.8 < float(window[:, 0, 98:103].max(axis=1).mean()) < 1.2


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("visits.csv", "anna,", "an/na,", "patient 'an/na'; expected letters and digits"),
        ("visits.csv", "anna.csv", "../anna.csv", "names the file '../anna.csv'"),
        ("visits.csv", "fs_hz", "rate", "has columns patient, file, rate; expected patient, file, fs_hz"),
        ("beats.csv", "atrial", "odd", "the word 'odd'; expected one of normal,"),
    ],
)
def test_a_data_set_that_is_not_as_it_says_is_one_line_and_leaves_nothing(
    my_data: Path, tmp_path: Path, file: str, old: str, new: str, told: str
) -> None:
    for path in my_data.iterdir():
        text = path.read_text()
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / path.name).write_text(text.replace(old, new, 1) if path.name == file else text)
    before = snapshot(tmp_path)
    script = ROOT / "examples" / "csv_labels.py"
    done = run([sys.executable, script, "data", "--records", "records", "--out", "cohort"], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert snapshot(tmp_path) == before


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip would have filled it: the examples as a package whose entry points are the page's."""
    site = tmp_path_factory.mktemp("site")
    (text,) = [text for language, text in blocks() if language == "toml"]
    groups = tomllib.loads(text)["project"]["entry-points"]
    assert set(groups) == {METHODS, DETECTORS}
    (site / "my_package").mkdir()
    for name in ("trimmed_mean.py", "energy_envelope.py"):
        (site / "my_package" / name).write_text((ROOT / "examples" / name).read_text())
    about = site / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    sections = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups.items()]
    (about / "entry_points.txt").write_text("\n".join(sections))
    return site


@pytest.mark.slow
def test_what_a_package_offers_is_used_by_name(package: Path, followed: tuple[Path, list[str]], tmp_path: Path) -> None:
    records = followed[0] / "records"
    detected = run(
        [BIN / "ecgfed", "detect", records / "demo01", "--detector", "envelope", "--out", "peaks", "--json"],
        tmp_path,
        PYTHONPATH=str(package),
    )
    assert detected.returncode == 0, detected.stderr
    assert json.loads(detected.stdout)["detector"] == "envelope"
    listed = run([BIN / "ecgfed", "methods", "--json"], tmp_path, PYTHONPATH=str(package))
    assert "trimmed-mean" in {row["name"] for row in json.loads(listed.stdout)}
    without = run([BIN / "ecgfed", "detect", records / "demo01", "--detector", "envelope", "--out", "other"], tmp_path)
    assert without.returncode == 2
    assert "--detector: 'envelope'; expected one of ecgfed" in without.stderr
