"""blazefl: its FedAvg server and its FedAvg trainer in multi-threaded mode, two threads with one torch thread each."""

import sys
import threading
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import task as t
import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseServerHandler,
    FedAvgDownlinkPackage,
    FedAvgThreadPoolClientTrainer,
    FedAvgUplinkPackage,
)
from blazefl.core import deserialize_model, serialize_model
from net import net_with, train_client, weights_of
from torch import nn
from worker import Conversation, arguments, plain_batches

THREADS = 2
NAME = "reference"


class Select:
    """blazefl's ModelSelector: a fresh net for every client, as its trainers ask for."""

    def __init__(self, task: t.Task) -> None:
        self.task = task

    def select_model(self, model_name: str) -> nn.Module:
        """Return the reference net."""
        return net_with(self.task.initial)


class Beats:
    """blazefl's PartitionedDataset, as far as training asks for it: a client's batches in the task's order."""

    def __init__(self, task: t.Task) -> None:
        self.task, self.number = task, 0

    def get_dataloader(self, type_: str, cid: int, batch_size: int, generator: object) -> Iterable[Any]:
        """Return a client's batches of the current round."""
        return plain_batches(self.task, cid, self.number)


class Trainer(FedAvgThreadPoolClientTrainer):
    """blazefl's trainer, with momentum: its own ``train`` has none."""

    def train(
        self,
        model: nn.Module,
        model_parameters: torch.Tensor,
        train_loader: Iterable[Any],
        device: str,
        epochs: int,
        lr: float,
        stop_event: threading.Event,
        cid: int,
    ) -> FedAvgUplinkPackage:
        """Run one client's round."""
        deserialize_model(model, model_parameters)
        train_client(model, train_loader)
        return FedAvgUplinkPackage(cid, serialize_model(model), self.dataset.task.beats)


def do_round(handler: FedAvgBaseServerHandler, trainer: Trainer) -> None:
    """One round as blazefl's quickstart writes it."""
    chosen = handler.sample_clients()
    package: FedAvgDownlinkPackage = handler.downlink_package()
    trainer.local_process(package, chosen)
    for answer in trainer.uplink_package():
        handler.load(answer)


def main() -> None:
    folder, weights = arguments(__doc__ or "")
    task = t.open_task(folder)
    torch.set_num_threads(1)
    beats, common = Beats(task), {"model_name": NAME, "num_clients": task.clients, "device": "cpu", "seed": t.SEED}
    select = Select(task)
    handler = FedAvgBaseServerHandler(
        select, dataset=beats, global_round=len(task.orders), sample_ratio=1.0, batch_size=t.BATCH, **common
    )
    trainer = Trainer(
        select, dataset=beats, epochs=1, batch_size=t.BATCH, lr=t.LEARNING_RATE, num_parallels=THREADS, **common
    )
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    conversation = Conversation(weights, blazefl=version("blazefl"), workers=THREADS, gil=gil)
    while (number := conversation.wait()) is not None:
        beats.number = number
        do_round(handler, trainer)
        conversation.done(task.samples, weights_of(handler.model.state_dict()))


if __name__ == "__main__":
    main()
