"""What a verb costs: it is called in a new process, so that its time and peak memory are its own."""

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any


def measured(work: Callable[..., Any], *arguments: Any) -> tuple[Any, dict[str, float]]:
    """Call a module's function in a new process, the process's start and imports included.

    Returns:
        What it returned, and ``wall_s``, ``cpu_s``, ``peak_mb``.
    """
    started = time.perf_counter()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        result, cost = process.submit(_called, work, arguments).result()
    return result, {"wall_s": round(time.perf_counter() - started, 2), **cost}


def _called(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, dict[str, float]]:
    result = work(*arguments)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # VmHWM, not ru_maxrss: the latter begins at what the parent had when it started this process
    status = Path("/proc/self/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return result, {"cpu_s": round(usage.ru_utime + usage.ru_stime, 2), "peak_mb": round(int(peak) / 1024)}
