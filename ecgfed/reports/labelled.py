"""The labels of a report's beats, and those of a second reader."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import LeadSegment
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.signal.pacing import Pacing


@dataclass(frozen=True, eq=False)
class Labelled:
    """The beats of a recording with their labels.

    Attributes:
        by: who labelled them, as part of a sentence.
        short: the same in one word, for the edge of a strip.
        sample: (beats,) int64 R peaks.
        label: (beats,) int64 class numbers.
        classes: class names.
        codes: the code of each class on a strip.
        meanings: the description of each class.
        kinds: the kind of each class.
        confidence: (beats,) the probability of each beat's class; None for a file's labels.
        uncertain: (beats,) bool; None where not assessed.
        warnings: (code, sentence) about the labels.
        rhythms: rhythms marked in a file, or detected in the signal: pacing, atrial fibrillation, flutter, no beats.
        provisional: the labels have not been reviewed by a person.
        unmarked: (start, stop) in samples of stretches where a file of labels marks no beats, as in flutter.
        withheld: kind -> why its counts would mislead, in one sentence.
        flutter: (start, stop) in samples of possible ventricular flutter or fibrillation, where nothing is counted.
        confirmed: (beats - 1,) bool, False for an interval that a second analysis of the signal could not confirm;
            None where none was made.
        doubted: (beats,) bool, beats that it rejects; None likewise.
        undetected: (beats - 1,) uint8, where a wave may be an undetected beat, as ``Beats`` has it; None likewise.
        fibrillation_from_s: the shortest episode of atrial fibrillation that is detected in the signal, in seconds, the
            whole of a strip; None where it was not assessed there.
        lead_segments: which leads the beat detection used; empty where not assessed.
        probability: (beats, classes) a model's; None for a file's labels.
        out_of_distribution: (beats,) bool, unlike the beats of training; None where not assessed.
        pulses: (beats,) bool, beats that are calibration pulses; None for a file's labels.
        no_signal: (beats,) bool, beats without a class because their lead has no signal; None for a file's labels.
        end_noise: number of detected peaks excluded as noise at an end of the recording.
        rejected: (beats - 1,) bool, intervals that a person rejected; None where none was.
        pacing: detected at exactly these beats; None where it was not looked for.
    """

    by: str
    short: str
    sample: NDArray[np.int64]
    label: NDArray[np.int64]
    classes: tuple[str, ...]
    codes: tuple[str, ...]
    meanings: tuple[str, ...]
    kinds: tuple[Kind, ...]
    confidence: NDArray[np.floating] | None = None
    uncertain: NDArray[np.bool_] | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    rhythms: tuple[RhythmEpisodes, ...] | None = None
    provisional: bool = True
    unmarked: tuple[tuple[int, int], ...] = ()
    withheld: Mapping[Kind, str] = field(default_factory=dict)
    confirmed: NDArray[np.bool_] | None = None
    doubted: NDArray[np.bool_] | None = None
    flutter: tuple[tuple[int, int], ...] = ()
    lead_segments: tuple[LeadSegment, ...] = ()
    probability: NDArray[np.floating] | None = None
    out_of_distribution: NDArray[np.bool_] | None = None
    no_signal: NDArray[np.bool_] | None = None
    pulses: NDArray[np.bool_] | None = None
    end_noise: int = 0
    rejected: NDArray[np.bool_] | None = None
    pacing: Pacing | None = None
    undetected: NDArray[np.uint8] | None = None
    fibrillation_from_s: float | None = None

    @property
    def names(self) -> NDArray[np.str_]:
        """(beats,) the code drawn above each beat."""
        return np.array(self.codes, dtype=np.str_)[self.label]


@dataclass(frozen=True, eq=False)
class Second:
    """Another reader of the same beats.

    Attributes:
        by: its name, as part of a sentence.
        short: the same in one word.
        names: (beats,) its code for each beat.
        confidence: (beats,) the probability of that class.
        warnings: (code, sentence) about its labels.
    """

    by: str
    short: str
    names: NDArray[np.str_]
    confidence: NDArray[np.floating]
    warnings: tuple[tuple[str, str], ...] = ()
