"""Episodes of bradycardia and tachycardia, by stated rules."""

import numpy as np

from ecgfed.base.language import tr_later
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.rhythm import rated
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules

#: What such episodes are called.
BRADYCARDIA, TACHYCARDIA = tr_later("bradycardia"), tr_later("tachycardia")


def rate_episodes(beats: Beats, rules: EventRules) -> tuple[RhythmEpisodes, ...]:
    """Return the episodes of a slow and of a fast rate, whatever the rhythm; a rhythm without an episode is left out.

    The rate is the mean over ``rate_intervals`` consecutive measured intervals, ectopic or not; an episode lasts from
    the first to the last beat of intervals whose mean is too slow (too fast), without a break.
    """
    intervals, sample = rules.rate_intervals, beats.sample
    first = rated(beats, beats.measured, rules)
    per_min = 60 * intervals * beats.fs_hz / (sample[first + intervals] - sample[first])
    found = []
    for name, out in (
        (BRADYCARDIA, per_min < rules.bradycardia_per_min),
        (TACHYCARDIA, per_min > rules.tachycardia_per_min),
    ):
        spans = merged(zip(sample[first[out]].tolist(), sample[first[out] + intervals].tolist(), strict=True))
        long = spans[np.diff(spans, axis=1)[:, 0] >= rules.rate_episode_s * beats.fs_hz] / beats.fs_hz
        if len(long):
            found.append(RhythmEpisodes(name, tuple((start, stop) for start, stop in long.tolist()), "rates"))
    return tuple(found)
