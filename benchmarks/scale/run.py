"""Does memory grow with the clients, or with the participants of a round only?

    python benchmarks/scale/run.py --work DIR
    python benchmarks/scale/run.py --work DIR --per-round 50 --results per_round_50.json

and what checkpoints cost a small run of 46 clients and short rounds, every round, by default, and without any:

    python benchmarks/scale/run.py --work DIR --sizes 46 --per-round 46 --beats 256 --rounds 40 --results small.json
    ... --checkpoint-every 0 --results small_default.json
    ... --no-checkpoint --results small_none.json

Synthetic cohorts of 100, 1,000 and 10,000 clients of a few beats each (random windows: nothing is learned), their
windows memory-mapped from ``beats.npy``. GRP-FED with ``personal_start=0``: every participant keeps an extractor
and a discriminator of its own (about 350 kB), 5% of the clients a round unless ``--per-round`` says how many. A
process's memory is the question, so each size is a process; it runs the parts of ``ecgfed.train`` and not the verb,
which tells nobody its memory after every round. Checkpoint and history are written as the verb writes them.

Prints a table and writes ``results.json`` (or ``--results``). Memory is what Linux reports of the process: ``VmHWM``
(peak resident, mapped pages of the windows included) and ``RssAnon`` sampled every 20 ms (its own memory only).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, print_table, save

from ecgfed import open_cohort
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.plan import TrainPlan, available_cores
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods.grp_fed import GrpFed, GrpFedSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.core.runs.run import Run, create_run
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.cohort.writer import CohortWriter

SIZES = (100, 1000, 10_000)
BEATS, SHARE, ROUNDS = 32, 0.05, 6
MIB = 1 << 20
COLUMNS = (
    ("clients", "{clients:,}"),
    ("a round", "{participants:,}"),
    ("round, s", "{round_s:.2f}"),
    ("CPU, s", "{cpu_s:.2f}"),
    ("peak RSS, MiB", "{peak_mib:.0f}"),
    ("peak own, MiB", "{own_mib:.0f}"),
    ("over the start, MiB", "{over_start_mib:.0f}"),
    ("over round 1, MiB", "{over_first_mib:.0f}"),
    ("per participant, kiB", "{per_participant_kib:.0f}"),
    ("checkpoint, s CPU a round", "{writer_cpu_s:.3f}"),
    ("of all CPU", "{writer_share:.1%}"),
    ("on disk, MB", "{disk_mb:.0f}"),
    ("files", "{files:,}"),
    ("load, s", "{load_s:.3f}"),
)


def make_cohort(path: Path, clients: int, beats: int, seed: int = 0) -> None:
    """Write a cohort of random windows; every beat is a training beat."""
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    labels = BUILT_IN["mitbih12"]
    about = []
    with CohortWriter(path) as writer:
        for client in range(clients):
            writer.append(
                beats=rng.normal(0, 0.3, (beats, 1, 256)).astype(np.float32),
                rr=np.full((beats, 4), 0.8, np.float32),
                label=rng.integers(0, len(labels.classes), beats).astype(np.int16),
                client=np.full(beats, client, np.int32),
                record=np.full(beats, client, np.int32),
                sample=np.arange(beats, dtype=np.int64) * 300,
                split=np.zeros(beats, np.uint8),
                flags=np.zeros(beats, np.uint8),
            )
            name = f"c{client:05d}"
            about.append({"id": name, "patient": name, "records": [name], "holdout": False, "beats": beats})
        writer.finish({"kind": "scale", "label_map": labels.as_json(), "clients": about})


def memory() -> dict[str, int]:
    """Return the process's memory in bytes by the names of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}


class Sampler(threading.Thread):
    """Notes the largest ``RssAnon``; ``take`` returns it and begins anew."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, memory()["RssAnon"])
            time.sleep(0.02)

    def take(self) -> int:
        peak, self.peak = max(self.peak, memory()["RssAnon"]), 0
        return peak


class Watch(Callback):
    """Notes after every round the peak of the process's own memory, and the time by the clock and of the processor."""

    def __init__(self) -> None:
        self.sampler = Sampler()
        self.own: list[int] = []
        self.times: list[tuple[float, float]] = []

    def begin(self) -> None:
        """Note the first time, and sample from now on."""
        self.sampler.start()
        self.times.append((time.perf_counter(), time.process_time()))

    def note(self) -> None:
        """Note the peak since the last one, and the time."""
        self.own.append(self.sampler.take())
        self.times.append((time.perf_counter(), time.process_time()))

    def on_round(self, outcome: RoundOutcome) -> None:
        self.note()


