"""``agreement``: how far two readers agree who labelled beats of one recording. No torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import RecordError
from ecgfed.base.text import count_of
from ecgfed.domain.labels.agreement import Agreement
from ecgfed.domain.labels.choose import KIND_OF
from ecgfed.domain.labels.edits import read_edits
from ecgfed.domain.labels.likeness import KINDS
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT, SYMBOLS, UserLabel, read_user_labels
from ecgfed.domain.record.reader import FORMATS
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.tasks.matched_labels import SPREADSHEETS, refuse_model_labels

#: What the choice of beats means for kappa.
SAMPLING = (
    "'ecgfed label' chooses beats that are harder to classify than most: kappa of beats that it chose is not kappa of "
    "the whole recording."
)
#: Name of the class of beats that a reader calls no beat.
NO_BEAT_CLASS = "no beat"


@dataclass(frozen=True, repr=False, eq=False)
class LabelAgreement:
    """The agreement of two readers.

    Attributes:
        first: the first reader's file.
        second: the second reader's file.
        by_class: their labels as AAMI's classes and ``no beat``.
        by_symbol: their labels as they gave them.
        only_first: number of beats that only the first labelled.
        only_second: number of beats that only the second labelled.
        cannot_tell: number of beats that both labelled, and at least one of them as ``?``; they are in no other count.
        disagreements: (sample, time in s, first's label, second's label) of the beats with different labels, in order
            of time; the time is None where neither table has it.
    """

    first: Path
    second: Path
    by_class: Agreement
    by_symbol: Agreement
    only_first: int
    only_second: int
    cannot_tell: int
    disagreements: tuple[tuple[int, float | None, str, str], ...]

    def __repr__(self) -> str:
        kappa = self.by_class.kappa
        text = "kappa not defined" if np.isnan(kappa) else f"kappa {kappa:.2f}"
        return f"LabelAgreement({count_of(self.by_class.beats, 'beat')}: {self.by_class.percent:.1f}% alike, {text})"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        names = ("sample", "time_s", "first", "second")
        return {
            "first": str(self.first),
            "second": str(self.second),
            "by_class": self.by_class.to_dict(),
            "by_symbol": self.by_symbol.to_dict(),
            "only_first": self.only_first,
            "only_second": self.only_second,
            "cannot_tell": self.cannot_tell,
            "sampling": SAMPLING,
            "disagreements": [dict(zip(names, row, strict=True)) for row in self.disagreements],
        }


def label_agreement(first: Path | str, second: Path | str) -> LabelAgreement:
    """Compare the labels that two readers gave to beats of one recording.

    Labels belong together by the sample of their beat. A file is a table of ``label``, of a page of the same recording,
    model and seed; a WFDB annotation; or the edits of a report (``.json``), of which the beats count that its reader
    labelled or added, not those whose label was accepted: the file does not hold it.

    Args:
        first: the first reader's file.
        second: the second reader's file.

    Raises:
        EcgfedError: a file cannot be read or holds a model's labels, both are one file or of two recordings, or no beat
            has a label of both but ``?``.
    """
    first, second = Path(first), Path(second)
    if first.resolve() == second.resolve():
        raise RecordError(second, "is the first reader's file too", "another reader's labels", "name two files")
    labels, others = _read(first), _read(second)
    _check_same_recording(first, labels, second, others)
    of_first, of_second = ({label.sample: label.label for label in table} for table in (labels, others))
    times = {label.sample: label.time_s for label in (*others, *labels) if label.time_s is not None}
    common = sorted(of_first.keys() & of_second.keys())
    pairs = [(sample, of_first[sample], of_second[sample]) for sample in common]
    compared = [pair for pair in pairs if CANNOT_TELL not in pair[1:]]
    if not compared:
        expected = f"labels of beats that {first} labels too, other than {CANNOT_TELL}"
        raise RecordError(second, "has none in common", expected, "label the same recording with the same seed")
    symbols, other_symbols = (np.array([pair[column] for pair in compared], dtype=np.str_) for column in (1, 2))
    classes, other_classes = (np.array([_class_of(symbol) for symbol in of]) for of in (symbols, other_symbols))
    used = {*classes.tolist(), *other_classes.tolist()}
    return LabelAgreement(
        first,
        second,
        Agreement.of(classes, other_classes, tuple(name for name in (*KINDS, NO_BEAT_CLASS) if name in used)),
        Agreement.of(symbols, other_symbols, tuple(sorted({*symbols.tolist(), *other_symbols.tolist()}))),
        len(of_first) - len(common),
        len(of_second) - len(common),
        len(pairs) - len(compared),
        tuple((sample, times.get(sample), one, other) for sample, one, other in compared if one != other),
    )


def _read(path: Path) -> list[UserLabel]:
    """Return the labels of a file; raises RecordError."""
    suffix = path.suffix.casefold()
    if suffix == ".json":
        edits = read_edits(path)
        given = {sample: edit.label for edit in edits.of_beats if edit.label is not None for sample in edit.samples}
        labels = [UserLabel(sample, label, recording=edits.recording) for sample, label in given.items()]
    elif suffix in (*FORMATS["csv"], *SPREADSHEETS):
        return read_user_labels(path)
    else:
        annotation = read_annotation_file(path)
        refuse_model_labels(path, annotation)
        rows = zip(annotation.sample.tolist(), annotation.symbol.tolist(), strict=True)
        labels = [UserLabel(sample, symbol) for sample, symbol in rows if symbol in SYMBOLS]
    if not labels:
        raise RecordError(path, "holds no label of a beat", "labels that a person gave", code="no-beats")
    return labels


def _class_of(symbol: str) -> str:
    return NO_BEAT_CLASS if symbol == NO_BEAT else KIND_OF[symbol]


def _check_same_recording(first: Path, labels: list[UserLabel], second: Path, others: list[UserLabel]) -> None:
    """Raise RecordError where the tables name two recordings."""
    names = [{label.recording for label in table} - {""} for table in (labels, others)]
    if all(names) and names[0] != names[1]:
        problem = f"holds labels of recording {', '.join(sorted(names[1]))[:80]}"
        expected = f"{', '.join(sorted(names[0]))[:80]} as in {first}"
        raise RecordError(second, problem, expected, "compare labels of one recording")
