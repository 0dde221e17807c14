"""A long recording through a detector in two threads: the second one begins before its middle, and finds the same.

What a stream finds next depends on its state and on the samples to come, on nothing else. The second stream passes over
the first half without looking for beats, looks at the last minute of it for what a stream remembers (levels of thirty
seconds, candidates of twelve, the last beat), and notes its state after each block. The first stream goes on into the
second half until its own state after a block is the one noted, bit for bit; from there on each would find what the
other does, so the second one's peaks are taken. Where they never agree the first goes on to the end.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event

import numpy as np

from ecgfed.domain.signal.detectors import Peaks, Signal, Skipping, Stream

#: How long before the middle the second stream looks at what it hears, so that it remembers what the first does.
WARM_S = 60.0
#: Blocks beside those that there are at least for two streams.
_LEAST = 4
#: (start, stop) -> (leads, samples) millivolt.
Read = Callable[[int, int], Signal]


@dataclass(frozen=True)
class _BlockResult:
    """What the second stream made of a block: its peaks, its state behind it, and what ended it before the end."""

    peaks: Peaks
    state: bytes = b""
    error: BaseException | None = None


class _Ahead:
    """The second stream, in a thread of its own."""

    def __init__(self, stream: Skipping, read: Read, blocks: list[tuple[int, int]], warm: int, middle: int) -> None:
        self.stream, self.read, self.blocks, self.warm, self.middle = stream, read, blocks, warm, middle
        self.results: SimpleQueue[_BlockResult] = SimpleQueue()
        self.stopped = Event()
        self.looked_at = 0  # samples of the second half

    def run(self) -> None:
        """Put a ``_BlockResult`` for each block from the one before the middle on, and one for the stream's end."""
        try:
            for number, (start, stop) in enumerate(self.blocks):
                if self.stopped.is_set():
                    return
                block = self.read(start, stop)
                if number < self.middle - self.warm:
                    self.stream.skip(block)
                    continue
                peaks = self.stream.push(block)
                if number >= self.middle - 1:
                    self.results.put(_BlockResult(peaks, self.stream.state()))
                    self.looked_at += stop - start if number >= self.middle else 0
            self.results.put(_BlockResult(self.stream.finish()))
        except BaseException as error:  # the first stream raises it, should it come to need this one
            self.results.put(_BlockResult(np.empty(0, np.int64), error=error))

    def next(self) -> _BlockResult:
        """Return the next block's; raises what ended this stream."""
        result = self.results.get()
        if result.error is not None:
            raise result.error
        return result


def peaks_of_stream(
    begin: Callable[[], Stream],
    read: Read,
    blocks: list[tuple[int, int]],
    fs_hz: float,
    on_samples: Callable[[int], None],
) -> list[Peaks]:
    """Return the peaks that a stream finds, in parts in order of time; by two threads where it can and it pays.

    Args:
        begin: makes a stream at its beginning.
        read: reads some samples; two threads call it.
        blocks: start and stop of consecutive blocks of samples, all but the last one of one length.
        fs_hz: sampling frequency in Hz.
        on_samples: how many samples have been looked at; called from this thread.

    Raises:
        Exception: what ``read`` or a stream raises; the other one ends after its block.
    """
    stream = begin()
    warm = math.ceil(WARM_S * fs_hz / (blocks[0][1] - blocks[0][0]))
    second = begin() if len(blocks) >= warm + _LEAST else None
    if not (isinstance(stream, Skipping) and isinstance(second, Skipping)):
        parts = []
        for start, stop in blocks:
            parts.append(stream.push(read(start, stop)))
            on_samples(stop)
        return [*parts, stream.finish()]
    ahead = _Ahead(second, read, blocks, warm, (len(blocks) + warm) // 2)
    with ThreadPoolExecutor(1, thread_name_prefix="second half") as pool:
        pool.submit(ahead.run)
        try:
            return _joined(stream, ahead, on_samples)
        finally:
            ahead.stopped.set()


def _joined(stream: Skipping, ahead: _Ahead, on_samples: Callable[[int], None]) -> list[Peaks]:
    """Return the first stream's peaks, and the second one's from where their states are the same."""
    parts: list[Peaks] = []
    highest = 0  # told so far, never less
    for number, (start, stop) in enumerate(ahead.blocks):
        parts.append(stream.push(ahead.read(start, stop)))
        highest = max(highest, stop + ahead.looked_at if number < ahead.middle else stop)
        on_samples(highest)
        if number >= ahead.middle - 1 and ahead.next().state == stream.state():
            for _, behind in [*ahead.blocks[number + 1 :], ahead.blocks[-1]]:
                parts.append(ahead.next().peaks)
                highest = max(highest, behind)
                on_samples(highest)
            return parts
    return [*parts, stream.finish()]
