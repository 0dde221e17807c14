"""A background thread that writes while the next round trains."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress


class BackgroundWriter:
    """Runs jobs sequentially on one thread, at most one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Wait for the previous job, then submit the next; re-raises errors of the previous one."""
        self.wait()
        self._pending = self._pool.submit(job)

    def wait(self) -> None:
        """Wait for the current job; re-raises its error."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait for the current job and stop the thread; errors are suppressed."""
        with suppress(Exception):
            self.wait()
        self._pool.shutdown()
