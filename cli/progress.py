"""How far a command is: a bar on a terminal, a line now and then everywhere else."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from ecgfed.base.text import safe_text

#: Seconds between two lines where there is no terminal. What is done sooner than that says nothing of its progress.
EVERY_S = 30.0


def seconds(value: float) -> str:
    """Write a time: ``3.5 s``, ``2 min 05 s``."""
    return f"{value:.1f} s" if value < 120 else f"{int(value // 60)} min {int(value % 60):02d} s"


def _pace(per_s: float) -> str:
    """Write steps a second, or seconds a step where a step takes longer than one."""
    return f"{per_s:.1f}/s" if per_s >= 1 else f"{1 / per_s:.1f} s each"


class _Name(ProgressColumn):
    """What is counted, as plain text."""

    def render(self, task: Task) -> Text:
        return Text(safe_text(task.description))


class _LastItem(ProgressColumn):
    """A word about the last step, as plain text; cut where the line is full."""

    def render(self, task: Task) -> Text:
        return Text(safe_text(str(task.fields.get("about", ""))), no_wrap=True, overflow="ellipsis")


class _Rate(ProgressColumn):
    """How fast it goes; what the task says of it where it does."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if "rate" in task.fields or not speed:
            return Text(task.fields.get("rate", ""))
        return Text(_pace(speed))


class _TimeRemaining(TimeRemainingColumn):
    """The time left; what the task says of it where it does."""

    def render(self, task: Task) -> Text:
        remaining = task.fields.get("left_s")
        return (
            super().render(task) if remaining is None else Text(str(timedelta(seconds=round(remaining))), style="cyan")
        )


def bar_on(console: Console, *, silent: bool) -> Progress:
    """Return a bar for a terminal, gone when the work is done; a silent one shows nothing."""
    # where the line is too long, the bar and the word about the last step give way, numbers never
    columns = (
        _Name(table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        _Rate(table_column=Column(no_wrap=True)),
        _TimeRemaining(table_column=Column(no_wrap=True)),
        _LastItem(),
    )
    return Progress(*columns, console=console, disable=silent, transient=True)


class LineProgress(Progress):
    """A bar's interface (``add_task``, ``update``, ``advance``) that says a line now and then instead.

    A task that has said something says once more how long it took when the block ends well.

    Args:
        print_line: called with each line.
        clock: seconds, increasing.
        every_s: the least time between two lines of a task, and before its first; default ``EVERY_S``.
    """

    def __init__(
        self,
        print_line: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        every_s: float | None = None,
    ) -> None:
        super().__init__(disable=True, get_time=clock)
        self._say, self._clock = print_line, clock
        self._every_s = EVERY_S if every_s is None else every_s
        self._begun: dict[TaskID, tuple[float, float]] = {}
        self._said: dict[TaskID, float] = {}

    def add_task(
        self,
        description: str,
        start: bool = True,
        total: float | None = 100.0,
        completed: int = 0,
        visible: bool = True,
        **fields: object,
    ) -> TaskID:
        """Add a task; raises nothing."""
        task_id = super().add_task(description, start, total, completed, visible, **fields)
        self._begun[task_id] = (self._clock(), completed)
        return task_id

    def update(
        self,
        task_id: TaskID,
        *,
        total: float | None = None,
        completed: float | None = None,
        advance: float | None = None,
        description: str | None = None,
        visible: bool | None = None,
        refresh: bool = False,
        **fields: object,
    ) -> None:
        """Change a task as ``rich.progress.Progress.update`` does, and say a line when it is time for one."""
        super().update(
            task_id,
            total=total,
            completed=completed,
            advance=advance,
            description=description,
            visible=visible,
            refresh=refresh,
            **fields,
        )
        now, since = self._clock(), self._said.get(task_id, self._begun[task_id][0])
        if now - since >= self._every_s:
            self._said[task_id] = now
            self._say(self._line(self._tasks[task_id], now))

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Go on by some steps."""
        self.update(task_id, advance=advance)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say how long each task took that has said something, unless the block ends in an error."""
        super().__exit__(kind, problem, trace)
        if kind is None:
            for task_id in self._said:
                took = self._clock() - self._begun[task_id][0]
                self._say(f"{self._count(self._tasks[task_id])} in {seconds(took)}")

    def _count(self, task: Task) -> str:
        of = "" if task.total is None else f" of {task.total:,.0f}"
        return f"{task.description}: {task.completed:,.0f}{of}"

    def _line(self, task: Task, now: float) -> str:
        """Return ``records: 12 of 48, 1.5/s, 24.0 s left, 112``."""
        since, at_first = self._begun[task.id]
        completed, took = task.completed - at_first, now - since
        per_s = completed / took if completed > 0 and took > 0 else None
        rate = task.fields.get("rate") or (_pace(per_s) if per_s else "")
        remaining_s = task.fields.get("left_s")
        if remaining_s is None and per_s and task.total is not None:
            remaining_s = max(0.0, task.total - task.completed) / per_s
        remaining = "" if remaining_s is None else f"{seconds(remaining_s)} left"
        return ", ".join(
            part for part in (self._count(task), rate, remaining, str(task.fields.get("about", ""))) if part
        )
