"""``ecgfed convert``, and the options that say what a CSV or NumPy file leaves open, on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from record_files import edf_annotation, edf_bytes
from support import Command, assert_refused, exported, run_limited, snapshot

SYMBOLS = "NNNNV" * 12


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An annotated recording as CSV with times, two leads and a gap."""
    folder = tmp_path / "in"
    folder.mkdir()
    signal, at = synthetic_signal(SYMBOLS, fs_hz=250)
    text = [f"{v:.3f}" for v in signal]
    text[100:110] = [""] * 10
    rows = "\n".join(
        f"{i / 250:.3f};{v};{w:.3f}".replace(".", ",") for i, (v, w) in enumerate(zip(text, -signal, strict=True))
    )
    (folder / "pat.1.csv").write_text("time (s);MLII (mV);V1 (mV)\n" + rows)
    marks = "\n".join(f"{s},{y}" for s, y in zip(at, SYMBOLS, strict=True))
    (folder / "pat.1.atr.csv").write_text("sample,symbol\n" + marks)
    return folder / "pat.1.csv"


def test_a_table_becomes_a_wfdb_record(ecgfed: Command, table: Path, tmp_path: Path) -> None:
    said = ecgfed("convert", table, "--out", tmp_path / "new" / "w", "--json")
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)
    record, marks = (
        wfdb.rdrecord(str(tmp_path / "new" / "w" / "pat_1")),
        wfdb.rdann(str(tmp_path / "new" / "w" / "pat_1"), "atr"),
    )
    assert (record.sig_name, record.fs) == (["MLII", "V1"], 250)
    signal, at = synthetic_signal(SYMBOLS, fs_hz=250)
    assert np.isnan(record.p_signal[:, 0]).nonzero()[0].tolist() == list(range(100, 110))
    np.testing.assert_allclose(
        np.delete(record.p_signal[:, 0], range(100, 110)), np.delete(np.round(signal, 3), range(100, 110)), atol=1e-9
    )
    assert (marks.sample.tolist(), "".join(marks.symbol)) == (at.tolist(), SYMBOLS)
    first, second = told["leads"]
    assert (first["name"], first["gaps"], second["gaps"]) == ("MLII", 10, 0)
    assert first["gain_per_mv"] == record.adc_gain[0]
    assert first["step_uv"] == 1000 / record.adc_gain[0]
    assert (told["record"], told["annotations"], told["left_out"]) == ("pat_1", 60, [])
    assert [Path(name).name for name in told["files"]] == ["pat_1.hea", "pat_1.dat", "pat_1.atr"]