def stored_in(run: Run) -> dict[str, Any]:
    """Return how large a run's checkpoint is, and how long it takes to load."""
    stored = list((run.path / "checkpoint").glob("*"))
    began = time.perf_counter()
    run.store.load()
    load = time.perf_counter() - began
    return {"disk_mb": sum(path.stat().st_size for path in stored) / 1e6, "files": len(stored), "load_s": load}


def measure(cohort_path: Path, rounds: int, per_round: int, every: int, checkpoint: bool) -> dict[str, Any]:
    """Train in this process and return its figures."""
    cohort, watch = open_cohort(cohort_path), Watch()
    data = training_data(cohort, rr=False)
    method = GrpFed(ResNet1d(NetSpec(len(cohort.classes))), GrpFedSettings(personal_start=0.0))
    plan = TrainPlan(rounds=rounds, local_epochs=1, clients_per_round=per_round)
    with tempfile.TemporaryDirectory(dir=cohort_path.parent) as folder:
        run = create_run(Path(folder) / "run", cohort, method, plan, {})
        saver = SaveCheckpoint(run.store, every or None)
        callbacks: list[Callback] = [WriteHistory(run.path), *([saver] if checkpoint else []), watch]
        start = memory()["RssAnon"]
        watch.begin()
        with ThreadEngine(data, plan, available_cores()) as engine:
            train(method, data, plan, engine, initial_state(method, plan), callbacks)
        watch.note()
        stored = stored_in(run) if checkpoint else {"disk_mb": 0.0, "files": 0, "load_s": 0.0}
    (began, cpu_began), (first, _), *_, (ended, cpu_ended) = watch.times  # the last one after the last round's
    over_start, cpu = max(watch.own) - start, cpu_ended - cpu_began
    return {
        "clients": len(cohort.clients),
        "participants": per_round,
        "rounds": rounds,
        "checkpoint_every": every,
        "checkpoint": checkpoint,
        "round_s": (ended - began) / rounds,
        "cpu_s": cpu / rounds,
        "first_round_s": first - began,
        "peak_mib": memory()["VmHWM"] / MIB,
        "own_mib": max(watch.own) / MIB,
        "start_mib": start / MIB,
        "over_start_mib": over_start / MIB,
        "own_by_round_mib": [peak / MIB for peak in watch.own],
        "over_first_mib": (max(watch.own) - watch.own[0]) / MIB,
        "per_participant_kib": over_start / per_round / 1024,
        "writer_cpu_s": saver.cpu_s / rounds,
        "writer_share": saver.cpu_s / cpu,
        **stored,
    }


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, required=True, help="where cohorts and runs may lie (about 5 GB)")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--beats", type=int, default=BEATS, help="beats of a client")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--per-round", type=int, help="participants; default 5%% of the clients")
    options.add_argument(
        "--checkpoint-every", type=int, default=1, help="0: as 'ecgfed train' by default, 2%% of the time"
    )
    options.add_argument("--results", type=Path, default=Path(__file__).with_name("results.json"))
    options.add_argument("--no-checkpoint", action="store_true", help="train without one, to compare")
    options.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return options


def main(options: argparse.Namespace) -> None:
    if options.one:
        figures = measure(
            options.one, options.rounds, options.per_round, options.checkpoint_every, not options.no_checkpoint
        )
        print(json.dumps(figures))
        return
    rows = []
    for size in options.sizes:
        cohort = options.work / f"scale-{size}-{options.beats}"
        if not cohort.is_dir():
            make_cohort(cohort, size, options.beats)
        per_round = options.per_round or max(1, round(size * SHARE))
        command = [
            sys.executable,
            __file__,
            "--work",
            options.work,
            "--one",
            cohort,
            "--rounds",
            options.rounds,
            "--per-round",
            per_round,
            "--checkpoint-every",
            options.checkpoint_every,
            *(["--no-checkpoint"] if options.no_checkpoint else []),
        ]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True, text=True)
        rows.append({"cores": len(os.sched_getaffinity(0)), "beats": options.beats, **json.loads(done.stdout)})
        print(json.dumps(rows[-1]), flush=True)
    save(options, {"rows": rows})
    print_table([name for name, _ in COLUMNS], ([form.format(**row) for _, form in COLUMNS] for row in rows))


if __name__ == "__main__":
    benchmark(main)
