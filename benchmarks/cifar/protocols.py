"""The papers' full CIFAR-10 protocols: their commands, and the hours that each takes on this machine.

    python benchmarks/cifar/protocols.py --source CIFAR --work DIR [--device cuda]

Nobody shall wait for days to learn how many they are: two rounds of each protocol are trained on part of the images (as
many clients a round, the same net, local epochs and batches), the second is timed, and its images a second are carried
on to what the whole protocol reads. Run it on the machine that shall train; nothing else should run beside it.
"""

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, prepared, print_table, save, short, trained

from ecgfed.core.runs.history import TIMING, read_lines

#: Training images of CIFAR-10, and the share that ``prepare`` keeps for validation.
IMAGES, VALID_SHARE = 50_000, 0.1
DIRICHLET: dict[str, Any] = {"partition": "dirichlet", "alpha": 0.3}


@dataclass(frozen=True)
class Protocol:
    """What a paper does on CIFAR-10.

    Attributes:
        methods: the paper's own first, then what it compares with and is here.
        train: options of ``ecgfed.train``, the settings of SGD apart.
        settings: those.
        clients: clients of the cohort.
        prepare: options of ``ecgfed.prepare_cifar10``.
        timed_images: how many images are enough to time a round.
    """

    methods: tuple[str, ...]
    train: dict[str, Any]
    settings: dict[str, float]
    clients: int
    prepare: dict[str, Any]
    timed_images: int = 10_000

    @property
    def reads(self) -> float:
        """Images that the clients read in all rounds, local epochs counted."""
        share = self.train.get("clients_per_round", self.clients) / self.clients
        return float(self.train["rounds"] * self.train["local_epochs"] * share * IMAGES * (1 - VALID_SHARE))

    def commands(self) -> tuple[str, str]:
        """The lines that prepare the cohort and train the paper's own method."""
        cohort = words({"source": "cifar10", "out": "cohort", **self.prepare})
        sets = " ".join(f"--set {name}={value:g}" for name, value in self.settings.items())
        run = words({**self.train, "out": "run"})
        return f"ecgfed prepare cifar10 {cohort}", f"ecgfed train cohort --method {self.methods[0]} {run} {sets}"


def words(options: dict[str, Any]) -> str:
    """Options as the command line writes them."""
    return " ".join(f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in options.items())


#: GRP-FED prints no number of rounds: 100, as Fed-RoD. FedABC prints lr 0.1: docs/cifar10.md says why it is 0.01 here.
PROTOCOLS = {
    "GRP-FED": Protocol(
        ("grp-fed-printed", "fedavg", "local", "q-ffl", "lg-fedavg"),
        {"net": "resnet30", "local_epochs": 5, "batch_size": 64, "rounds": 100},
        {"lr": 0.005},
        50,
        {"partition": "longtail"},
        timed_images=2_000,
    ),
    "Fed-RoD": Protocol(
        ("fed-rod", "fed-rod-hyper", "fedavg", "fedper", "ditto"),
        {"net": "convnet3", "local_epochs": 5, "batch_size": 40, "clients_per_round": 8, "rounds": 100},
        {"lr": 0.01, "weight_decay": 1e-5},
        20,
        DIRICHLET,
    ),
    "FedABC": Protocol(
        ("fedabc", "fedavg", "fed-rod", "ditto", "fedper"),
        {"net": "convnet2", "local_epochs": 5, "batch_size": 64, "clients_per_round": 10, "rounds": 200},
        {"lr": 0.01, "weight_decay": 1e-5},
        20,
        DIRICHLET,
    ),
}


def images_a_second(source: Path, work: Path, name: str, method: str, device: str) -> float:
    """Train two rounds of a method in a paper's protocol on part of the images; return the second one's rate."""
    protocol = PROTOCOLS[name]
    folder = work / f"{name}-{method}-{device}"
    cohort = prepared(source, work / name, verb="prepare_cifar10", limit=protocol.timed_images, **protocol.prepare)
    run = trained(
        cohort,
        folder,
        method=method,
        settings=protocol.settings,
        device=device,
        eval_every=0,
        **{**protocol.train, "rounds": 2},
    )
    last = read_lines(run.path / TIMING, run.plan.rounds)[-1]
    return float(last["examples"] / last["seconds"])


def main(given: argparse.Namespace) -> None:
    found: dict[str, Any] = {}
    for name, protocol in PROTOCOLS.items():
        rates = {
            method: images_a_second(given.source, given.work, name, method, given.device)
            for method in (protocol.methods[0], "fedavg")
        }
        found[name] = {
            method: {"images_per_s": round(rate, 1), "hours": round(protocol.reads / rate / 3600, 2)}
            for method, rate in rates.items()
        }
        print_table(
            ("protocol", "method", "images a second", "hours of a run"),
            [(name, method, short(row["images_per_s"]), short(row["hours"])) for method, row in found[name].items()],
        )
    save(given, {"protocols": found})


if __name__ == "__main__":
    benchmark(
        main,
        option("--device", default="cpu"),
        source="folder with CIFAR-10, or an official archive",
        results="hours.json",
    )
