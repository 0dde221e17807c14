"""Make random pairs of annotation files and record what WFDB's bxb and epicmp say of them: ``pairs.npz``.

    python tests/data/ec57/make.py --bxb PATH --epicmp PATH --count 400                    writes pairs.npz
    python tests/data/ec57/make.py --bxb PATH --epicmp PATH --count 2000 --seed 1 --check  compares, writes none

``pairs.npz`` as committed was made on 22 November 2026 with bxb.c (last revised 27 April 2020) and the flutter part of
epicmp.c (14 November 2002) of the WFDB software (bemoody/wfdb), transcribed and compiled against a small reader of
headers and annotation files in libwfdb's place, since the package itself was not to be had there. Any built ``bxb``
takes the same arguments; of epicmp's answers only the counts in brackets are read.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray

HERE = Path(__file__).parent
#: What a mark may be: beats of every class, what is no beat, and a flutter wave outside flutter.
BEATS = "NNNNNNLRBAaJSnejVVVrEFQ/f?"
OTHERS = '+|x"T!'
RATES_HZ = (100, 125, 128, 180, 200, 212, 250, 256, 257, 300, 333, 360, 400, 500, 512, 720, 1000)
SUBTYPES = (0, 0x10, 0x20, 0x30, 0x30, 0x31, -1)

Marks = list[tuple[int, str, int]]
#: bxb's matrix, RMS RR error in ms and shutdown in s; epicmp's four fractions, (4, 2) in episodes or samples.
Answers = tuple[NDArray[np.int64], float, int, NDArray[np.float64]]


def _reference_beats(rng: np.random.Generator, fs: float, begin: float, end: float) -> NDArray[np.float64]:
    """Beats in seconds, at a steady or a wandering rate from 25 to 500/min, sometimes crowded."""
    mean = 60 / rng.choice([25, 45, 70, 100, 150, 200, 240, 300, 400, 500])
    steps = np.abs(rng.normal(mean, mean * rng.choice([0.02, 0.2, 0.6]), int((end - begin) / mean) + 5))
    at = begin + np.cumsum(steps)
    if rng.random() < 0.3:  # multiples of the window and of half of it, where every tie is
        at = begin + np.cumsum(rng.choice([1, 2, 3, 4], len(steps)) * np.floor(0.15 * fs + 0.5) / 2 / fs)
    return at[at < end]


def _others(rng: np.random.Generator, fs: float, begin: float, end: float) -> Marks:
    """Flutter, shutdown and noise, ended or not, one in another, and marks that are no beats."""
    marks: Marks = []
    for symbol, often in (("[", 2), ("]", 2), ("~", 3), (None, 2)):
        for _ in range(rng.poisson(often) if rng.random() < 0.5 else 0):
            what = symbol or rng.choice(list(OTHERS))
            subtype = int(rng.choice(SUBTYPES)) if what == "~" else 0
            marks.append((int(rng.uniform(begin, end) * fs), what, subtype))
            if what == "[" and rng.random() < 0.7:
                marks.append((marks[-1][0] + int(rng.exponential(2) * fs), "]", 0))
            if what == "~" and rng.random() < 0.5:
                marks.append((marks[-1][0] + int(rng.exponential(2) * fs), "~", 0))
    return marks


def _file(rng: np.random.Generator, times: NDArray[np.float64], symbols: list[str], others: Marks, fs: float) -> Marks:
    marks = [(int(at * fs + 0.5), symbol, 0) for at, symbol in zip(times, symbols, strict=True)]
    marks += [marks[i] for i in np.flatnonzero(rng.random(len(marks)) < rng.choice([0, 0, 0.05]))]  # twice the same
    return sorted(marks + others, key=lambda mark: mark[0])


def random_pair(rng: np.random.Generator) -> tuple[float, int, Marks, Marks]:
    """Return a sampling frequency, a length in samples, and the marks of the reference and of the test."""
    fs = float(rng.choice(RATES_HZ)) if rng.random() < 0.9 else round(float(rng.uniform(100, 1000)), 2)
    end = 300 + rng.uniform(3, 25)
    begin = rng.choice([0.0, 290.0, 295.0, 299.5])
    begin = begin if begin else rng.choice([280.0, 301.0])
    times = _reference_beats(rng, fs, begin, end)
    symbols = rng.choice(list(BEATS), len(times)).tolist()
    keep = rng.random(len(times)) >= rng.choice([0, 0.02, 0.2])
    shown = times[keep] + rng.normal(0, rng.choice([0.002, 0.03, 0.08, 0.2]), keep.sum()) + rng.choice([0, 0, 0.1])
    called = [
        s if rng.random() < 0.8 else str(rng.choice(list(BEATS))) for s, k in zip(symbols, keep, strict=True) if k
    ]
    extra = rng.uniform(begin, end, rng.poisson(rng.choice([0, 2, 15])))
    shown, called = np.concatenate([shown, extra]), called + ["N"] * len(extra)
    inside = (shown >= 0) & (shown < end)
    called = [symbol for symbol, here in zip(called, inside, strict=True) if here]
    theirs = _file(rng, times, symbols, _others(rng, fs, begin, end), fs)
    ours = _file(rng, shown[inside], called, _others(rng, fs, begin, end), fs)
    samples = max(int((end + rng.choice([0, 2])) * fs), *(mark[0] + 1 for mark in (*theirs, *ours, (0, "", 0))))
    return fs, samples, theirs, ours


def _write(folder: Path, fs: float, samples: int, theirs: Marks, ours: Marks) -> None:
    (folder / "r.hea").write_text(f"r 1 {fs:.10g} {samples}\nr.dat 16 200 16 0 0 0 0 MLII\n")
    for suffix, marks in (("atr", theirs), ("test", ours)):
        at, symbol, subtype = (list(column) for column in zip(*(marks or [(0, '"', 0)]), strict=True))
        wfdb.wrann("r", suffix, np.array(at), symbol, subtype=np.array(subtype), write_dir=str(folder))


def answers(folder: Path, bxb: Path, epicmp: Path) -> Answers:
    """Return bxb's matrix, RMS RR error (ms) and shutdown (s), and epicmp's four fractions (samples or seconds)."""

    def told(*command: object) -> str:
        run = [str(one) for one in command]
        return subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True).stdout

    said = told(bxb, "-r", "r", "-a", "atr", "test", "-S", "-")
    counts = np.zeros((7, 7), np.int64)
    for i, name in enumerate("NSVFQOX"):
        found = re.search(rf"^ {name} \|([ \d]*)$", said, re.MULTILINE)
        assert found, said
        row = [int(word) for word in found[1].split()]
        counts[i, : len(row)] = row
    error = re.search(r"interval error:\s+(\S+) ms", said)
    down = re.search(r"shutdown time:\s*(-?\d+)", said)
    assert down, said
    fractions = re.findall(r"\((\S+)/(\S+)\)", told(epicmp, "-r", "r", "-a", "atr", "test", "-V", "-"))
    flutter = np.array([[_number(word) for word in one] for one in fractions])
    return counts, float(error[1]) if error else np.nan, int(down[1]), flutter


def _number(word: str) -> float:
    return float(sum(float(part) * 60**i for i, part in enumerate(reversed(word.split(":")))))


def differences(fs: float, samples: int, folder: Path, found: Answers) -> list[str]:
    """Return what ecgfed says otherwise than ``found``."""
    from ecgfed.evaluation.ec57 import compare
    from ecgfed.record.wfdb_files import read_annotation

    ours = compare(
        read_annotation(folder / "r", "atr"), read_annotation(folder / "r", "test"), fs, samples=samples,
        mapping="aami5-bxb",
    )  # fmt: skip
    counts, error, down, flutter = found
    rms = np.nan if ours.rr_rms_ms is None else ours.rr_rms_ms * fs / int(fs + 0.5)
    vf = ours.flutter
    told = [[vf.detected, vf.episodes], [vf.right, vf.called]]
    told += [[vf.shared_s * fs, vf.duration_s * fs], [vf.shared_s * fs, vf.called_s * fs]]
    differ = []
    if (ours.counts != counts).any():
        differ.append(f"counts {ours.counts.tolist()} for {counts.tolist()}")
    if not np.isclose(rms, error, atol=0.00501, equal_nan=True):
        differ.append(f"RR error {rms} for {error}")
    if int((round(ours.shutdown_s * fs) + int(0.5 * fs + 0.5)) / int(fs + 0.5)) != down:
        differ.append(f"shutdown {ours.shutdown_s} for {down}")
    if not np.allclose(told, np.asarray(flutter), atol=1e-3):
        differ.append(f"flutter {told} for {flutter}")
    return differ


def main() -> None:
    """Make the pairs, ask, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bxb", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--epicmp", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="compare ecgfed with the answers, write nothing")
    given = parser.parse_args()
    rows: list[tuple[int, int, int, int, int]] = []
    about, matrices, numbers, flutters, wrong = [], [], [], [], 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for k in range(given.count):
            fs, samples, *files = random_pair(np.random.default_rng([given.seed, k]))
            _write(folder, fs, samples, *files)
            found = answers(folder, given.bxb, given.epicmp)
            if given.check:
                differ = differences(fs, samples, folder, found)
                wrong += bool(differ)
                for line in differ:
                    print(f"pair {k}, {fs:g} Hz: {line}")
            rows += [(k, which, at, ord(s), kind) for which, marks in enumerate(files) for at, s, kind in marks]
            about.append((fs, samples))
            matrices.append(found[0])
            numbers.append(found[1:3])
            flutters.append(found[3])
    if given.check:
        print(f"{given.count} pairs, {len(rows):,} marks: {wrong} differ")
        return
    np.savez_compressed(
        HERE / "pairs.npz",
        marks=np.array(rows, np.int32),
        fs_and_samples=np.array(about),
        counts=np.array(matrices, np.int16),
        rr_error_ms_and_shutdown_s=np.array(numbers),
        flutter=np.array(flutters),
    )


if __name__ == "__main__":
    main()
