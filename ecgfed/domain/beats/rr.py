"""The versions of the RR features: what each is called in a cohort, a run and a bundle, and what computes it.

Version 1 has the four numbers of ``ecgfed.domain.beats.windows.rr_features``, one beat late; version 2 those of
``ecgfed.domain.beats.context``, which know gaps and the patient and come up to 104 beats late (docs/decisions/0034). A
cohort says its version, a net is made for it, and a device computes what its bundle says.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.domain.beats.context import FEATURES, context_features
from ecgfed.domain.beats.intervals import Edges, intervals_s
from ecgfed.domain.beats.windows import RR_FEATURES, rr_features

#: version -> names of the features in order
RR_NAMES: dict[int, tuple[str, ...]] = {1: RR_FEATURES, 2: FEATURES}
#: What cohorts get where nothing else is asked for.
RR_LATEST = 2


def check_rr_version(version: object) -> int:
    """Return a version of the RR features; raises OptionError for any other value."""
    if isinstance(version, bool) or not isinstance(version, int) or version not in RR_NAMES:
        raise OptionError("rr_version", f"{version!r:.40}", " or ".join(map(str, RR_NAMES)), code="unknown-choice")
    return version


def rr_description(version: int) -> dict[str, Any]:
    """Return how a manifest says a version: its number and the names in order."""
    return {"version": version, "names": list(RR_NAMES[version])}


def beats_in_time(
    version: int,
    r_samples: NDArray[np.int64],
    fs_hz: float,
    window_mv: NDArray[np.float32],
    unusable: NDArray[np.bool_],
    lost: Edges,
    void: Edges = (),
) -> NDArray[np.float32]:
    """Return the RR features of all beats of a recording.

    Args:
        version: of the features.
        r_samples: (beats,) int64 increasing sample numbers.
        fs_hz: sampling frequency in Hz.
        window_mv: (beats, 1, 256) millivolt, filtered.
        unusable: (beats,) bool, true where a window is padded or shows no signal.
        lost: stretches, in samples, where the lead shows nothing.
        void: stretches, in samples, whose beats nobody marked.

    Returns:
        (beats, features) float32.
    """
    if version == 1:
        return rr_features(r_samples / fs_hz)
    return context_features(intervals_s(r_samples, fs_hz, lost, void), window_mv, ~unusable)
