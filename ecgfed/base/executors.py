"""Work in other processes, on this machine or others: any ``concurrent.futures.Executor``."""

import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import context, process
from typing import Any, TypeVar

from ecgfed.base.errors import OptionError

Result = TypeVar("Result")
#: Tasks submitted and not yet received: enough for a cluster, and memory does not grow with the number of all tasks.
AT_ONCE = 512


def in_order(
    executor: Executor,
    function: Callable[..., Result],
    arguments: Iterable[tuple[Any, ...]],
    at_once: int = AT_ONCE,
    parameters: Mapping[str, object] | None = None,
) -> Iterator[Result]:
    """Yield ``function(*each)`` for each tuple of arguments, in their order, computed by an executor.

    An executor that runs the tasks of a killed worker again, as dask's does, may call the function twice for the same
    arguments, so what it writes must be the same each time.

    Args:
        executor: any; it is not shut down.
        function: importable by the workers, as are its arguments.
        arguments: read as tasks are submitted.
        at_once: maximum number of tasks submitted and not yet yielded.
        parameters: the user's values among the arguments, by parameter.

    Raises:
        OptionError: one of ``parameters`` cannot be sent to a process.
        Exception: that of the first task which failed; tasks that have not begun are cancelled.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for each in arguments:
            waiting.append(executor.submit(function, *each))
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except Exception as problem:
        if "pickle" in f"{type(problem).__name__} {problem}".casefold():
            _check_picklable(parameters or {})
        raise
    finally:
        for future in waiting:
            future.cancel()


def _check_picklable(parameters: Mapping[str, object]) -> None:
    """Raise OptionError for the first parameter that ``pickle`` refuses, and so executors of processes do."""
    for name, value in parameters.items():
        try:
            pickle.dumps(value)
        except Exception as problem:  # PicklingError, AttributeError or TypeError, by the version of Python
            reason = f"cannot be sent to another process ({problem!s:.150})"
            expected = "a class or function at the top level of a file that workers can import, no lambda"
            raise OptionError(name, reason, expected) from problem


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


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of fresh processes: after a training, forked ones would inherit torch's threads."""
    return ProcessPoolExecutor(workers, mp_context=_Context())
