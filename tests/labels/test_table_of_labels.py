"""The table of labels: what is written is read, and what cannot be used is one line that names the place."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import ecgfed
from ecgfed.base.errors import RecordError
from ecgfed.domain.labels.user_labels import UserLabel, column_names, label_table, read_user_labels
from ecgfed.tasks.report_labels import read_labels

HEAD = "recording,sample,time_s,label,beats,source\n"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    answers = [
        UserLabel(720, "V", 12, "merged", "ab12"),
        UserLabel(100, "N", 300, "clinician", "ab12"),
        UserLabel(801, "|", 1),
    ]
    file = tmp_path / "labels.csv"
    file.write_bytes(label_table(answers, 360.0))
    text = file.read_bytes().decode()
    assert text.split("\r\n")[1] == "ab12,100,0.278,N,300,clinician"
    assert read_user_labels(file) == sorted(answers, key=lambda one: one.sample)


def test_sample_and_label_are_enough_and_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("\ufefflabel, sample\nV, 5\nN, 3\nV, 5\n", encoding="utf-8")
    assert read_user_labels(file) == [UserLabel(3, "N"), UserLabel(5, "V")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "sample and label"),
        ("a,b\n1,2\n", "has the columns a, b"),
        (HEAD, "holds no label"),
        (HEAD + "x,1.5,,N,,\n", r"line 2: sample '1\.5'"),
        (HEAD + "x,-4,,N,,\n", "line 2: sample '-4'"),
        (HEAD + "x,٣,,N,,\n", "line 2: sample"),
        (HEAD + "x,9999999999999999,,N,,\n", "line 2: sample"),
        (HEAD + f"x,{10**400},,N,,\n", "line 2: sample"),
        (HEAD + "x,1,,X,,\n", "line 2: label 'X'"),
        (HEAD + "x,1,,N,99999999999999999999,\n", "line 2: beats"),
        (HEAD + "x,1,,,,\n", "line 2: label ''"),
        (HEAD + "x,1,,N,many,\n", "line 2: beats 'many'"),
        (HEAD + "x,1,,N,,model\n", "line 2: source 'model'"),
        (HEAD + "x,1,,N,,\nx,1,,V,,\n", "sample 1 is N and V"),
        ("# mine\n\nsample,label\n1,X\n", "line 4: label 'X'"),
        ("# mine\n", "has the columns none"),
        ("sample;label\n5.954;N\n", r"line 2: sample '5\.954'"),
        (HEAD + 'x,1,,"N\n', "cannot be read|label"),
        ("sample,label,label\n1,N,V\n", "has 2 columns 'label'"),
        ("Sample,label,sample\n1,N,9\n", "has 2 columns 'sample'"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=said) as caught:
        read_user_labels(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_text_or_not_there(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_bytes(b"\xff\xfe\x00sample")
    with pytest.raises(RecordError, match="is not a text file"):
        read_user_labels(file)
    with pytest.raises(RecordError, match="does not exist"):
        read_user_labels(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "text",
    [
        "recording;sample;time_s;label;beats;source\n;100;0,278;N;3;clinician\n;;;;;\n;720;2,000;V;;\n",
        "Sample\tLabel\n100\tN\n720\tV\n",
        "sample,label\n100.0,N\n,\n720,V\n",
        "sample;label\n100,0;N\n720,0;V\n",
        "sep=;\nsample;label\n100;N\n720;V\n",
        '# read by Dr. X\n"# second, and last",\n,\n\nsample,label\n100,N\n720,V\n',
        "sample,label\r100,N\r720,V\r",
    ],
)
def test_a_table_that_a_spreadsheet_has_saved_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_bytes(text.encode())
    assert {"sample", "label"} <= set(column_names(file))
    assert [(one.sample, one.label) for one in read_user_labels(file)] == [(100, "N"), (720, "V")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_unicode_text_of_a_spreadsheet_is_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_bytes("sample\tlabel\r\n3\tN\r\n".encode(encoding))
    assert column_names(file) == ["sample", "label"]
    assert read_user_labels(file) == [UserLabel(3, "N")]


def test_a_spreadsheets_own_file_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "labels.xlsx"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(RecordError, match=r"is a spreadsheet file.*save it as CSV"):
        column_names(file)


def test_a_report_names_who_takes_labels_of_some_beats(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_bytes(label_table([UserLabel(100, "N")], 360.0))
    recording = ecgfed.Recording("r", Path("r"), "MLII", ("MLII",), 360.0, np.zeros((1, 7200)), ())
    with pytest.raises(RecordError, match=r"labels of some beats.*'ecgfed personalize RECORD --labels'"):
        read_labels(file, recording)
