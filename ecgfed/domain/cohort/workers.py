"""Worker processes that read recordings."""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import context, process
from typing import Any


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide where the main module lies: a script without a guard would start itself anew in every worker."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


class _Worker(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: process.BaseProcess) -> Any:  # noqa: N802
        with _without_main():
            return context.SpawnProcess._Popen(process_obj)


class _Context(context.SpawnContext):
    Process = _Worker


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of fresh processes: a fork would inherit torch's threads where somebody prepares after training."""
    return ProcessPoolExecutor(workers, mp_context=_Context())
