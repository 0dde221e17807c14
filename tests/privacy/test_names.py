"""Names of people in no byte of a cohort, run or bundle; and no socket opened while they are made.

A name is planted in every field of a header that takes one. The search is shown to find it in the recordings first.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from record_files import edf_annotation, edf_bytes, write_signals
from support import Command, assert_refused, snapshot, traced_once

ROOT = Path(__file__).parent.parent.parent
SYMBOLS = "NNVNNNVN" * 5
__all__ = ["traced_once"]  # a fixture
#: In headers, in texts of annotations; and in names of files and folders.
HEADER, FILED = "Quixquax", "Zwackelmann"


def plant(folder: Path, name: str, seed: int, **how: str) -> None:
    """Write a WFDB record and its annotation with HEADER in every field that takes text."""
    signal, at = synthetic_signal(SYMBOLS, seed=seed)
    comments = [f"name: {HEADER} {how.get('who', name)}", f"born 1951-05-0{seed} by Dr {HEADER}"]
    leads = ("MLII", f"{HEADER}'s")
    write_signals(folder, name, np.stack([signal, -signal]), fs_hz=360, leads=leads, comments=comments)
    notes = [HEADER if i % 5 == 0 else "" for i in range(len(at))]
    wfdb.wrann(name, "atr", sample=at, symbol=list(SYMBOLS), aux_note=notes, write_dir=str(folder))


def plant_edf(folder: Path, name: str, seed: int) -> None:
    """The same as EDF+, 1 mV being 100 steps."""
    signal, at = synthetic_signal(SYMBOLS, seed=seed)
    whole = len(signal) // 360
    steps = np.rint(signal[: whole * 360] * 200).astype(int).reshape(whole, 360).clip(-1000, 1000)
    marks = []
    for second in range(whole):
        inside = [(s / 360, y) for s, y in zip(at, SYMBOLS, strict=True) if second <= s / 360 < second + 1]
        texts = [edf_annotation(round(when, 6), symbol) for when, symbol in inside]
        marks.append(b"".join([edf_annotation(second), *texts, edf_annotation(second, HEADER)]))
    raw = bytearray(
        edf_bytes(
            [steps.tolist()],
            labels=["ECG MLII"],
            reserved="EDF+C",
            annotations=marks,
            annotation_bytes=120,
            patient=f"{HEADER} F 02-MAY-1951 {HEADER}_Anna {HEADER}",
        )
    )
    raw[88:168] = f"Startdate 02-MAR-2002 {HEADER} {HEADER} {HEADER}".encode().ljust(80)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.edf").write_bytes(raw)


def found(folder: Path, *words: str) -> list[str]:
    """Where below a folder some words stand: in names, in bytes, in what is compressed; UTF-8 or UTF-16, any case."""
    places = []
    for name, data in snapshot(folder).items():
        parts = {name: data, f"{name} (its name)": name.encode()}
        if data[:4] == b"PK\x03\x04":
            with zipfile.ZipFile(folder / name) as archive:
                parts |= {f"{name}: {entry}": archive.read(entry) for entry in archive.namelist()}
        for place, part in parts.items():
            low = part.lower()
            spelled = {word: (word.lower().encode(), word.lower().encode("utf-16-le")) for word in words}
            places += [f"{place}: {word}" for word, ways in spelled.items() if any(way in low for way in ways)]
    return places


def make_all(ecgfed: Command, recordings: Path, out: Path, *options: object) -> None:
    """Cohort and pack, run with its evaluation, bundle, predictions: each in a folder of its own below ``out``."""
    out.mkdir(exist_ok=True)
    (out / "pack").mkdir()
    commands: list[tuple[object, ...]] = [
        ("prepare", "folder", recordings, "--out", out / "cohort", "--pack", out / "pack" / "c.pack", "--workers", 1),
        ("train", out / "cohort", "--out", out / "run", "--rounds", 1, "--local-epochs", 1, "--method", "grp-fed"),
        ("evaluate", out / "run"),
        ("export", out / "run", "--out", out / "bundle"),
    ]
    for i, command in enumerate(commands):
        said = ecgfed(*command, "--quiet", *(options if i == 0 else ()))
        assert said.code == 0, said.err


@pytest.mark.usefixtures("traced_once")
def test_no_name_of_a_header_is_in_a_cohort_a_run_or_a_bundle(ecgfed: Command, tmp_path: Path) -> None:
    """Without any option; the names of files are the user's own and stay."""
    plant(tmp_path / "in", "r1", 1)
    plant(tmp_path / "in", "r2", 2)
    plant_edf(tmp_path / "in", "r3", 3)
    assert {place.partition(":")[0] for place in found(tmp_path / "in", HEADER)} == {
        *("r1.hea", "r1.atr", "r2.hea", "r2.atr", "r3.edf")
    }
    make_all(ecgfed, tmp_path / "in", tmp_path / "out", "--format", "wfdb,edf")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bundle", "cohort", "pack", "run"]
    assert found(tmp_path / "out", HEADER, "1951-05", "MAY-1951", "MAR-2002") == []
    assert found(tmp_path / "out" / "bundle", str(tmp_path), str(ROOT)) == []
    assert (tmp_path / "out" / "run" / "evaluation-test" / "scores.json").is_file()
    for record in ("r1", "r3.edf"):
        where = ("--out", tmp_path / "predictions", "--strip", "--quiet")
        predicted = ecgfed("predict", tmp_path / "out" / "bundle", tmp_path / "in" / record, *where)
        assert predicted.code == 0, predicted.err
    assert found(tmp_path / "predictions", HEADER, str(tmp_path)) == []


