"""What a checkpoint costs with and without forcing it to the disk, and what share of a training checkpoints take.

    python benchmarks/faults/checkpoint_cost.py --work DIR --clients 0 46 1000 --repeats 15 --rounds 200

First: the state of GRP-FED's default net, the server's and that of so many clients, all of them changed, is written
again and again, once as it is done (every file, the history and the folders forced to the disk) and once with all
forcing left out, as before decision 0026; seconds of a clock and of the processor, medians. Then: a training on the
demo cohort (or ``--cohort``) with the default interval, with a checkpoint every round, and with one at its end; how
long each took, and what share of that its checkpoints took (in a thread beside it) and the training waited for them.
``--work`` decides which disk is asked. Prints one JSON object.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

import ecgfed
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Tree
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.runs.background_writer import BackgroundWriter
from ecgfed.core.runs.checkpoint import CheckpointStore, Snapshot


def write_again(folder: Path, clients: int, repeats: int) -> dict[str, float]:
    """Write checkpoints of a state of which every client has changed; return medians, s."""
    kind = method_by_name("grp-fed")
    method = kind(make_net(NetSpec(12)), kind.settings_type())
    first = method.net.initial(0)
    server, kept = method.server_start(first), method.client_start(first)
    wall, cpu = [], []
    with tempfile.TemporaryDirectory(dir=folder) as run:
        store, state = CheckpointStore(Path(run)), State(0, server)
        store.attach(state)
        for number in range(1, repeats + 2):
            trees: dict[int, tuple[int, Tree]] = {client: (number, dict(kept)) for client in range(clients)}
            begun, used = time.perf_counter(), time.process_time()
            store.write(Snapshot(number, trees, server, dict.fromkeys(trees, number)))
            wall.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
    return {"seconds": statistics.median(wall[1:]), "cpu_seconds": statistics.median(cpu[1:])}


def cost(folder: Path, clients: int, repeats: int) -> dict[str, Any]:
    """Return the cost with and without forcing to the disk."""
    synced = write_again(folder, clients, repeats)
    with mock.patch.multiple("ecgfed.base.fsync", fsync_file=mock.DEFAULT, fsync_folder=mock.DEFAULT):
        left_out = write_again(folder, clients, repeats)
    return {"clients": clients, "synced": synced, "not_synced": left_out}


def share(folder: Path, cohort: Path, rounds: int, every: int | None) -> dict[str, Any]:
    """Train, and return what checkpoints took and what the training waited for them."""
    written: list[float] = []
    waited: list[float] = []
    write, wait = CheckpointStore.write, BackgroundWriter.wait

    def timed_write(store: CheckpointStore, snapshot: Snapshot) -> None:
        begun = time.perf_counter()
        write(store, snapshot)
        written.append(time.perf_counter() - begun)

    def timed_wait(writer: BackgroundWriter) -> None:
        begun = time.perf_counter()
        wait(writer)
        waited.append(time.perf_counter() - begun)

    patches = (
        mock.patch.object(CheckpointStore, "write", timed_write),
        mock.patch.object(BackgroundWriter, "wait", timed_wait),
    )
    with tempfile.TemporaryDirectory(dir=folder) as place, patches[0], patches[1]:
        begun, used = time.perf_counter(), time.process_time()
        ecgfed.train(cohort, Path(place) / "run", method="grp-fed", rounds=rounds, eval_every=0, checkpoint_every=every)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    return {
        "checkpoint_every": every or "default",
        "rounds": rounds,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "checkpoints": len(written),
        "share_written": sum(written) / seconds,
        "share_waited": sum(waited) / seconds,
    }


def main(given: argparse.Namespace) -> None:
    given.work.mkdir(parents=True, exist_ok=True)
    cohort = given.cohort or given.work / "demo"
    if not cohort.is_dir():
        ecgfed.prepare_demo(cohort, minutes=2)
    results = {
        "cost": [cost(given.work, clients, given.repeats) for clients in given.clients],
        "share": [share(given.work, cohort, given.rounds, every) for every in (None, 1, given.rounds)],
    }
    print(json.dumps(results, indent=1))
    if given.results:
        common.save(given, results)


if __name__ == "__main__":
    common.benchmark(
        main,
        common.option("--work", type=Path, required=True, help="a folder on the disk in question"),
        common.option("--clients", type=int, nargs="+", default=[0, 46, 1000]),
        common.option("--repeats", type=int, default=15),
        common.option("--rounds", type=int, default=200),
        common.option("--cohort", type=Path),
        common.option("--results", type=Path, help="write the JSON there, too"),
        standard=False,
    )
