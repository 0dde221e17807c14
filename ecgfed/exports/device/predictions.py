"""Predictions of a classifier."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY

#: WFDB symbol of a beat without signal: unclassifiable. (``?`` is a beat that was not classified yet.)
UNCLASSIFIED = "Q"
#: Beats that are converted to Python numbers at once (two weeks have more than a million).
_AT_ONCE = 1 << 14


@renamed_fields(
    "0.3",
    "0.5",
    far="out_of_distribution",
    uncertain="low_confidence",
    far_counts="out_of_distribution_counts",
    uncertain_counts="low_confidence_counts",
    doubtful_counts="reliability_counts",
)
@dataclass(frozen=True, repr=False, eq=False)
class Predictions:
    """Predictions for beats.

    Attributes:
        label: (beats,) int64 class numbers.
        probability: (beats, classes) float32, calibrated if the bundle has a calibration.
        flags: (beats,) uint8, see ``ecgfed.domain.beats.extract``.
        classes: class names in order of their number.
        sample: (beats,) int64 sample numbers of the R peaks; empty if only windows were classified.
        fs_hz: sampling frequency of the recording in Hz; 0 if only windows were classified.
        out_of_distribution: (beats,) bool, beats unlike any in the training data; all False if the bundle has no
            detector for them.
        low_confidence: (beats,) bool, beats that are out of distribution or whose probability is below the bundle's
            threshold. Default all False.
        override: (beats,) WFDB symbols that replace the model's class, "" if it is used: ``UNCLASSIFIED`` if the
            window has no signal. Such a beat has no probability, and no class unless its symbol is the name of one.
            Default all "".
    """

    label: NDArray[np.int64]
    probability: NDArray[np.float32]
    flags: NDArray[np.uint8]
    classes: tuple[str, ...]
    sample: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    fs_hz: float = 0.0
    out_of_distribution: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    low_confidence: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    override: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))

    def __post_init__(self) -> None:
        for name in ("out_of_distribution", "low_confidence"):
            if len(getattr(self, name)) != len(self.label):
                object.__setattr__(self, name, np.zeros(len(self.label), np.bool_))
        if len(self.override) != len(self.label):
            object.__setattr__(self, "override", np.zeros(len(self.label), "U1"))

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        return f"Predictions({count_of(len(self), 'beat')}: {self._counted() or 'none'})"

    def _counted(self) -> str:
        counts = shortened(", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count))
        poor = int((self.flags & FLAG_POOR_QUALITY).astype(bool).sum())
        doubtful, without = int((self.low_confidence & self.classified).sum()), sum(self.unclassified_counts.values())
        parts = [counts, f"{doubtful:,} uncertain" * bool(doubtful), f"{without:,} unclassified" * bool(without)]
        return "; ".join(filter(None, [*parts, f"{poor:,} in poor stretches" * bool(poor)]))

    def chosen(self, keep: NDArray[np.int64]) -> "Predictions":
        """Return the predictions for some of the beats, by their numbers."""
        names = ("label", "probability", "flags", "out_of_distribution", "low_confidence", "override")
        sample = self.sample[keep] if len(self.sample) else self.sample
        return replace(self, sample=sample, **{name: getattr(self, name)[keep] for name in names})

    @cached_property
    def classified(self) -> NDArray[np.bool_]:
        """(beats,) bool, beats whose class is the model's, not overridden."""
        return np.asarray(self.override == "")

    @cached_property
    def class_number(self) -> NDArray[np.int64]:
        """(beats,) int64 class number after overriding, -1 if the beat has no class."""
        number = np.where(self.classified, self.label, -1)
        for symbol in set(self.override[~self.classified].tolist()) & set(self.classes) - {UNCLASSIFIED}:
            number[self.override == symbol] = self.classes.index(symbol)
        return number

    @property
    def names(self) -> tuple[str, ...]:
        """The class name of each beat; for a beat without class, the overriding symbol."""
        numbers = zip(self.class_number.tolist(), self.override.tolist(), strict=True)
        return tuple(self.classes[number] if number >= 0 else symbol for number, symbol in numbers)

    @property
    def counts(self) -> dict[str, int]:
        """Beats per class, without unclassified ones (``unclassified_counts``)."""
        return self._per_class(np.ones(len(self), np.bool_))

    @property
    def unclassified_counts(self) -> dict[str, int]:
        """Beats without class, by overriding symbol."""
        symbol, count = np.unique(self.override[self.class_number < 0], return_counts=True)
        return dict(zip(symbol.tolist(), count.tolist(), strict=True))

    @property
    def low_confidence_counts(self) -> dict[str, int]:
        """Beats of low confidence per class of the model."""
        return self._per_class(self.low_confidence & self.classified)

    @property
    def out_of_distribution_counts(self) -> dict[str, int]:
        """Out-of-distribution beats per class of the model."""
        return self._per_class(self.out_of_distribution & self.classified)

    def _per_class(self, which: NDArray[np.bool_]) -> dict[str, int]:
        count = np.bincount(self.class_number[which & (self.class_number >= 0)], minlength=len(self.classes))
        return dict(zip(self.classes, count.tolist(), strict=True))

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(beats,) float32, the probability of the model's class for each beat, even if overridden."""
        return np.asarray(self.probability[np.arange(len(self)), self.label])

    def beats(self) -> Iterator[dict[str, Any]]:
        """Yield each beat, JSON-ready: ``sample``, ``time_s``, ``class``, ``probability``, ``flags``, ``uncertain``."""
        confidence = self.confidence
        for start in range(0, len(self), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            names = [self.classes[number] if number >= 0 else None for number in self.class_number[some].tolist()]
            samples = self.sample[some].tolist() or [None] * len(names)
            by_model = self.classified[some].tolist()
            flags, uncertain = self.flags[some].tolist(), self.low_confidence[some].tolist()
            rows = zip(samples, names, confidence[some].tolist(), by_model, flags, uncertain, strict=True)
            for sample, name, probability, model_classified, flag, doubtful in rows:
                where = {} if sample is None else {"sample": sample, "time_s": round(sample / self.fs_hz, 4)}
                class_fields = {"class": name, "probability": round(probability, 4) if model_classified else None}
                yield {**where, **class_fields, "flags": flag, "uncertain": doubtful}

    def to_dict(self) -> dict[str, Any]:
        """Return counts and beats, JSON-ready."""
        poor = int((self.flags & FLAG_POOR_QUALITY).astype(bool).sum())
        beats = list(self.beats())
        return {"counts": self.counts, "poor_quality_beats": poor, **self.reliability_counts(), "beats": beats}

    def reliability_counts(self) -> dict[str, Any]:
        """Return the numbers of low-confidence, out-of-distribution and unclassified beats, JSON-ready."""
        return {
            "uncertain_beats": int((self.low_confidence & self.classified).sum()),
            "far_beats": int((self.out_of_distribution & self.classified).sum()),
            "unclassified_beats": sum(self.unclassified_counts.values()),
            "unclassified_counts": self.unclassified_counts,
        }

    def _repr_html_(self) -> str:
        """A notebook's table: beats of each class."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{count:,}</td></tr>"
            for name, count in [*self.counts.items(), ("unclassified", sum(self.unclassified_counts.values()))]
            if count
        )
        return f"<table><tr><th>class</th><th>beats</th></tr>{rows}</table>"
