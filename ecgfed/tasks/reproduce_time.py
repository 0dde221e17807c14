"""Estimated hours of the papers' tables on this machine, from a short timing of each net."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from ecgfed.core.config import NETS, SCALES
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.engine_choice import choose_device, open_engine
from ecgfed.core.federation.estimate import step_arithmetic
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.plan import TrainPlan, worker_count
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name, methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import ModuleForm, Net, net_spec
from ecgfed.core.nets.net_source import net_source
from ecgfed.papers.table import Paper, Setting, Table
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.reproduce import PAPERS
from ecgfed.tasks.reproduce_run import PaperRun

#: Training examples of each data set; of MIT-BIH by record 72% of the beats.
TRAIN_EXAMPLES = {
    "mitbih": 75_600,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "emnist": 240_000,
}
#: Clients where the partition has no number of them: MIT-BIH by record.
RECORDS = 46
CLASSES = {"mitbih": 12, "cifar100": 100}
#: Batches of each client in a timed round.
BATCHES = 2
#: Timed rounds, of which the fastest counts.
ROUNDS = 4
#: Batch size at which arithmetic is counted: all methods' grows with the batch alike.
COUNTED = 2
#: A forward pass beside a gradient.
FORWARD = 1 / 3


@dataclass(frozen=True)
class Estimate:
    """What a group of columns of a table takes.

    Attributes:
        paper: the paper.
        table: the table.
        setting: its group of columns.
        rows: rows that this version can train.
        hours: scale -> training hours of these rows with one seed, and number of seeds.
    """

    paper: Paper
    table: Table
    setting: Setting
    rows: int
    hours: dict[str, tuple[float, int]]


def estimate_hours(
    device: str = "auto", workers: int | None = None, progress: ProgressReporter = SILENT
) -> Iterator[Estimate]:
    """Yield the tables with estimated training hours: a net's FedAvg steps are timed, other methods' are counted.

    Evaluation is not included. Nothing else should run on the machine meanwhile.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.
        workers: number of threads; default one per core.
        progress: receives progress.
    """
    timer = _Timer(choose_device(device), worker_count(workers))
    groups = [
        (paper, table, setting)
        for paper in PAPERS.values()
        for table in paper.tables.values()
        for setting in table.settings
    ]
    for done, (paper, table, setting) in enumerate(groups):
        progress.update("settings timed", done, len(groups), f"{paper.name}, table {table.number}")
        rows = [row for row in table.rows if row.cells(setting) and row.method in methods()]
        hours = {}
        for scale in SCALES:
            runs = [PaperRun(paper.name, table.ensemble, setting, row, scale, 0) for row in rows]
            hours[scale] = (sum(timer.hours(run) for run in runs), setting.protocol.at(scale).seeds)
        yield Estimate(paper, table, setting, len(rows), hours)
    progress.update("settings timed", len(groups), len(groups))


class _Timer:
    """Times each net once."""

    def __init__(self, device: str, workers: int) -> None:
        self.device, self.workers = device, workers
        self._seconds: dict[tuple[str, int, int], float] = {}
        self._arithmetic: dict[tuple[str, str, str], float] = {}

    def hours(self, run: PaperRun) -> float:
        """Return the training hours of a run: all examples read in its rounds, and its passes before rounds."""
        protocol, work, data = run.protocol, run.work(), run.setting.data
        clients = int(run.setting.partition.get("clients", RECORDS))
        share = (work["clients_per_round"] or clients) / clients
        epochs = int(work["rounds"] or 0) * share * (protocol.examples or TRAIN_EXAMPLES[data])
        reads = epochs * protocol.local_epochs * self._cost(run)
        if method_by_name(run.row.method).requirements.pre_round_metrics:
            reads += epochs * FORWARD
        return reads * self._seconds_an_example(run) / 3600

    def _cost(self, run: PaperRun) -> float:
        """Return the arithmetic of a method's step beside FedAvg's."""

        def counted(name: str, settings: dict[str, object]) -> float:
            key = (name, run.protocol.net, repr(settings))
            if key not in self._arithmetic:
                kind = method_by_name(name)
                method = kind(net_of(run), make_settings(kind.settings_type, settings))
                data, plan = drawn_data(method.net, 1, COUNTED), replace(plan_of(run, 1), batch_size=COUNTED)
                self._arithmetic[key] = float(np.mean(step_arithmetic(with_meta_set(method, data, 0), data, plan)))
            return self._arithmetic[key]

        return counted(run.row.method, dict(run.all_settings())) / counted("fedavg", {})

    def _seconds_an_example(self, run: PaperRun) -> float:
        """Return the seconds that FedAvg takes for an example: of some rounds on drawn examples, the fastest."""
        participants = run.protocol.clients_per_round or self.workers
        clients = participants if self.device == "cuda" else min(participants, self.workers)
        key = (run.protocol.net, run.protocol.batch_size, clients)
        if key not in self._seconds:
            kind = method_by_name("fedavg")
            method: Method = kind(net_of(run), make_settings(kind.settings_type, {}))
            data, plan = drawn_data(method.net, clients, run.protocol.batch_size), plan_of(run, ROUNDS)
            state, taken = initial_state(method, plan), list[float]()
            with open_engine(data, plan, device=self.device, workers=self.workers) as engine:
                for number in range(1, ROUNDS + 1):
                    start = time.perf_counter()
                    train(method, data, replace(plan, rounds=number), engine, state)
                    taken.append(time.perf_counter() - start)
            self._seconds[key] = min(taken) / int(data.train_examples.sum())
        return self._seconds[key]


def net_of(run: PaperRun) -> Net:
    """Return the run's net."""
    name, classes = run.protocol.net, CLASSES.get(run.setting.data, 10)
    modality = next((kind for kind, names in NETS.items() if name in names), "array")
    if modality != "array":
        return make_net(net_spec(classes, modality, architecture=name, rr=False))
    factory = run.net()
    assert not isinstance(factory, str)
    source = net_source(factory)
    shape = (3, 32, 32) if run.setting.data.startswith("cifar") else (1, 28, 28)
    form = ModuleForm("array", shape, "uint8", source.sha256)
    return make_net(net_spec(classes, modality, architecture=source.origin, module=form), source)


def plan_of(run: PaperRun, rounds: int) -> TrainPlan:
    """Return a plan of few rounds with one local epoch of the run's batches."""
    return TrainPlan(rounds=rounds, local_epochs=1, batch_size=run.protocol.batch_size)


def drawn_data(net: Net, clients: int, batch_size: int) -> TrainingData:
    """Return random examples, ``BATCHES`` batches for each client."""
    rng, each = np.random.default_rng(0), BATCHES * batch_size
    shape = (clients * each, *net.input_shape)
    bytes_ = net.input_type is torch.uint8
    examples = rng.integers(0, 256, shape, np.uint8) if bytes_ else rng.standard_normal(shape, np.float32)
    rows = {client: np.arange(client * each, (client + 1) * each) for client in range(clients)}
    label = rng.integers(0, net.spec.classes, shape[0])
    return TrainingData(
        np.arange(clients),
        rows,
        examples,
        None,
        label,
        net.spec.classes,
        {client: str(client) for client in rows},
        valid_rows=dict(rows),
    )
