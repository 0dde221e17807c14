"""Everything that a report counts, found at once."""

from dataclasses import dataclass

import numpy as np

from ecgfed.events.beats import Beats
from ecgfed.events.ectopy import Ectopy, ectopy
from ecgfed.events.hours import Stretch, stretches
from ecgfed.events.kinds import Kind
from ecgfed.events.rhythm import Pauses, Rates, Variability, heart_rates, pauses, variability
from ecgfed.events.rules import EventRules


@dataclass(frozen=True)
class Events:
    """What a recording's beats add up to.

    Attributes:
        rules: by which it was counted.
        total: all beats.
        counted: those in no unusable stretch; the rest is in no count.
        by_class: counted beats of each class.
        rates: heart rates.
        pauses: pauses.
        variability: of normal-to-normal intervals.
        ventricular: ventricular ectopy; None where no class is ventricular, or no beat counts: not assessed.
        supra: supraventricular ectopy; likewise.
        hours: hour by hour from the start of the recording.
    """

    rules: EventRules
    total: int
    counted: int
    by_class: dict[str, int]
    rates: Rates
    pauses: Pauses
    variability: Variability
    ventricular: Ectopy | None
    supra: Ectopy | None
    hours: tuple[Stretch, ...]


def find_events(beats: Beats, rules: EventRules | None = None) -> Events:
    """Count everything; see ``EventRules`` for how."""
    rules = EventRules() if rules is None else rules
    count = np.bincount(beats.label[beats.assessed], minlength=len(beats.classes)).tolist()
    return Events(
        rules,
        len(beats),
        int(beats.assessed.sum()),
        dict(zip(beats.classes, count, strict=True)),
        heart_rates(beats, rules),
        pauses(beats, rules),
        variability(beats, rules),
        ectopy(beats, Kind.VENTRICULAR, rules),
        ectopy(beats, Kind.SUPRA, rules),
        stretches(beats),
    )
