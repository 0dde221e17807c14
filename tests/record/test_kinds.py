"""What a file is, is taken from what it holds; and names that no file can have end in one line."""

from pathlib import Path

import hospital_files as made
import numpy as np
import pytest
from record_files import edf_bytes, r_waves, write_212

from ecgfed.base.errors import EcgfedError, OptionError, RecordError
from ecgfed.domain.cohort.folder import recordings_below
from ecgfed.domain.record.reader import (
    annotation_file,
    format_of,
    open_recording,
    read_annotation,
    read_recording,
    record_path,
)
from ecgfed.domain.record.recording import ReadOptions

STEPS = np.rint(1000 * r_waves(250, [0.5, 1.3, 2.1, 2.9, 3.7], 4)).astype(int)


def contents() -> dict[str, bytes]:
    ecg = STEPS.tolist()
    return {
        "edf": edf_bytes([np.reshape(STEPS, (4, 250)).tolist()], labels=["ECG II"], units=["mV"]),
        "dicom": made.dicom_bytes(made.dicom_group([ecg, ecg])),
        "ishne": made.ishne_bytes([ecg, ecg]),
        "aecg": made.aecg_text([ecg, ecg]).encode(),
        "muse": made.muse_text([made.muse_lead("II", ecg)]).encode(),
    }


@pytest.mark.parametrize("kind", ["edf", "dicom", "ishne", "aecg", "muse"])
@pytest.mark.parametrize("name", ["r", "r.rec", "1.2.840.113619.5", "r.dat", "r.bin", "r.xml", "r.ecg", "r.txt"])
def test_content_comes_before_the_suffix(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(contents()[kind])
    assert format_of(path) == kind
    recording = open_recording(path)
    assert recording.samples == 1000
    assert recording.name == record_path(path).name == ("1.2.840.113619.5" if name[0] == "1" else "r")


def test_a_header_beside_a_file_comes_before_its_content(tmp_path: Path) -> None:
    record = write_212(tmp_path, "r", [list(range(200))] * 2)
    record.write_bytes(contents()["edf"])
    assert format_of(record) == "wfdb"
    assert format_of(record.with_suffix(".dat")) == "wfdb"


def test_a_folder_is_read_by_content(tmp_path: Path) -> None:
    for name, kind in (("a.rec", "edf"), ("1.2.3.4", "dicom"), ("c.xml", "muse"), ("d", "ishne"), ("e.xml", "aecg")):
        (tmp_path / name).write_bytes(contents()[kind])
    record = write_212(tmp_path, "UP", [list(range(200))] * 2)
    record.with_suffix(".hea").rename(record.with_suffix(".HEA"))
    for name, text in (("README", "read me"), ("notes.xml", "<notes/>"), ("a.edf.bak", "x"), ("s.ecg", "\x01\x04")):
        (tmp_path / name).write_text(text)
    (tmp_path / "old.edf.bak").write_bytes(contents()["edf"])
    names = [path.name for path in recordings_below(tmp_path)]
    assert names == ["1.2.3.4", "UP", "a.rec", "c.xml", "d", "e.xml"]
    assert [path.name for path in recordings_below(tmp_path, ("muse",))] == ["c.xml"]


@pytest.mark.parametrize("annotator", ["a" * 300, "\u00e4" * 150, "", "a/b", "..", ".x", "a\nb", "a\0b", "a:b"])
def test_annotators_that_no_file_can_have(tmp_path: Path, annotator: str) -> None:
    recording = read_recording(write_212(tmp_path, "r", [list(range(200))] * 2))
    for action in (lambda: annotation_file(recording.path, annotator), lambda: read_annotation(recording, annotator)):
        with pytest.raises(OptionError, match="annotator") as caught:
            action()
        assert len(caught.value.line) < 300


IMPOSSIBLE = ("x" * 300, "x" * 300 + ".edf", "y/" * 3000 + "x.csv", "a\0b", "a\0b.npy", "a" * 300 + ".hea")


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_paths_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    for read in (read_recording, open_recording):
        with pytest.raises(EcgfedError):
            read(tmp_path / name)
    assert format_of(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sample,time_s,symbol\n50,0.5,N\n100,2.0,N\n", "line 3 has sample 100 and a time that is sample 200"),
        ("sample,time_s,symbol\n50,0.51,N\n100,1.0,N\n", ""),
    ],
)
def test_a_table_that_states_time_and_sample_is_compared(tmp_path: Path, text: str, words: str) -> None:
    recording = read_recording(write_212(tmp_path, "r", [list(range(300))] * 2, fs="100"))
    (tmp_path / "r.atr.csv").write_text(text)
    if not words:
        assert read_annotation(recording).sample.tolist() == [50, 100]
        return
    with pytest.raises(RecordError) as caught:
        read_annotation(recording)
    assert words in caught.value.line


@pytest.mark.parametrize("fs", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_sampling_frequencies_that_cannot_be(tmp_path: Path, fs: float) -> None:
    np.savez(tmp_path / "r.npz", II=STEPS / 1000, fs=fs, units="mV")
    np.save(tmp_path / "r.npy", STEPS / 1000)
    (tmp_path / "r.csv").write_text("II (mV)\n" + "\n".join(map(str, STEPS / 1000)))
    for name, how in (("r.npz", None), ("r.npy", ReadOptions(fs, "mV", ("II",))), ("r.csv", ReadOptions(fs))):
        with pytest.raises(EcgfedError, match="sampling frequency"):
            read_recording(tmp_path / name, how=how)
