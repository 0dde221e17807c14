"""Features of beats in their context, of a recording that comes in pieces or as a whole: versions 2 to 4."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats import context, past, strip
from ecgfed.domain.beats.past import PastStream
from ecgfed.domain.beats.patient_beat import BLOCK, Beats, Floats
from ecgfed.domain.beats.windows import BESIDE, WINDOW_SAMPLES

#: Beats that are put through at once, in blocks.
_CHUNK = 1024


class _Version(NamedTuple):
    """What computes the features, their names, how many beats around a beat decide them, and numbers beside it."""

    values: Callable[[Beats, int], NDArray[np.float32]]
    names: tuple[str, ...]
    history: int
    look_ahead: int
    beside: int


_VERSIONS = {
    2: _Version(lambda beats, _: context.values(beats), context.FEATURES, context.HISTORY, context.LOOK_AHEAD, 0),
    3: _Version(strip.values, strip.FEATURES, strip.HISTORY, strip.LOOK_AHEAD, sum(BESIDE)),
}
#: version -> how many beats later the features of a beat are decided
LOOK_AHEAD = {number: version.look_ahead for number, version in _VERSIONS.items()} | {4: past.LOOK_AHEAD}


def _beats(
    before_s: Floats,
    window_mv: NDArray[np.float32],
    usable: NDArray[np.bool_],
    beside_mv: NDArray[np.float32] | None,
    version: _Version,
) -> Beats:
    shape = (len(usable), version.beside)
    if not len(usable) or (beside_mv is None and not version.beside):
        beside_mv = np.empty(shape, np.float32)
    if beside_mv is None or beside_mv.shape != shape:
        actual = None if beside_mv is None else beside_mv.shape
        raise ValueError(f"beside_mv has shape {actual}, expected {shape}, of windows.cut_beside")
    return Beats(np.asarray(before_s, np.float64), window_mv[:, 0], usable, beside_mv)


class ContextStream:
    """Features of a recording that comes in pieces: the same bits as of the whole, ``LOOK_AHEAD`` beats late.

    Args:
        version: of the RR features, 2 or later.
    """

    def __init__(self, version: int = 2) -> None:
        self._past = PastStream() if version == 4 else None
        if self._past is not None:
            return
        self._version = _VERSIONS[version]
        self._held = _beats(np.empty(0), np.empty((0, 1, 256), np.float32), np.empty(0, bool), None, self._version)
        self._first, self._given = 0, 0  # numbers of the first beat held, and of the next whose features are due

    def push(
        self,
        before_s: Floats,
        window_mv: NDArray[np.float32],
        usable: NDArray[np.bool_],
        beside_mv: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Take the next beats; return the features of those that are decided now.

        Args:
            before_s: (beats,) seconds before each beat, NaN where the interval is void (``intervals_s``).
            window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
            usable: (beats,) bool, false where a window is padded or shows no signal, and makes no reference.
            beside_mv: (beats, 80) what lies beside the windows (``windows.cut_beside``); version 3 needs it.

        Returns:
            (decided, features) float32 of the beats that follow those given before.

        Raises:
            ValueError: ``beside_mv`` is of another shape than the version needs.
        """
        if self._past is not None:
            return self._past.push(before_s, window_mv, usable)
        self._held = self._held.then(_beats(before_s, window_mv, usable, beside_mv, self._version))
        ready = self._first + len(self._held.before_s) - self._version.look_ahead
        return self._give(ready // BLOCK * BLOCK)

    def finish(self) -> NDArray[np.float32]:
        """Return the features of the beats that are left; nothing follows the last."""
        if self._past is not None:
            return self._past.finish()
        return self._give(self._first + len(self._held.before_s))

    def _give(self, until: int) -> NDArray[np.float32]:
        parts = [np.empty((0, len(self._version.names)), np.float32)]
        while self._given < until:
            stop = min(until, self._given + _CHUNK * BLOCK)
            start = max(0, self._given - self._version.history)
            beats = self._held.part(start - self._first, stop + self._version.look_ahead - self._first)
            parts.append(self._version.values(beats, self._given - start)[self._given - start : stop - start])
            self._given = stop
        drop = max(0, self._given - self._version.history) - self._first
        if drop > 0:
            self._held, self._first = self._held.part(drop), self._first + drop
        return np.concatenate(parts)


def context_features(
    interval_s: Floats,
    window_mv: NDArray[np.float32],
    usable: NDArray[np.bool_],
    version: int = 2,
    beside_mv: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Return the features of all beats of a recording.

    Args:
        interval_s: (beats + 1,) seconds before each beat and after the last, NaN where void (``intervals_s``).
        window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
        usable: (beats,) bool, false where a window is padded or shows no signal.
        version: of the RR features, 2 or later.
        beside_mv: (beats, 80) what lies beside the windows (``windows.cut_beside``); version 3 needs it.

    Returns:
        (beats, features) float32, finite; in the order of ``rr.RR_NAMES``.
    """
    stream = ContextStream(version)
    first = stream.push(interval_s[:-1], window_mv, usable, beside_mv)
    return np.concatenate([first, stream.finish()])


def provisional_features(
    before_s: Floats,
    window_mv: NDArray[np.float32],
    usable: NDArray[np.bool_],
    version: int = 2,
    beside_mv: NDArray[np.float32] | None = None,
    *,
    last: int | None = None,
) -> NDArray[np.float32]:
    """Return the features of the last beats of a stream as if nothing followed them but one more R peak.

    A reference that stands on fewer beats than the history is made of those that are there.

    Args:
        before_s: (beats + 1,) seconds before each beat and before the R peak that follows, NaN where void or unknown.
        window_mv: (beats, 1, 256) millivolt, filtered, not normalised.
        usable: (beats,) bool, false where a window is padded or shows no signal.
        version: of the RR features, 2 or later.
        beside_mv: (beats, 80) what lies beside the windows; version 3 needs it.
        last: how many of the last beats the features are wanted of, None for all.

    Returns:
        (beats, features) float32, or (last, features).
    """
    first = 0 if last is None else len(window_mv) - last
    if version == 4:
        with_following = np.concatenate([window_mv, np.zeros((1, 1, WINDOW_SAMPLES), np.float32)])
        return PastStream().push(before_s, with_following, np.append(usable, False))[first:]
    if not len(window_mv):
        return np.empty((0, len(_VERSIONS[version].names)), np.float32)
    beats = _beats(before_s[:-1], window_mv, usable, beside_mv, _VERSIONS[version])
    following = Beats(
        np.asarray(before_s[-1:], np.float64),
        np.zeros_like(beats.window_mv[:1]),
        np.zeros(1, np.bool_),
        np.zeros_like(beats.beside_mv[:1]),
    )
    return _VERSIONS[version].values(beats.then(following), first)[first:-1]
