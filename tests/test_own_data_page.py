"""The code of docs/own-data.md runs: the digits in at most 25 lines, and the official files with a net from a file."""

import doctest
import gzip
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_docs import blocks, lines_of, run_snippet

import ecgfed

PAGE = Path(__file__).parent.parent / "docs" / "own-data.md"
METHODS = ("fedavg", "scaffold", "ditto", "grp-fed")


def digits() -> str:
    return blocks(PAGE, "python")[0]


def test_the_digits_take_at_most_25_public_lines(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    script = digits()
    assert len(script.splitlines()) <= 25
    assert "ecgfed." in script
    assert "ecgfed.core" not in script
    printed = run_snippet(script.replace("rounds=60", "rounds=2"), tmp_path).splitlines()
    assert [line.partition(":")[0] for line in printed] == list(METHODS)


@pytest.mark.slow
def test_the_digits_are_learned_as_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    lines = (run_snippet(digits(), tmp_path), blocks(PAGE, "text")[0])
    printed, stated = ([line.replace(",", "").split() for line in text.splitlines()] for text in lines)
    for actual, expected in zip(printed, stated, strict=True):
        assert (actual[0], actual[1], actual[3]) == (expected[0], expected[1], expected[3])
        assert [float(actual[2]), float(actual[4])] == pytest.approx([float(expected[2]), float(expected[4])], abs=0.05)


def test_official_files_and_a_net_in_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for part, count in (("train", 400), ("t10k", 40)):
        label = np.arange(count, dtype=np.uint8) % 10
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        for name, values in (("images-idx3", images), ("labels-idx1", label)):
            header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
            (tmp_path / "mnist" / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes()))
    _, net, script = blocks(PAGE, "python")
    (tmp_path / "mnist_net.py").write_text(net)
    assert "T_g" in run_snippet(script.replace("rounds=100", "rounds=2"), tmp_path)
    for line in lines_of(PAGE):
        command = shlex.split(line.replace("--rounds 100", "--rounds 2"))
        command[0] = str(Path(sys.executable).parent / command[0])
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert ecgfed.open_cohort(tmp_path / "mnist-cohort").examples.dtype == np.uint8


def test_predictions_in_the_order_of_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (session,) = blocks(PAGE, "pycon")
    examples = doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0)
    assert doctest.DocTestRunner().run(examples, clear_globs=False).failed == 0
    names = examples.globs
    assert sorted(names["predictions"]["sample"]) == np.flatnonzero(names["predicted"] >= 0).tolist()
