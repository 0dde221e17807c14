"""A round of FedAvg by ecgfed and by others, the same mathematics, one after the other again and again.

    python benchmarks/throughput/run.py --work DIR

Makes the peers' environments under DIR (blazefl's takes about 6 GB: PyPI's torch brings CUDA along), starts a worker
for each system, warms each up by a round, then goes round them while the others idle. Writes DIR/results.json.

A round of the loop is the question, not a verb, and the peers' workers run in environments without ecgfed: each system
is a process, the files here know each other by their bare names, and nothing of ``benchmarks/common.py`` is used.
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import processes
import task as t
from environments import ready
from make_task import make_task
from report import compare, summary, table, warnings
from systems import HERE, SYSTEMS, System, start


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for environments, data and logs")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each after its warm-up")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="ours always runs")
    parser.add_argument("--clients", type=int, default=t.CLIENTS, help="fewer for a trial")
    parser.add_argument("--beats", type=int, default=t.BEATS, help="beats of a client; fewer for a trial")
    parser.add_argument("--blazefl-python", help="Python 3.12 or newer for blazefl; looked for by default")
    parser.add_argument("--out", type=Path, help="results (default: DIR/results.json)")
    options = parser.parse_args()
    if options.rounds < 1 or options.clients < 2 or options.beats < 1:
        parser.error("rounds and beats from 1, clients from 2")
    options.work = options.work.resolve()
    return options


def commit() -> str:
    """Return the checkout's commit, marked where ecgfed differs from it."""

    def git(*what: str) -> str:
        return subprocess.run(["git", "-C", str(HERE), *what], capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--short", "--", ":/ecgfed") else "")


def measure(systems: list[System], rounds: int) -> None:
    """Warm-up and timed rounds, interleaved; who begins moves on by one each time."""
    for number in range(1, rounds + 2):
        shift = number % len(systems)
        for system in systems[shift:] + systems[:shift]:
            others = [other.process.pid for other in systems if other is not system]
            before = sum(map(processes.tree_cpu_seconds, others))
            system.do_round(number)
            system.rounds[-1]["idle_others_cpu_seconds"] = sum(map(processes.tree_cpu_seconds, others)) - before
            print(f"round {number} {system.name}: {system.rounds[-1]['seconds']:.2f} s", file=sys.stderr)


def main() -> None:
    options = arguments()
    names = [name for name in SYSTEMS if name == "ours" or name in options.only]
    pythons = {
        name: Path(sys.executable)
        if (where := SYSTEMS[name][2]) is None
        else ready(options.work / "environments", where, options.blazefl_python)
        for name in names
    }
    folder = options.work / f"task-{options.clients}x{options.beats}"
    make_task(folder, options.clients, options.beats, options.rounds + 1)
    with ExitStack() as running:
        systems = []
        for name in names:
            systems.append(start(name, pythons[name], folder, options.work))
            running.callback(systems[-1].stop)
        measure(systems, options.rounds)
    machine = processes.machine()
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": commit(),
        "machine": machine,
        "task": {**(t.described(folder) or {}), "batch": t.BATCH, "parameters": t.PARAMETERS},
        "tolerance": t.TOLERANCE,
        "systems": {
            system.name: {
                **summary(system, int(str(machine["cores"]))),
                **compare(system, systems[0], folder / t.INITIAL),
            }
            for system in systems
        },
    }
    results["warnings"] = warnings(results)
    out = options.out or options.work / "results.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    print("\n".join(results["warnings"]), file=sys.stderr)
    if not all(system["same_mathematics"] for system in results["systems"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