def test_what_convert_prints(ecgfed: Command, table: Path, tmp_path: Path) -> None:
    said = ecgfed("convert", table, "--out", tmp_path / "a")
    assert (said.code, said.err) == (0, "")
    assert "Record pat_1, 250 Hz, " in said.out
    assert "60 annotations; read back and compared" in said.out
    (table.parent / "pat.1.atr.csv").unlink()
    said = ecgfed("convert", table, "--out", tmp_path / "b")
    assert said.error_lines == ["ecgfed: note: no annotation beside it: name one with --annotator"]
    assert "no annotation; read back" in said.out
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"pat_1.hea", "pat_1.dat"}
    quiet = ecgfed("convert", table, "--out", tmp_path / "c", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert_refused(ecgfed("convert", table, "--out", tmp_path / "d", "--annotator", "atr"), "pat.1.atr: does not exist")
    assert not (tmp_path / "d").exists()


def test_channels_that_are_no_leads_are_told(ecgfed: Command, tmp_path: Path) -> None:
    rows = [[[0, 1] * 100] * 4, [[0] * 100] * 4]
    marks = [edf_annotation(at) for at in range(4)]
    (tmp_path / "r.edf").write_bytes(edf_bytes(rows, reserved="EDF+C", annotations=marks))
    said = ecgfed("convert", tmp_path / "r.edf", "--out", tmp_path / "a")
    assert said.error_lines == [
        "ecgfed: note: left out: V1: 100 Hz",
        "ecgfed: note: no annotation beside it: name one with --annotator",
    ]
    said = ecgfed("convert", tmp_path / "r.edf", "--lead", "V1", "--out", tmp_path / "b", "--json")
    told = json.loads(said.out)
    assert (told["fs_hz"], [lead["name"] for lead in told["leads"]], told["left_out"]) == (
        100,
        ["V1"],
        ["MLII: 200 Hz"],
    )


def test_what_is_there_and_the_recording_itself_are_safe(ecgfed: Command, table: Path, tmp_path: Path) -> None:
    record = write_record(tmp_path / "w", "r", "NNNN")
    before = snapshot(tmp_path / "w")
    for more in ((), ("--overwrite",)):
        said = ecgfed("convert", record, "--out", tmp_path / "w", *more)
        assert_refused(said, "--out", "r.hea, r.dat is the recording itself")
    assert snapshot(tmp_path / "w") == before
    assert ecgfed("convert", table, "--out", tmp_path / "x", "--quiet").code == 0
    assert_refused(
        ecgfed("convert", table, "--out", tmp_path / "x"), "already has pat_1.hea, pat_1.dat, pat_1.atr", "--overwrite"
    )
    assert ecgfed("convert", table, "--out", tmp_path / "x", "--overwrite", "--quiet").code == 0
    (tmp_path / "file").write_text("mine")
    assert_refused(ecgfed("convert", table, "--out", tmp_path / "file"), "cannot be made")


def test_a_full_disk(table: Path, tmp_path: Path) -> None:
    result = run_limited(3000, "convert", table, "--out", tmp_path / "out")
    assert result.returncode == 2, result
    assert result.stderr.count("\n") == 1, result.stderr
    assert "TMPDIR" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_prepare_and_predict_read_the_same_from_every_format(
    ecgfed: Command, local_run: Path, table: Path, tmp_path: Path
) -> None:
    """A cohort and a prediction from a CSV are those from the WFDB record made of it."""
    assert ecgfed("convert", table, "--out", tmp_path / "w", "--quiet").code == 0
    rows = np.nan_to_num(wfdb.rdrecord(str(tmp_path / "w" / "pat_1")).p_signal, nan=np.nan)
    (tmp_path / "n").mkdir()
    np.save(tmp_path / "n" / "pat_1.npy", rows.T)
    (tmp_path / "n" / "pat_1.atr").write_bytes((tmp_path / "w" / "pat_1.atr").read_bytes())
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "pat_1.csv").write_bytes(table.read_bytes())
    (tmp_path / "c" / "pat_1.atr.csv").write_bytes((table.parent / "pat.1.atr.csv").read_bytes())
    open_ = ("--fs", 250, "--units", "mV", "--columns", "MLII,V1")
    folders = {"w": ("pat_1", ()), "c": ("pat_1.csv", ()), "n": ("pat_1.npy", open_)}
    beats, labels = [], []
    for name, (file, options) in folders.items():
        out = tmp_path / f"cohort-{name}"
        said = ecgfed("prepare", "folder", tmp_path / name, "--out", out, "--workers", 1, "--quiet", *options)
        assert said.code == 0, said.err
        beats.append(np.load(out / "beats.npy"))
        command = ("predict", exported(local_run), tmp_path / name / file, "--patient", "p1", "--peaks", "annotated")
        said = ecgfed(*command, "--out", tmp_path / f"out-{name}", "--quiet", *options)
        assert said.code == 0, said.err
        labels.append((tmp_path / f"out-{name}" / "pat_1.csv").read_text())
    np.testing.assert_allclose(beats[1], beats[0], atol=1e-6)
    np.testing.assert_allclose(beats[2], beats[0], atol=1e-6)
    assert labels[1] == labels[0]
    assert labels[2] == labels[0]
    assert len(labels[0].splitlines()) == 61


def test_a_prediction_never_lies_on_its_recording(ecgfed: Command, fedavg_run: Path, table: Path) -> None:
    before = snapshot(table.parent)
    said = ecgfed("predict", exported(fedavg_run), table, "--out", table.parent, "--overwrite")
    assert_refused(said, "--out", "pat.1.csv is the recording itself")
    assert snapshot(table.parent) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fs", "0"), ("--fs", "sampling frequency 0 Hz", "100 to 20000 Hz")),
        (("--fs", "nan"), ("--fs", "sampling frequency nan Hz")),
        (("--units", "volts"), ("--units", "'volts'", "200(1024)/mV")),
        (("--columns", " , "), ("--columns", "is empty")),
        (("--columns", "a,b"), ("3 columns", "2, as --columns names")),
        (("--fs", "360"), ("its times say 250 Hz", "360 as --fs says")),
        (("--units", "uV"), ("lead MLII is in mV", "uV as --units says")),
        (("--lead", "aVR"), ("no lead aVR", "MLII, V1")),
        (("--annotator", "a/b"), ("--annotator", "'a/b'")),
    ],
)
def test_an_option_that_will_not_do(
    ecgfed: Command, fedavg_run: Path, table: Path, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    out = ("--out", tmp_path / "out", *options)
    peaks = ("--peaks", "annotated")
    assert_refused(ecgfed("predict", exported(fedavg_run), table, *out, *peaks), *words)
    assert_refused(ecgfed("convert", table, *out), *words)
    assert_refused(ecgfed("prepare", "folder", table.parent, *out, "--workers", 1), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_folder_of_two_formats(ecgfed: Command, table: Path, tmp_path: Path) -> None:
    write_record(table.parent, "r", SYMBOLS)
    out = ("--out", tmp_path / "c", "--workers", 1)
    both = ecgfed("prepare", "folder", table.parent, "--out", tmp_path / "both", "--workers", 1, "--json")
    assert (both.code, json.loads(both.out)["clients"]) == (0, 2), both
    assert_refused(ecgfed("prepare", "folder", table.parent, *out, "--format", "mat"), "--format: 'mat'")
    assert ecgfed("prepare", "folder", table.parent, *out, "--format", "wfdb", "--quiet").code == 0
