"""The systems that are compared, each a worker process that stays."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import processes

HERE = Path(__file__).resolve().parent
#: name -> (title, worker, environment; None is ours).
SYSTEMS = {
    "ours": ("ecgfed, 2 worker threads", "worker_ours.py", None),
    "loop": ("plain loop, 2 torch threads", "worker_loop.py", None),
    "control": ("the same loop in blazefl's environment", "worker_loop.py", "blazefl"),
    "blazefl": ("blazefl, 2 threads", "worker_blazefl.py", "blazefl"),
    "flower": ("Flower simulation, 2 Ray actors", "worker_flower.py", "flower"),
}
#: Nothing is reported home.
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
PATIENCE_S = 60


@dataclass
class System:
    """A running worker.

    Attributes:
        name: which.
        process: the worker.
        weights: folder with its weights after each round.
        log: its stderr.
        facts: what it runs on.
        rounds: its answers, the warm-up first.
    """

    name: str
    process: subprocess.Popen[str]
    weights: Path
    log: Path
    facts: dict[str, Any] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def listen(self) -> dict[str, Any]:
        """Return the worker's next line; ends the benchmark where it has died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            sys.exit(f"{self.name} ended early; {self.log} closes with\n{tail}")
        return json.loads(line)

    def do_round(self, number: int) -> None:
        """Ask for a round and keep the answer, with the CPU seconds that others took meanwhile."""
        assert self.process.stdin is not None
        busy = processes.machine_busy_seconds()
        self.process.stdin.write(f"round {number}\n")
        self.process.stdin.flush()
        answer = self.listen()
        answer["foreign_cpu_seconds"] = max(0.0, processes.machine_busy_seconds() - busy - answer["cpu_seconds"])
        self.rounds.append(answer)

    def stop(self) -> None:
        """End the worker: first by the end of its input, then by its process group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(PATIENCE_S)


def start(name: str, python: Path, task: Path, work: Path) -> System:
    """Start a system's worker and wait until it is ready."""
    weights, log = work / "weights" / name, work / "logs" / f"{name}.log"
    weights.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    for old in weights.glob("*.npz"):
        old.unlink()
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(python), str(HERE / SYSTEMS[name][1]), str(task), str(weights)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)},
        )
    system = System(name, process, weights, log)
    system.facts = system.listen()
    return system
