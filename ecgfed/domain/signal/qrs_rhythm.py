"""The QRS detector's second look: each likely candidate beside the ones before and after it.

The first look knows how a candidate and its surroundings are shaped; this one knows how sure the neighbours are, how
far away, how large and how much alike. A T wave follows a surer neighbour of another form, time after time; a P wave
in a pause is smaller and other than the beats before it; one beat of a fast run is like the last and as far from the
next. Only first-look scores are used, never decisions: a wrong decision cannot lead to the next one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.qrs_features import logarithm, rounded
from ecgfed.domain.signal.qrs_signal import BLOCK, RATE_HZ, Floats, Ints

#: Candidates before and after that are compared, and likely beats (first score above 0) before and after.
BEFORE, AFTER, BEATS_BEFORE, BEATS_AFTER = 4, 4, 3, 2
#: Nothing older than this is a neighbour (12 s), nothing that lies more than two blocks after the candidate's.
MEMORY = 12 * RATE_HZ
BLOCKS_AHEAD = 2
NEIGHBOURS = BEFORE + AFTER + BEATS_BEFORE + BEATS_AFTER
_EACH = 5  # features of a neighbour
#: Activations of the first network that the second is shown, and levels.
MIXED, LEVELS = 24, 5
RHYTHM_FEATURES = NEIGHBOURS * _EACH + 1 + LEVELS + MIXED


@dataclass(frozen=True)
class Likely:
    """Candidates that the first look has not ruled out, in order.

    Attributes:
        at: (n,) 200 Hz samples of the segment.
        score: (n,) float32 log odds of the first look.
        mixed: (n, MIXED) float32 whole numbers: the first network's last activations.
        envelope: (leads, n) float32, microvolt.
        counted: (leads, n) the leads that were asked.
        form: (leads, n, 21) float32 whole numbers: the shape within 100 ms.
        ratio: (n, LEVELS) float32 whole numbers: own envelope over the levels.
        lead: (n,) the lead to put the R peak on.
        size: (n,) float32, microvolt: the own envelope on that lead.
    """

    at: Ints
    score: Floats
    mixed: Floats
    envelope: Floats
    counted: NDArray[np.bool_]
    form: Floats
    ratio: Floats
    lead: Ints
    size: Floats

    def joined(self, following: "Likely") -> "Likely":
        """Return these and later ones."""
        return Likely(
            np.concatenate([self.at, following.at]),
            np.concatenate([self.score, following.score]),
            np.concatenate([self.mixed, following.mixed]),
            np.concatenate([self.envelope, following.envelope], axis=1),
            np.concatenate([self.counted, following.counted], axis=1),
            np.concatenate([self.form, following.form], axis=1),
            np.concatenate([self.ratio, following.ratio]),
            np.concatenate([self.lead, following.lead]),
            np.concatenate([self.size, following.size]),
        )

    def some(self, which: Ints | slice) -> "Likely":
        """Return some of them."""
        return Likely(
            self.at[which],
            self.score[which],
            self.mixed[which],
            self.envelope[:, which],
            self.counted[:, which],
            self.form[:, which],
            self.ratio[which],
            self.lead[which],
            self.size[which],
        )

    def since(self, at: int) -> "Likely":
        """Return those from a 200 Hz sample on."""
        return self.some(slice(int(np.searchsorted(self.at, at)), None))


def _neighbours(likely: Likely, which: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the neighbours' indices (n, NEIGHBOURS) and which of them there are."""
    beats = np.flatnonzero(likely.score > 0)
    count = len(likely.at)
    near = which[:, None] + np.concatenate([-np.arange(1, BEFORE + 1), np.arange(1, AFTER + 1)])
    before, after = np.searchsorted(beats, which, "left"), np.searchsorted(beats, which, "right")
    position = np.concatenate(
        [before[:, None] - np.arange(1, BEATS_BEFORE + 1), after[:, None] + np.arange(BEATS_AFTER)], axis=1
    )
    known = (position >= 0) & (position < len(beats))
    beat_at = (
        np.where(known, beats[np.clip(position, 0, len(beats) - 1)], -1) if len(beats) else np.full(position.shape, -1)
    )
    index = np.concatenate([near, beat_at], axis=1)
    exists = (index >= 0) & (index < count)
    index = np.where(exists, index, which[:, None])
    at, center = likely.at.take(index), likely.at.take(which)[:, None]
    exists &= (center - at <= MEMORY) & (at // BLOCK <= center // BLOCK + BLOCKS_AHEAD)
    return index, exists


def rhythm_features(likely: Likely, which: Ints) -> Floats:
    """Describe some candidates by their neighbours.

    Args:
        likely: all of them, those of the two blocks after the last one asked for included.
        which: (n,) indices of those to describe.

    Returns:
        (n, RHYTHM_FEATURES) whole numbers, features times ``UNIT``, as float32.
    """
    index, exists = _neighbours(likely, which)
    distance = np.abs(likely.at.take(index) - likely.at.take(which)[:, None])
    odds = np.clip(likely.score, -8, 8) / 4
    counted = likely.counted[:, which]
    number = np.maximum(counted.sum(axis=0), 1).astype(np.float32)[:, None]
    size, similarity = np.zeros(index.shape, np.float32), np.zeros(index.shape, np.float32)
    for lead, is_counted in enumerate(counted):  # one after the other, so that the sum has one order
        if not is_counted.any():
            continue
        envelope, form = likely.envelope[lead], likely.form[lead]
        power = np.maximum((form * form).sum(axis=1), 1)
        ratio = logarithm(envelope.take(index) / envelope.take(which)[:, None])
        # ``take`` is several times faster than an index
        product = np.matmul(form.take(index, axis=0), form.take(which, axis=0)[:, :, None])[..., 0]
        like = product / np.sqrt(power.take(index) * power.take(which)[:, None])
        size += np.where(is_counted[:, None], ratio, 0)
        similarity += np.where(is_counted[:, None], like, 0)
    features = np.stack(
        [
            np.ones(index.shape, np.float32),
            odds.take(index),
            _distances().take(distance, mode="clip"),  # what lies further away is no neighbour
            size / number / 2,
            similarity / number,
        ],
        axis=-1,
    )
    features *= exists[..., None]
    first = rounded(
        np.concatenate([features.reshape(len(which), NEIGHBOURS * _EACH), odds.take(which)[:, None]], axis=1)
    )
    return np.concatenate([first, likely.ratio.take(which, axis=0), likely.mixed.take(which, axis=0)], axis=1)


@lru_cache(maxsize=1)
def _distances() -> Floats:
    """Return the feature of each distance in samples, up to the furthest neighbour's."""
    distance = np.arange(MEMORY + (BLOCKS_AHEAD + 1) * BLOCK, dtype=np.float32)
    return logarithm(np.maximum(distance, np.float32(1)).astype(np.float32) / np.float32(100))
