"""One background thread that writes while the next round trains."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress


class BackgroundWriter:
    """Runs jobs one after the other on a thread of its own, at most one in flight."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Wait for the job before, then hand over the next; raises what the one before raised."""
        self.wait()
        self._pending = self._pool.submit(job)

    def wait(self) -> None:
        """Wait for the job in flight; raises what it raised."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait for the job in flight and end the thread; what the job raised is dropped."""
        with suppress(Exception):
            self.wait()
        self._pool.shutdown()