@pytest.mark.usefixtures("traced_once")
def test_with_anonymize_no_name_of_a_file_or_folder_is_in_them_either(ecgfed: Command, tmp_path: Path) -> None:
    recordings = tmp_path / FILED / "recordings"
    for seed in (1, 2, 3):
        plant(recordings / f"{FILED}{seed}", f"{FILED}-{seed}", seed)
    table = tmp_path / "patients.csv"
    rows = [f"{FILED}-1,{FILED} Anna", f"{FILED}-2,{FILED} Anna", f"{FILED}-3,{FILED}, Bert"]
    rows[2] = f'{FILED}-3,"{FILED}, Bert"'
    table.write_text("\n".join(["record,patient", *rows]) + "\n")
    key = tmp_path / "key.csv"
    options = ("--anonymize", "--patients", table, "--key", key)
    work = tmp_path / FILED / "work"  # the home of the one who does it, so to say
    make_all(ecgfed, recordings, work, *options)
    assert found(work, HEADER, FILED, str(tmp_path)) == []
    cohort = json.loads((work / "cohort" / "cohort.json").read_text())
    names = {client["id"]: client["records"] for client in cohort["clients"]}
    assert sorted(names) == ["p0001", "p0002"]
    (both,) = (id_ for id_, held in names.items() if len(held) == 2)
    assert names[both] == [f"{both}-1", f"{both}-2"]
    assert {record["name"] for record in cohort["records"]} == {name for held in names.values() for name in held}
    assert all(record["sha256"] == {} for record in cohort["records"])
    assert cohort["anonymised"]["removed"] == {
        "comments": 3,
        "digests of the files": 3,
        "record and file name": 3,
        "texts of annotations": 3,
    }
    said = key.read_text()
    assert key.stat().st_mode & 0o777 == 0o600
    assert sum(f"{both},{FILED} Anna," in line for line in said.splitlines()) == 2
    # the run finds its cohort by the way from one to the other, and both may move together
    (tmp_path / FILED).rename(tmp_path / "moved")
    again = ecgfed("evaluate", tmp_path / "moved" / "work" / "run", "--quiet")
    assert again.code == 0, again.err


def test_the_same_recordings_make_the_same_anonymous_cohort_whatever_they_are_called(
    ecgfed: Command, tmp_path: Path
) -> None:
    """So an id says nothing of a name: not even its place in the alphabet."""
    for name, other, seed in (("anna", "zoe", 1), ("bert", "yan", 2), ("cem", "xaver", 3)):
        for folder, called in (("one", name), ("two", other)):
            signal, at = synthetic_signal(SYMBOLS, seed=seed)
            (tmp_path / folder).mkdir(exist_ok=True)
            rows = "\n".join(f"{i / 360:.6f},{v:.3f}" for i, v in enumerate(signal))
            (tmp_path / folder / f"{called}.csv").write_text(f"time,MLII (mV)\n{rows}\n")
            marks = "\n".join(f"{s},{y}" for s, y in zip(at, SYMBOLS, strict=True))
            (tmp_path / folder / f"{called}.atr.csv").write_text(f"sample,symbol\n{marks}\n")
    for folder in ("one", "two"):
        out = ("--out", tmp_path / f"cohort-{folder}", "--anonymize", "--workers", 1, "--quiet")
        said = ecgfed("prepare", "folder", tmp_path / folder, *out)
        assert said.code == 0, said.err
    assert snapshot(tmp_path / "cohort-one") == snapshot(tmp_path / "cohort-two")


