"""Whoever looks on while a task works: a terminal, a notebook, nobody."""

import sys
import warnings
from collections.abc import Callable, Iterable

from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.record.opening import LONG
from ecgfed.domain.record.recording import AnyRecording, LongRecording

_PACKAGE = __name__.partition(".")[0]


class EcgfedWarning(UserWarning):
    """Something to keep in mind beside a result."""


class Watch:
    """Told of a task's progress and of what is worth saying. This one is silent but for warnings.

    Override what you want to hear. The command line prints; ``warn`` becomes a Python warning here.
    """

    def progress(
        self, what: str, done: int, total: int | None, about: str = "", *, rate: str = "", left_s: float | None = None
    ) -> None:
        """Hear how far the work is.

        Args:
            what: what is counted: ``records``, ``patients``, ``rounds``.
            done: how many are done.
            total: of how many, or None where nobody knows.
            about: a word about the last one.
            rate: how fast, in words, where the task knows better than the counts.
            left_s: seconds left, likewise.
        """

    def note(self, text: str) -> None:
        """Hear a sentence worth reading."""

    def warn(self, text: str) -> None:
        """Hear a sentence to keep in mind beside the result."""
        warnings.warn(text, EcgfedWarning, stacklevel=_level_of_the_caller())


def _level_of_the_caller() -> int:
    """Return how far up the stack the line is that called the verb, however deep in the package the warning arose."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


#: Nobody looks on.
NOBODY = Watch()


def report_exclusions(counted: Iterable[Exclusions], watch: Watch) -> None:
    """Report what was excluded: a line for each kind, a warning with advice where it is more than ``WARN_SHARE``."""
    for one in counted:
        if one.warning:
            watch.warn(one.warning)
        elif one.line:
            watch.note(f"{one.line}.")


def telling(watch: Watch, what: str) -> Callable[[str, int, int], None]:
    """Return what to call with the name of the last one done, how many are, and of how many; 0 where nobody knows."""
    return lambda name, done, total: watch.progress(what, done, total or None, name)


def minutes_told(
    watch: Watch, what: str, recording: AnyRecording, *, before_s: float = 0.0, alone: bool = True
) -> Callable[[int], None] | None:
    """Return what to call with the samples of a long recording that are done; None for a short one, done in a moment.

    Args:
        watch: who is told.
        what: what is done, ``minutes read``.
        recording: the recording.
        before_s: seconds of the recordings before it.
        alone: it is the only one, and its minutes are all there are.
    """
    if not isinstance(recording, LongRecording):
        if recording.samples >= LONG:
            held = recording.signals_mv.nbytes / 1e6
            watch.note(f"{recording.name} is held whole: {held:,.0f} MB, and more while it is worked on.")
        return None
    total = round(recording.duration_s / 60) if alone else None
    return lambda done: watch.progress(what, round((before_s + done / recording.fs_hz) / 60), total, recording.name)
