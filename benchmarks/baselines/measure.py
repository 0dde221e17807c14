"""Run a command and note its time and peak memory; shared by the benchmarks of this folder."""

import os
import subprocess
import sys
import time
from typing import Any


def measure(command: list[str]) -> dict[str, Any]:
    """Run a command to its end and return its output, wall seconds, CPU seconds and peak memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return {
        "output": output,
        "wall_s": round(time.perf_counter() - started, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }
