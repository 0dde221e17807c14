"""CPU seconds and the machine, from /proc (Linux). Needs nothing but Python."""

import os
import platform
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> tuple[int, float] | None:
    """Return a process' parent and the CPU seconds of itself and of the children it has buried, or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it ended meanwhile
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), sum(int(value) for value in fields[11:15]) / TICKS


def tree_cpu_seconds(root: int | None = None) -> float:
    """Return the CPU seconds so far of a process (default: this one) and everything below it."""
    table = {int(pid): stat for pid in os.listdir("/proc") if pid.isdigit() and (stat := _stat(pid))}  # noqa: PTH208
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    total, waiting = 0.0, [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += table[pid][1] if pid in table else 0.0
        waiting += children.get(pid, [])
    return total


def machine_busy_seconds() -> float:
    """Return the seconds all cores together have been busy since the machine started."""
    user, nice, system, _, _, irq, soft = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    return sum(int(value) for value in (user, nice, system, irq, soft)) / TICKS


def machine() -> dict[str, object]:
    """Return the processor's name and the cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return {
        "cpu": fields.get("model name", platform.processor()).strip(),
        "family": fields.get("cpu family", "").strip(),
        "model": fields.get("model", "").strip(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
    }
