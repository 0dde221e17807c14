"""What is drawn or written is text: no mathematics, no control characters, no formula, no line of a header."""

import csv
import json
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from support import Command

from ecgfed.base.text import cell_text, safe_cell, safe_row
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_writer import annotation_bytes, record_bytes
from ecgfed.reports.curves import draw_learning_curves
from ecgfed.reports.quality_page import QualityPage, draw_quality
from ecgfed.reports.strip import Strip, draw_strip

#: Mathematics that matplotlib cannot read, mathematics it can, and what a terminal or an XML reader obeys.
WILD = ["$\\frac{$", "a_$x^2$", "\x1b[2J$", "<b>&", "_hidden", "\x00\ud800", "[/x]"]


@pytest.mark.parametrize("name", WILD)
def test_any_name_can_be_drawn(name: str, tmp_path: Path) -> None:
    signal = np.sin(np.arange(3600) / 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="(?!ecgfed)")  # between other packages
        strip = Strip(signal, 360.0, np.array([720, 1080]), [name, "N"], "N", name, name)
        assert draw_strip(strip, 0.0, dpi=50).startswith(b"\x89PNG")
        page = QualityPage(signal[None], (name,), name, 360.0, {name: [(1.0, 2.0, "noise")]}, name, name)
        assert draw_quality(page, 0.0, dpi=50).startswith(b"\x89PNG")
        svg = draw_quality(page, 0.0, form="svg")
        draw_learning_curves([{"round": 1, "loss_mean": 1.0, "loss_max": 2.0}], tmp_path / "curves.png", name)
    texts = ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")]
    shown = name.encode("unicode_escape").decode() if name[0] in "\x00\x1b" else name
    assert any(text.strip() == shown for text in texts), texts
    assert not any(character in svg.decode() for character in "\x1b\x00")


def test_a_forged_line_does_not_enter_a_header(tmp_path: Path) -> None:
    """Line ends of every kind, control characters and more, in leads and comments: the header keeps its lines."""
    forged = "x\nr.dat 16 200/mV 16 0 0 0 0 V9\r# name: Ann\x0b\x0c\x1c\x85\u2028\u2029\x1b[2J\x00end"
    signal, at = synthetic_signal("NNNN")
    recording = Recording("r", tmp_path / "r", forged, (forged, "V1"), 360.0, np.stack([signal, signal]), (forged,))
    notes = (forged, "ü" * 300, "", "(AFIB")
    files, leads = record_bytes(recording, "r", Annotation(at, np.array(list("NNNN")), notes))
    lines = files["hea"].decode("ascii").split("\n")
    assert len([line for line in lines if line]) == 1 + 2 + 1
    assert all(character.isprintable() for line in lines for character in line)
    for suffix, data in files.items():
        (tmp_path / f"r.{suffix}").write_bytes(data)
    header, marks = wfdb.rdheader(str(tmp_path / "r")), wfdb.rdann(str(tmp_path / "r"), "atr")
    assert (header.n_sig, len(header.comments), header.sig_name[0]) == (2, 1, leads[0].name)
    assert marks.sample.tolist() == at.tolist()
    assert "\x1b" not in marks.aux_note[0]
    # 255 bytes would end inside a letter; wfdb reads each byte as one character
    assert marks.aux_note[1].rstrip("\0").encode("latin-1").decode() == "ü" * 127
    assert marks.aux_note[3].rstrip("\0") == "(AFIB"


def test_plain_notes_are_written_as_wfdb_writes_them(tmp_path: Path) -> None:
    sample, symbol, notes = np.array([5, 9]), np.array(["+", "N"]), ("(AFIB", "two words")
    wfdb.wrann("r", "atr", sample, list(symbol), aux_note=list(notes), fs=360, write_dir=str(tmp_path))
    assert annotation_bytes(Annotation(sample, symbol, notes), 360.0) == (tmp_path / "r.atr").read_bytes()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+N", "'+N"),
        ("-3", "'-3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("=", "="),
        ("+", "+"),
        ("N", "N"),
        ("", ""),
        ("it's", "it's"),
        ("'quoted'", "'quoted'"),
    ],
)
def test_a_cell_is_no_formula(text: str, written: str) -> None:
    assert safe_cell(text) == written
    assert cell_text(written) == text
    assert safe_row({"a": text, "b": -3, "c": 0.5, "d": None}) == {"a": written, "b": -3, "c": 0.5, "d": None}


def test_a_class_called_like_a_formula_is_text_in_every_table(ecgfed: Command, records: Path, tmp_path: Path) -> None:
    own = {"classes": {"=cmd|'/c calc'!A1": ["N"], "@V": ["V"], "A": ["A"], "L": ["L"]}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    here = [tmp_path / name for name in ("cohort", "run", "bundle", "out")]
    commands = [
        ("prepare", "folder", records, "--classes", tmp_path / "own.json", "--out", here[0], "--workers", 1),
        ("train", here[0], "--method", "fedavg", "--rounds", 1, "--local-steps", 1, "--out", here[1]),
        ("evaluate", here[1]),
        ("export", here[1], "--out", here[2]),
        ("predict", here[2], records / "p1", "--peaks", "annotated", "--strip", "--out", here[3]),
    ]
    for command in commands:
        said = ecgfed(*command, "--quiet")
        assert said.code == 0, said.err
    tables = [*here[1].rglob("*.csv"), *here[3].rglob("*.csv")]
    assert len(tables) == 4
    cells = [cell for file in tables for row in csv.reader(file.open(newline="")) for cell in row]
    assert any(cell.startswith(("'=cmd", "'@V")) for cell in cells)
    for cell in cells:
        assert cell[:1] not in ("=", "@"), cell
