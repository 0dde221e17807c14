"""Agreement of two readers, against scikit-learn, a bootstrap and a published example."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from edits_files import SAVED, accept, label, written
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score, confusion_matrix
from support import Command

from ecgfed.domain.labels.agreement import Agreement
from ecgfed.domain.labels.user_labels import UserLabel, label_table
from ecgfed.tasks.agreement import label_agreement

CLASSES = ("N", "S", "V")


def readers(seed: int, beats: int = 400, share: float = 0.25) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Labels of a first reader, and of a second one who gives a share of them at random."""
    rng = np.random.default_rng(seed)
    first = rng.choice(CLASSES, beats, p=(0.7, 0.1, 0.2))
    return first, np.where(rng.random(beats) < share, rng.choice(CLASSES, beats), first)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_and_confusion_are_those_of_scikit_learn(seed: int) -> None:
    first, second = readers(seed, share=seed / 4)
    agreement = Agreement.of(first, second, CLASSES)
    assert agreement.kappa == pytest.approx(cohen_kappa_score(first, second))
    assert np.array_equal(agreement.confusion, confusion_matrix(first, second, labels=CLASSES))
    assert agreement.percent == pytest.approx(100 * np.mean(first == second))


def test_the_interval_is_that_of_a_bootstrap() -> None:
    first, second = readers(1)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(first), len(first)) for _ in range(1000)]
    low, high = np.percentile([cohen_kappa_score(first[rows], second[rows]) for rows in drawn], (2.5, 97.5))
    assert Agreement.of(first, second, CLASSES).interval == pytest.approx((low, high), abs=0.015)


def test_the_interval_of_a_published_example() -> None:
    """Ratings of SAS's example of simple kappa: 0.3449, 95% limits 0.2030 and 0.4868 (PROC FREQ, Skin Condition)."""
    confusion = np.array([[10, 4, 1, 0], [5, 10, 12, 2], [2, 4, 12, 5], [0, 2, 6, 13]])
    agreement = Agreement(("1", "2", "3", "4"), confusion)
    assert agreement.kappa == pytest.approx(0.3449, abs=5e-5)
    assert agreement.interval == pytest.approx((0.2030, 0.4868), abs=5e-5)


def test_full_agreement_and_one_class_alone() -> None:
    both = np.array(["N"] * 5 + ["V"] * 3)
    whole = Agreement.of(both, both, CLASSES)
    assert (whole.percent, whole.kappa, whole.interval) == (100.0, 1.0, (1.0, 1.0))
    assert whole.by_class["V"] == 1
    assert np.isnan(whole.by_class["S"])
    alone = Agreement.of(both[:5], both[:5], CLASSES)
    assert np.isnan(alone.kappa)
    assert alone.to_dict()["kappa"] is None


def write(path: Path, labels: dict[int, str], recording: str = "ab" * 8) -> Path:
    path.write_bytes(label_table([UserLabel(at, label, recording=recording) for at, label in labels.items()], 360.0))
    return path


def test_two_tables_are_compared_by_sample(ecgfed: Command, tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", {100: "N", 500: "a", 900: "V", 1300: "?", 1700: "N", 2100: "j", 2500: "|"})
    second = write(tmp_path / "second.csv", {100: "N", 500: "J", 900: "F", 1300: "V", 2100: "N", 2500: "|", 2900: "V"})
    compared = label_agreement(first, second)
    assert (compared.only_first, compared.only_second, compared.cannot_tell) == (1, 1, 1)
    # a and J are both S, j and N both N
    classes = (["N", "S", "V", "N", "no beat"], ["N", "S", "F", "N", "no beat"])
    assert compared.by_class.classes == ("N", "S", "V", "F", "no beat")
    assert compared.by_class.kappa == pytest.approx(cohen_kappa_score(*classes))
    assert compared.by_symbol.kappa == pytest.approx(cohen_kappa_score(list("NaVj|"), list("NJFN|")))
    assert compared.disagreements == ((500, 1.389, "a", "J"), (900, 2.5, "V", "F"), (2100, 5.833, "j", "N"))
    printed = ecgfed("agreement", first, second, "--json")
    assert printed.code == 0, printed.err
    assert json.loads(printed.out)["by_class"] == compared.by_class.to_dict()
    assert ecgfed("agreement", first, second).code == 0


@pytest.mark.parametrize(
    ("labels", "recording"), [({100: "N"}, "cd" * 8), ({200: "N"}, "ab" * 8), ({100: "?"}, "ab" * 8)]
)
def test_tables_that_cannot_be_compared_are_refused(
    ecgfed: Command, tmp_path: Path, labels: dict[int, str], recording: str
) -> None:
    first, second = write(tmp_path / "a.csv", {100: "N"}), write(tmp_path / "b.csv", labels, recording)
    refused = ecgfed("agreement", first, second)
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert "b.csv" in refused.err


def test_wfdb_annotations_and_edits_are_compared_as_tables_are(ecgfed: Command, tmp_path: Path) -> None:
    """By scikit-learn, on the labels that each file was written from; an accepted beat has no label in edits."""
    first, second = readers(3, beats=60)
    at = (360 * np.arange(1, 61)).tolist()
    table = write(tmp_path / "first.csv", dict(zip(at, first.tolist(), strict=True)))
    wfdb.wrann("rec", "second", np.array(at), second.tolist(), write_dir=str(tmp_path))
    given = [label(symbol, sample) for sample, symbol in zip(at[:-1], second.tolist(), strict=False)]
    document = {"format": "ecgfed-edits", "version": 1, "recording": "ab" * 8, "beats": "0" * 16, "author": "x"}
    document |= {"saved_at": SAVED, "reviewed": None, "indication": "", "comments": "", "conclusion": "", "strips": []}

    def edits_file(name: str, *edits: dict[str, Any], **more: str) -> Path:
        (tmp_path / name).mkdir()
        return written(tmp_path / name, {**document, "edits": [{"at": SAVED, **edit} for edit in edits], **more})

    edits = edits_file("a", label("F", at[0]), *given, accept(at[-1]))
    expected = cohen_kappa_score(first, second.tolist())
    assert label_agreement(table, tmp_path / "rec.second").by_class.kappa == pytest.approx(expected)
    by_edits = label_agreement(table, edits)
    assert by_edits.by_class.kappa == pytest.approx(cohen_kappa_score(first[:-1], second[:-1].tolist()))
    assert by_edits.only_first == 1
    for refused in (edits_file("b", *given, recording="cd" * 8), edits_file("c", accept(at[0]))):
        printed = ecgfed("agreement", table, refused)
        assert (printed.code, len(printed.err.strip().splitlines())) == (2, 1)


def test_a_file_is_not_compared_with_itself(ecgfed: Command, tmp_path: Path) -> None:
    table = write(tmp_path / "first.csv", {100: "N", 500: "V"})
    refused = ecgfed("agreement", table, tmp_path / "." / "first.csv")
    assert (refused.code, refused.out, len(refused.err.strip().splitlines())) == (2, "", 1)
