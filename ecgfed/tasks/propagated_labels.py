"""Propagated labels of a recording as files: a WFDB annotation and a table with the source of each label."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.labels.user_labels import NO_BEAT
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_writer import annotation_bytes
from ecgfed.tasks.predict import UNCERTAIN

#: Suffix of the annotation file.
SUFFIX = "own"
#: Source of a label: a person labelled the beat; a person labelled a beat of its group; the personal model.
SOURCES = ("clinician", "group", "model")
COLUMNS = ("sample", "time_s", "symbol", "source", "stands_for_sample", "model", "uncertain")


@dataclass(frozen=True, eq=False)
class PropagatedLabels:
    """A label for each beat of a recording, with its source.

    Attributes:
        recording: the recording.
        sample: (beats,) int64 R peaks.
        symbol: (beats,) WFDB symbols; ``|`` for no beat.
        source: (beats,) values of ``SOURCES``.
        origin: (beats,) int64 sample of the labelled beat that the label comes from; -1 for labels of the model.
        model: (beats,) symbols predicted by the personal model.
        uncertain: (beats,) bool: a group's label that the model contradicts, or a label of the model with low
            confidence.
    """

    recording: Recording
    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    source: NDArray[np.str_]
    origin: NDArray[np.int64]
    model: NDArray[np.str_]
    uncertain: NDArray[np.bool_]

    def by_source(self) -> dict[str, int]:
        """Number of beats per source."""
        return {name: int((self.source == name).sum()) for name in SOURCES}

    def by_symbol(self) -> dict[str, int]:
        """Number of beats per symbol, the most frequent first."""
        names, counts = np.unique(self.symbol, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(names[index]): int(counts[index]) for index in order}

    def annotation(self) -> bytes:
        """Return a WFDB annotation without ``|``: the source is the beat's note, uncertain beats have a subtype."""
        beats = self.symbol != NO_BEAT
        note = tuple(self.source[beats].tolist())
        marks = Annotation(self.sample[beats], self.symbol[beats], note, self.uncertain[beats] * UNCERTAIN)
        return annotation_bytes(marks, self.recording.fs_hz)

    def table(self) -> bytes:
        """Return a CSV table with ``COLUMNS``, one row per beat."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        columns = (self.sample, self.symbol, self.source, self.origin, self.model, self.uncertain)
        for sample, symbol, source, origin, model, uncertain in zip(*(part.tolist() for part in columns), strict=True):
            time_s, labelled_at = f"{sample / self.recording.fs_hz:.3f}", "" if origin < 0 else origin
            writer.writerow((sample, time_s, symbol, source, labelled_at, model, int(uncertain)))
        return text.getvalue().encode()


def propagated_label_files(folder: Path, recording: Recording) -> list[Path]:
    """Return the paths of the annotation and the table with a recording's propagated labels."""
    return [folder / f"{recording.name}.{end}" for end in (SUFFIX, "csv")]
