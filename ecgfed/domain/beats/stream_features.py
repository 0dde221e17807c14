"""Beats of a stream and their RR features: as far as they are known, and once nothing can change them."""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.context_stream import LOOK_AHEAD, ContextStream, provisional_features
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.patient_beat import BLOCK
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import RR_FEATURES, RR_HISTORY, WINDOW_SAMPLES, rr_features


@dataclass(frozen=True)
class Cut:
    """Beats that were cut together.

    Attributes:
        sample: (beats,) int64 R peaks.
        windows: windows, RR features and flags.
        beat: their ids.
    """

    sample: NDArray[np.int64]
    windows: Windows
    beat: tuple[int, ...]


@dataclass(frozen=True)
class Beat:
    """A beat on its way: what its RR features are made of."""

    sample: int
    before_s: float
    window_mv: NDArray[np.float32]
    beside_mv: NDArray[np.float32]
    usable: bool
    flags: int
    no_signal: bool


class RrVersion1:
    """RR features of version 1: a beat waits for the next one."""

    features = len(RR_FEATURES)

    def __init__(self, fs_hz: float) -> None:
        self.fs_hz = fs_hz
        self.beats: list[Beat] = []
        self.emitted = 0  # of those that are held

    def add(self, beat: Beat) -> None:
        """Take the next beat."""
        self.beats.append(beat)

    def decided(self, *, ended: bool) -> tuple[list[Beat], NDArray[np.float32]]:
        """Return beats whose features nothing can change, and the features."""
        stop = len(self.beats) - (0 if ended else 1)
        if stop <= self.emitted:
            return [], np.empty((0, self.features), np.float32)
        rr = rr_features(np.array([beat.sample for beat in self.beats]) / self.fs_hz)[self.emitted : stop]
        decided = self.beats[self.emitted : stop]
        drop = max(stop - RR_HISTORY - 1, 0)
        self.beats, self.emitted = self.beats[drop:], stop - drop
        return decided, rr

    def provisional(self, beats: list[Beat], following: int | None, after_s: float, last: int) -> NDArray[np.float32]:
        """Return the features of the last of beats in a row, the next R peak known or not, without ``after_s``."""
        del after_s
        at = [beat.sample for beat in beats] + ([] if following is None else [following])
        return rr_features(np.array(at, np.float64) / self.fs_hz)[len(beats) - last : len(beats)]


class RrInContext:
    """RR features of version 2 or later."""

    def __init__(self, version: int) -> None:
        self.version, self.features = version, len(RR_NAMES[version])
        self.stream = ContextStream(version)
        self.together = min(BLOCK, LOOK_AHEAD[version])  # beats that are put through at once
        self.fresh: list[Beat] = []
        self.held: deque[Beat] = deque()

    def add(self, beat: Beat) -> None:
        """Take the next beat."""
        self.fresh.append(beat)

    def decided(self, *, ended: bool) -> tuple[list[Beat], NDArray[np.float32]]:
        """Return beats whose features nothing can change, and the features."""
        if len(self.fresh) < self.together and not ended:
            return [], np.empty((0, self.features), np.float32)
        some, self.fresh = self.fresh, []
        self.held.extend(some)
        rr = self.stream.push(*_columns(some))
        if ended:
            rr = np.concatenate([rr, self.stream.finish()])
        return [self.held.popleft() for _ in range(len(rr))], rr

    def provisional(self, beats: list[Beat], following: int | None, after_s: float, last: int) -> NDArray[np.float32]:
        """Return the features of the last of beats in a row as if the next R peak were all that follows."""
        del following
        before_s, window_mv, usable, beside_mv = _columns(beats)
        before_s = np.append(before_s, after_s)
        return provisional_features(before_s, window_mv, usable, self.version, beside_mv, last=last)


def _columns(
    beats: list[Beat],
) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32]]:
    """Return intervals before beats (beats,), windows (beats, 1, 256), which may make a reference, beside them."""
    window_mv = np.empty((len(beats), 1, WINDOW_SAMPLES), np.float32)
    beside_mv = np.empty((len(beats), len(beats[0].beside_mv) if beats else 0), np.float32)
    for number, beat in enumerate(beats):
        window_mv[number], beside_mv[number] = beat.window_mv, beat.beside_mv
    before_s = np.array([beat.before_s for beat in beats], np.float64)
    return before_s, window_mv, np.array([beat.usable for beat in beats], np.bool_), beside_mv


def joined(beats: list[Beat], rr: NDArray[np.float32], ids: list[int]) -> Cut:
    """Return beats with their RR features and ids."""
    _, window_mv, _, _ = _columns(beats)
    sample = np.array([beat.sample for beat in beats], np.int64)
    flags = np.array([beat.flags for beat in beats], np.uint8)
    no_signal = np.array([beat.no_signal for beat in beats], np.bool_)
    return Cut(sample, Windows(window_mv, rr, flags, no_signal), tuple(ids))
