"""Progress reporting: terminal, notebook, or none."""

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ecgfed.base.deprecation import REGISTER, Deprecated, EcgfedDeprecation
from ecgfed.base.language import message
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.record.reader import LONG
from ecgfed.domain.record.recording import Recording

_PACKAGE = __name__.partition(".")[0]


class EcgfedWarning(UserWarning):
    """A warning about a result."""


class ProgressReporter:
    """Receives progress, notes and warnings of a task. The base class ignores all but warnings.

    Override the methods of interest. ``warn`` issues a Python warning; the command line prints all three to stderr.
    """

    def update(
        self,
        what: str,
        completed: int,
        total: int | None,
        item: str = "",
        *,
        rate: str = "",
        remaining_s: float | None = None,
    ) -> None:
        """Receive the progress of a task.

        Args:
            what: what is counted: ``records``, ``patients``, ``rounds``.
            completed: number completed.
            total: number in total, or None if unknown.
            item: name or description of the last one.
            rate: speed as text, if the task measures it itself.
            remaining_s: estimated time left in seconds, likewise.
        """

    def note(self, text: str) -> None:
        """Receive a message."""

    def warn(self, text: str) -> None:
        """Receive a warning about the result."""
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            level, frame = level + 1, frame.f_back
        warnings.warn(text, EcgfedWarning, stacklevel=level)


_WATCH = Deprecated("ecgfed.Watch", "0.3", "0.5", "ecgfed.ProgressReporter and its method update")
REGISTER.append(_WATCH)


class Watch(ProgressReporter):
    """Deprecated since 0.3: use ``ProgressReporter``, whose ``update`` replaces ``progress``. It goes with 0.5."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        warnings.warn(str(_WATCH), EcgfedDeprecation, stacklevel=2)

    def __init__(self) -> None:
        warnings.warn(str(_WATCH), EcgfedDeprecation, stacklevel=2)

    def progress(
        self, what: str, done: int, total: int | None, about: str = "", *, rate: str = "", left_s: float | None = None
    ) -> None:
        """Receive the progress of a task; see ``ProgressReporter.update``."""

    def update(
        self,
        what: str,
        completed: int,
        total: int | None,
        item: str = "",
        *,
        rate: str = "",
        remaining_s: float | None = None,
    ) -> None:
        """Call ``progress``, which subclasses override."""
        self.progress(what, completed, total, item, rate=rate, left_s=remaining_s)


#: Reports warnings only.
SILENT = ProgressReporter()


class Messages(ProgressReporter):
    """Collects notes and warnings on a worker, to be reported where its task was submitted."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def note(self, text: str) -> None:
        """Collect a note."""
        self.texts.append(("note", text))

    def warn(self, text: str) -> None:
        """Collect a warning."""
        self.texts.append(("warn", text))

    def report(self, progress: ProgressReporter, prefix: str = "") -> None:
        """Report the collected notes and warnings in their order, each with a prefix."""
        for kind, text in self.texts:
            getattr(progress, kind)(f"{prefix}{text}" if prefix else text)  # text may be a Message


def report_exclusions(exclusions: Iterable[Exclusions], progress: ProgressReporter) -> None:
    """Report exclusions: one note for each kind, or a warning with advice above a share of ``WARN_SHARE``."""
    for entry in exclusions:
        if entry.warning:
            progress.warn(entry.warning)
        elif entry.line:
            progress.note(message("{sentence}.", sentence=entry.line))


def count_reporter(progress: ProgressReporter, what: str) -> Callable[[str, int, int], None]:
    """Return a callback ``(item, completed, total)`` that reports to ``progress``; a total of 0 means unknown."""
    return lambda item, completed, total: progress.update(what, completed, total or None, item)


def minutes_reporter(
    progress: ProgressReporter, what: str, recording: Recording, *, offset_s: float = 0.0, single: bool = True
) -> Callable[[int], None] | None:
    """Return a callback that takes the number of samples read and reports minutes; None for an in-memory recording.

    Notes the memory use of an in-memory recording of ``LONG`` samples or more.

    Args:
        progress: where to report.
        what: what is counted, ``minutes read``.
        offset_s: total duration of the recordings before it, in seconds.
        single: it is the only recording, so the total is its duration.
    """
    if not recording.is_lazy:
        if recording.samples >= LONG:
            size_mb = recording.signals_mv.nbytes / 1e6
            text = message(
                "{name} is held in memory: {size:,.0f} MB, and more during the analysis.",
                name=recording.name,
                size=size_mb,
            )
            progress.note(text)
        return None
    total = round(recording.duration_s / 60) if single else None
    name, fs_hz = recording.name, recording.fs_hz
    return lambda samples: progress.update(what, round((offset_s + samples / fs_hz) / 60), total, name)
