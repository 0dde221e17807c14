"""A recording's own labels as files: a WFDB annotation and a table, every beat with who its label is from."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.labels.user_labels import NO_BEAT
from ecgfed.domain.record.recording import Annotation, AnyRecording
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.tasks.predict import UNCERTAIN

#: Of the annotation.
SUFFIX = "own"
#: Who a label is from: a person who saw this beat; a person who saw one of its group; the patient's model.
SOURCES = ("clinician", "group", "model")
COLUMNS = ("sample", "time_s", "symbol", "source", "stands_for_sample", "model", "uncertain")


@dataclass(frozen=True, eq=False)
class PropagatedLabels:
    """What each beat of a recording is, and who says so.

    Attributes:
        recording: it.
        sample: (beats,) int64 R peaks.
        symbol: (beats,) WFDB symbols; ``|`` where it is no beat.
        source: (beats,) of ``SOURCES``.
        origin: (beats,) int64 the sample of the answered beat that the label is from; -1 of a model's.
        model: (beats,) the symbol that the patient's model gives.
        uncertain: (beats,) bool: the label is a group's, and the model says otherwise; or it is the model's, which is
            unsure of it.
    """

    recording: AnyRecording
    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    source: NDArray[np.str_]
    origin: NDArray[np.int64]
    model: NDArray[np.str_]
    uncertain: NDArray[np.bool_]

    def by_source(self) -> dict[str, int]:
        """Beats by who their label is from."""
        return {name: int((self.source == name).sum()) for name in SOURCES}

    def by_symbol(self) -> dict[str, int]:
        """Beats by symbol, the most frequent first."""
        names, counts = np.unique(self.symbol, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(names[index]): int(counts[index]) for index in order}

    def annotation(self) -> bytes:
        """Return a WFDB annotation: the source in each beat's note, uncertain ones with a subtype, no ``|``."""
        beats = self.symbol != NO_BEAT
        marks = Annotation(
            self.sample[beats],
            self.symbol[beats],
            tuple(self.source[beats].tolist()),
            self.uncertain[beats] * UNCERTAIN,
        )
        return annotation_bytes(marks, self.recording.fs_hz)

    def table(self) -> bytes:
        """Return a CSV table with ``COLUMNS``, a line a beat."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(self._rows())
        return text.getvalue().encode()

    def _rows(self) -> Iterable[tuple[object, ...]]:
        fs_hz = self.recording.fs_hz
        columns = (self.sample, self.symbol, self.source, self.origin, self.model, self.uncertain)
        for sample, symbol, source, origin, model, uncertain in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            yield sample, f"{sample / fs_hz:.3f}", symbol, source, "" if origin < 0 else origin, model, int(uncertain)


def propagated_label_files(folder: Path, recording: AnyRecording) -> list[Path]:
    """Return the files of a recording's own labels: the annotation and the table."""
    return [folder / f"{recording.name}.{end}" for end in (SUFFIX, "csv")]
