"""What a classifier says of beats."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import FLAG_POOR_QUALITY
from ecgfed.text import count_of, shortened

#: Beats that are turned into Python's numbers at once: a fortnight has more than a million.
_AT_ONCE = 1 << 14


@dataclass(frozen=True, repr=False, eq=False)
class Predictions:
    """What a classifier says of some beats.

    Attributes:
        label: (beats,) int64 class numbers.
        probability: (beats, classes) float32, calibrated where the bundle says how.
        flags: (beats,) uint8, see ``ecgfed.beats.extract``.
        classes: class names in order of their number.
        sample: (beats,) int64 sample numbers of the R peaks; empty where windows alone were classified.
        fs_hz: sampling frequency of the recording in Hz; 0 where windows alone were classified.
        far: (beats,) bool, those that look like none the model was trained on; none where the bundle cannot tell.
        uncertain: (beats,) bool, those whose class is not to be relied on: far, or of a probability below the bundle's
            threshold. None are by default.
    """

    label: NDArray[np.int64]
    probability: NDArray[np.float32]
    flags: NDArray[np.uint8]
    classes: tuple[str, ...]
    sample: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    fs_hz: float = 0.0
    far: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    uncertain: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    def __post_init__(self) -> None:
        for name in ("far", "uncertain"):
            if len(getattr(self, name)) != len(self.label):
                object.__setattr__(self, name, np.zeros(len(self.label), np.bool_))

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        return f"Predictions({count_of(len(self), 'beat')}: {self._counted() or 'none'})"

    def _counted(self) -> str:
        counts = shortened(", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count))
        poor = int((self.flags & FLAG_POOR_QUALITY).astype(bool).sum())
        doubtful = int(self.uncertain.sum())
        said = f"{counts}; {doubtful:,} uncertain" if doubtful else counts
        return f"{said}; {poor:,} in poor stretches" if poor else said

    @property
    def names(self) -> tuple[str, ...]:
        """The class name of each beat."""
        return tuple(self.classes[number] for number in self.label.tolist())

    @property
    def counts(self) -> dict[str, int]:
        """Beats of each class."""
        found = np.bincount(self.label, minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, found, strict=True))

    @property
    def uncertain_counts(self) -> dict[str, int]:
        """Uncertain beats of each class."""
        found = np.bincount(self.label[self.uncertain], minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, found, strict=True))

    @property
    def far_counts(self) -> dict[str, int]:
        """Far beats of each class."""
        found = np.bincount(self.label[self.far], minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, found, strict=True))

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(beats,) float32, the probability of each beat's class."""
        return np.asarray(self.probability[np.arange(len(self)), self.label])

    def beats(self) -> Iterator[dict[str, Any]]:
        """Yield each beat, JSON-ready: ``sample``, ``time_s``, ``class``, ``probability``, ``flags``, ``uncertain``."""
        confidence = self.confidence
        for start in range(0, len(self), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            names = [self.classes[number] for number in self.label[some].tolist()]
            places = self.sample[some].tolist() or [None] * len(names)
            flags, uncertain = self.flags[some].tolist(), self.uncertain[some].tolist()
            rows = zip(places, names, confidence[some].tolist(), flags, uncertain, strict=True)
            for sample, name, probability, flag, doubtful in rows:
                where = {} if sample is None else {"sample": sample, "time_s": round(sample / self.fs_hz, 4)}
                said = {"class": name, "probability": round(probability, 4), "flags": flag, "uncertain": doubtful}
                yield {**where, **said}

    def to_dict(self) -> dict[str, Any]:
        """Return counts and beats, JSON-ready."""
        poor = int((self.flags & FLAG_POOR_QUALITY).astype(bool).sum())
        doubtful = {"uncertain_beats": int(self.uncertain.sum()), "far_beats": int(self.far.sum())}
        return {"counts": self.counts, "poor_quality_beats": poor, **doubtful, "beats": list(self.beats())}

    def _repr_html_(self) -> str:
        """A notebook's table: beats of each class."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{count:,}</td></tr>" for name, count in self.counts.items() if count
        )
        return f"<table><tr><th>class</th><th>beats</th></tr>{rows}</table>"
