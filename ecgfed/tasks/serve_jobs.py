"""Jobs of ``serve``: one at a time, in a thread of their own, with their progress."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from ecgfed.base.errors import EcgfedError
from ecgfed.base.language import message, tr_later
from ecgfed.base.platform import is_out_of_memory
from ecgfed.tasks.local_server import RefusedError
from ecgfed.tasks.page_errors import line_of
from ecgfed.tasks.progress import ProgressReporter

#: Seconds that the end of the server waits for a job to stop; files are written whole in any case.
_STOP_S = 5.0
#: Jobs that are remembered after their end.
_REMEMBERED = 200
#: What the tasks of jobs count, as they report it.
_COUNTED = (tr_later("minutes read"), tr_later("beats"), tr_later("checks"))


class _StoppedError(Exception):
    """The server ends, and the job with it."""


@dataclass
class Job:
    """A job.

    Attributes:
        id: its number.
        recording: the recording's id.
        what: ``report``, ``label``, ...
        state: ``waiting``, ``running``, ``done``, ``failed`` or ``stopped``.
        lines: notes and warnings.
        problem: why it failed.
        progress: what is counted, completed, total, rate and the time left in seconds.
        result: what the job returned.
        began: when it began (``time.monotonic``), or None.
        took_s: how long it took, once it has ended.
    """

    id: int
    recording: str
    what: str
    work: Callable[[ProgressReporter], dict[str, Any]]
    state: str = "waiting"
    lines: list[str] = field(default_factory=list)
    problem: str = ""
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    began: float | None = None
    took_s: float | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it runs or waits."""
        return self.state in ("waiting", "running")

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        names = ("id", "recording", "what", "state", "lines", "problem", "progress", "result")
        so_far = 0.0 if self.began is None else time.monotonic() - self.began
        return {name: getattr(self, name) for name in names} | {"seconds": round(self.took_s or so_far, 1)}


class _Reporter(ProgressReporter):
    """Receives the progress of a job; ends the job when the server ends."""

    def __init__(self, job: Job, stopping: threading.Event) -> None:
        self._job, self._stopping = job, stopping
        self._what, self._since, self._first = "", time.monotonic(), 0

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
        """Receive progress, and work out its rate and the time left where the task does not state them."""
        self._check()
        now = time.monotonic()
        if what != self._what:
            self._what, self._since, self._first = what, now, completed
        done, took = completed - self._first, now - self._since
        per_s = done / took if done > 0 and took > 0 else 0.0
        if not rate and per_s:
            rate = message("{n:.1f}/s", n=per_s) if per_s >= 1 else message("{seconds:.1f} s each", seconds=1 / per_s)
        if remaining_s is None and per_s and total is not None:
            remaining_s = max(0, total - completed) / per_s
        left = None if remaining_s is None else round(remaining_s, 1)
        self._job.progress = {
            "what": what, "completed": completed, "total": total, "item": item, "rate": rate, "left_s": left,
        }  # fmt: skip

    def note(self, text: str) -> None:
        """Receive a message."""
        self._check()
        self._job.lines.append(text)

    def warn(self, text: str) -> None:
        """Receive a warning."""
        self.note(message("Warning: {text}", text=text))

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _StoppedError


class Jobs:
    """Runs jobs one after another."""

    def __init__(self) -> None:
        self._all: list[Job] = []
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        with self._changed:
            return any(job.is_pending for job in self._all)

    def check_none_pending(self, recording: str) -> None:
        """Raise RefusedError where a job of a recording runs or waits."""
        with self._changed:
            if any(job.recording == recording and job.is_pending for job in self._all):
                raise RefusedError(HTTPStatus.CONFLICT, message("a job of this recording runs; wait for its end"))

    def add(self, recording: str, what: str, work: Callable[[ProgressReporter], dict[str, Any]]) -> Job:
        """Add a job; raises RefusedError where one of this recording is pending, or the program ends."""
        with self._changed:
            self.check_none_pending(recording)
            if self._stopping.is_set():
                raise RefusedError(HTTPStatus.CONFLICT, message("the program ends"))
            job = Job(self._all[-1].id + 1 if self._all else 1, recording, what, work)
            self._all = [old for old in self._all[:-_REMEMBERED] if old.is_pending] + self._all[-_REMEMBERED:] + [job]
            self._waiting.append(job)
            self._changed.notify()
        return job

    def to_list(self) -> list[dict[str, Any]]:
        """Return all jobs JSON-ready, in order."""
        with self._changed:
            return [job.to_dict() for job in self._all]

    def close(self) -> None:
        """End: no further job is begun, and the running one ends at its next report of progress."""
        with self._changed:
            self._stopping.set()
            for job in self._waiting:
                job.state = "stopped"
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._stopping.is_set():
                    self._changed.wait()
                if self._stopping.is_set():
                    return
                job = self._waiting.popleft()
                job.state, job.began = "running", time.monotonic()
            _do(job, _Reporter(job, self._stopping))
            job.took_s = time.monotonic() - job.began


def _do(job: Job, reporter: _Reporter) -> None:
    """Do a job; the page shows why one failed, and the other jobs go on."""
    try:
        job.result = job.work(reporter)
        job.state = "done"
    except _StoppedError:
        job.state = "stopped"
    except EcgfedError as problem:
        job.problem, job.state = line_of(problem), "failed"
    except Exception as problem:
        traceback.print_exc()  # in the terminal; the page has a line
        error = f"{type(problem).__name__}: {problem!s:.200}"
        if is_out_of_memory(problem):
            job.problem = message("not enough memory for this ({error})", error=error)
        else:
            job.problem = message("an internal error of ecgfed ({error})", error=error)
        job.state = "failed"
