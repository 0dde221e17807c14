"""What a classifier says of beats."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import FLAG_POOR_QUALITY
from ecgfed.text import count_of, shortened

#: The WFDB symbol of a beat that shows no signal: unclassifiable. ``?`` would be one that is not classified yet.
UNCLASSIFIED = "Q"
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
        override: (beats,) WFDB symbols that stand in place of the model's class, "" where the class stands:
            ``UNCLASSIFIED`` where the window shows no signal. Such a beat has no probability, and no class unless its
            symbol names one. None are by default.
    """

    label: NDArray[np.int64]
    probability: NDArray[np.float32]
    flags: NDArray[np.uint8]
    classes: tuple[str, ...]
    sample: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    fs_hz: float = 0.0
    far: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    uncertain: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    override: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))

    def __post_init__(self) -> None:
        for name in ("far", "uncertain"):
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
        doubtful, without = int((self.uncertain & self.classified).sum()), sum(self.unclassified_counts.values())
        parts = [counts, f"{doubtful:,} uncertain" * bool(doubtful), f"{without:,} unclassified" * bool(without)]
        return "; ".join(filter(None, [*parts, f"{poor:,} in poor stretches" * bool(poor)]))

    def chosen(self, keep: NDArray[np.int64]) -> "Predictions":
        """Return what is said of some of the beats, by their numbers."""
        names = ("label", "probability", "flags", "far", "uncertain", "override")
        sample = self.sample[keep] if len(self.sample) else self.sample
        return replace(self, sample=sample, **{name: getattr(self, name)[keep] for name in names})

    @cached_property
    def classified(self) -> NDArray[np.bool_]:
        """(beats,) bool, those whose class is the model's: no symbol overrides it."""
        return np.asarray(self.override == "")

    @cached_property
    def class_number(self) -> NDArray[np.int64]:
        """(beats,) int64 class number after overriding, -1 where a beat has no class."""
        number = np.where(self.classified, self.label, -1)
        for symbol in set(self.override[~self.classified].tolist()) & set(self.classes) - {UNCLASSIFIED}:
            number[self.override == symbol] = self.classes.index(symbol)
        return number

    @property
    def names(self) -> tuple[str, ...]:
        """The class name of each beat; the symbol that overrides it of a beat without class."""
        numbers = zip(self.class_number.tolist(), self.override.tolist(), strict=True)
        return tuple(self.classes[number] if number >= 0 else symbol for number, symbol in numbers)

    @property
    def counts(self) -> dict[str, int]:
        """Beats of each class; those without class are in none (``unclassified_counts``)."""
        return self._per_class(np.ones(len(self), np.bool_))

    @property
    def unclassified_counts(self) -> dict[str, int]:
        """Beats without class by the symbol that overrides it."""
        symbol, count = np.unique(self.override[self.class_number < 0], return_counts=True)
        return dict(zip(symbol.tolist(), count.tolist(), strict=True))

    @property
    def uncertain_counts(self) -> dict[str, int]:
        """Uncertain beats of each class, by the model's own."""
        return self._per_class(self.uncertain & self.classified)

    @property
    def far_counts(self) -> dict[str, int]:
        """Far beats of each class, by the model's own."""
        return self._per_class(self.far & self.classified)

    def _per_class(self, which: NDArray[np.bool_]) -> dict[str, int]:
        count = np.bincount(self.class_number[which & (self.class_number >= 0)], minlength=len(self.classes))
        return dict(zip(self.classes, count.tolist(), strict=True))

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(beats,) float32, the probability of the model's class of each beat, overridden or not."""
        return np.asarray(self.probability[np.arange(len(self)), self.label])

    def beats(self) -> Iterator[dict[str, Any]]:
        """Yield each beat, JSON-ready: ``sample``, ``time_s``, ``class``, ``probability``, ``flags``, ``uncertain``."""
        confidence = self.confidence
        for start in range(0, len(self), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            names = [self.classes[number] if number >= 0 else None for number in self.class_number[some].tolist()]
            places = self.sample[some].tolist() or [None] * len(names)
            by_model = self.classified[some].tolist()
            flags, uncertain = self.flags[some].tolist(), self.uncertain[some].tolist()
            rows = zip(places, names, confidence[some].tolist(), by_model, flags, uncertain, strict=True)
            for sample, name, probability, own, flag, doubtful in rows:
                where = {} if sample is None else {"sample": sample, "time_s": round(sample / self.fs_hz, 4)}
                said = {"class": name, "probability": round(probability, 4) if own else None}
                yield {**where, **said, "flags": flag, "uncertain": doubtful}

    def to_dict(self) -> dict[str, Any]:
        """Return counts and beats, JSON-ready."""
        poor = int((self.flags & FLAG_POOR_QUALITY).astype(bool).sum())
        beats = list(self.beats())
        return {"counts": self.counts, "poor_quality_beats": poor, **self.doubtful_counts(), "beats": beats}

    def doubtful_counts(self) -> dict[str, Any]:
        """Return how many beats have a class that is uncertain, far, or none; JSON-ready."""
        return {
            "uncertain_beats": int((self.uncertain & self.classified).sum()),
            "far_beats": int((self.far & self.classified).sum()),
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