def test_a_patient_that_a_header_names_is_a_number_in_the_cohort(ecgfed: Command, tmp_path: Path) -> None:
    """Two records of one person are one client, whose name stands nowhere; --holdout still knows it."""
    for seed, who in ((1, "Ann"), (2, "Bob"), (3, "Ann")):
        plant(tmp_path / "in", f"r{seed}", seed, who=who)
    key = tmp_path / "key.csv"
    pattern = ("--patient-comment", rf"name: ({HEADER} \w+)")
    command = ("prepare", "folder", tmp_path / "in", *pattern, "--holdout", f"{HEADER} Bob", "--workers", 1)
    said = ecgfed(*command, "--out", tmp_path / "cohort", "--key", key, "--quiet")
    assert said.code == 0, said.err
    assert found(tmp_path / "cohort", HEADER) == []
    clients = json.loads((tmp_path / "cohort" / "cohort.json").read_text())["clients"]
    held = {tuple(client["records"]): client["holdout"] for client in clients}
    assert held == {("r1", "r3"): False, ("r2",): True}
    assert {client["id"] for client in clients} == {"p0001", "p0002"}
    (bob,) = (client["id"] for client in clients if client["holdout"])
    assert f"{bob},{HEADER} Bob,{tmp_path / 'in' / 'r2'}" in key.read_text()
    said = ecgfed(*command, "--out", tmp_path / "second")
    assert "--key FILE writes down who is who" in said.out + said.err
    assert HEADER not in said.out + said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--key", "key.csv"), ("--key", "without --anonymize")),
        (("--key", "c/key.csv", "--anonymize"), ("--key", "keep it apart")),
        (("--key", "mine.txt", "--anonymize"), ("--key", "mine.txt exists", "--overwrite")),
        (("--key", "mine.txt", "--anonymize", "--overwrite"), ("--key", "is no key")),
        (("--anonymize", "--holdout", "nobody"), ("--holdout", "no client nobody")),
    ],
)
def test_an_option_that_will_not_do(
    ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    plant(tmp_path / "in", "r1", 1)
    (tmp_path / "mine.txt").write_text("a letter")
    before = snapshot(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert_refused(ecgfed("prepare", "folder", "in", "--out", "c", "--workers", 1, *options), *words)
    assert snapshot(tmp_path) == before


def test_a_cohort_that_fails_leaves_no_key(ecgfed: Command, tmp_path: Path) -> None:
    plant(tmp_path / "in", "r1", 1)
    (tmp_path / "in" / "r1.atr").unlink()
    command = ("prepare", "folder", tmp_path / "in", "--out", tmp_path / "c", "--anonymize", "--workers", 1)
    assert_refused(ecgfed(*command, "--key", tmp_path / "key.csv"), "r1.atr", "does not exist")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


@pytest.mark.mitdb
@pytest.mark.slow
def test_mit_bih_without_names_is_the_same_beats(ecgfed: Command, mitdb: Path, tmp_path: Path) -> None:
    """Beats and labels of the 45 patients are those of the named cohort, in another order."""
    for name, options in (("named", ()), ("anonymous", ("--anonymize", "--key", tmp_path / "key.csv"))):
        said = ecgfed("prepare", "mitbih", "--source", mitdb, "--out", tmp_path / name, "--quiet", *options)
        assert (said.code, said.err) == (0, "")
    assert found(tmp_path / "anonymous", str(mitdb)) == []
    rows = dict(line.split(",")[:2] for line in (tmp_path / "key.csv").read_text().splitlines()[1:])
    assert sorted(rows) == [f"p{number:04d}" for number in range(1, 46)]
    read = {}
    for name in ("named", "anonymous"):
        meta = json.loads((tmp_path / name / "cohort.json").read_text())
        client, beats = np.load(tmp_path / name / "client.npy"), np.load(tmp_path / name / "beats.npy")
        label = np.load(tmp_path / name / "label.npy")
        read[name] = {
            rows.get(one["id"], one["id"]): (beats[client == i], label[client == i])
            for i, one in enumerate(meta["clients"])
        }
    assert read["named"].keys() == read["anonymous"].keys()
    for patient, (beats, label) in read["named"].items():
        np.testing.assert_array_equal(read["anonymous"][patient][0], beats)
        np.testing.assert_array_equal(read["anonymous"][patient][1], label)


NO_NETWORK = """
import sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"):
        sys.stderr.write(f"NETWORK {event} {arguments}\\n")
        sys.stderr.flush()
        import os
        os._exit(99)

sys.addaudithook(watch)
"""


@pytest.mark.slow
def test_nothing_leaves_the_machine(tmp_path: Path) -> None:
    """Prepare, train, evaluate, export, predict and personalise: an audit hook ends any that asks for a connection.

    It lies in ``sitecustomize``, so worker processes have it too.
    """
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(NO_NETWORK)
    code = """
import sys, ecgfed
assert sys.modules["sitecustomize"].__file__.endswith("hook/sitecustomize.py")
ecgfed.prepare_demo("cohort", patients=4, minutes=1, workers=2, pack="c.pack")
ecgfed.unpack_cohort("c.pack", "again")
ecgfed.train("cohort", "run", rounds=1, local_epochs=1)
ecgfed.evaluate("run")
ecgfed.export("run", "bundle")
ecgfed.predict("bundle", "cohort-records/demo01").save("predictions", strip=True)
ecgfed.personalize("run", "own", record="cohort-records/demo02", patient="new", minutes=0.5, epochs=1)
ecgfed.convert("cohort-records/demo01", "out", anonymize=True)
print("done")
"""
    paths = [str(hook), str(ROOT), *(path for path in sys.path if path)]

    def run(program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={"PYTHONPATH": ":".join(paths), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    caught = run("import socket; socket.create_connection(('127.0.0.1', 9), 0.1)")
    assert (caught.returncode, "NETWORK socket." in caught.stderr) == (99, True), caught
    done = run(code)
    assert "NETWORK" not in done.stderr, done.stderr
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "done"), done.stderr
