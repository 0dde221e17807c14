"""Flower's simulation: FedAvg strategy, Ray backend, two client actors of one CPU each."""

import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import flower_client
import task as t
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from net import net_with, weights_of
from worker import Conversation, arguments

ACTORS = 2


class OnCommand(FedAvg):
    """Flower's FedAvg, held before each round until it is asked for."""

    def __init__(self, conversation: Conversation, task: t.Task) -> None:
        super().__init__(
            fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=task.clients, min_available_nodes=task.clients
        )
        self.conversation, self.task = conversation, task

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Wait for the command, then as Flower does."""
        if self.conversation.wait() != server_round:
            raise NoMoreRoundsError
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate as Flower does, then answer."""
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None or metrics is None or abs(metrics["torch-threads"] - 1) > 1e-6:
            raise RuntimeError("a client failed or ran with more than one torch thread")
        self.conversation.done(self.task.samples, weights_of(arrays.to_torch_state_dict()))
        return arrays, metrics


class NoMoreRoundsError(Exception):
    """No round is asked for any more."""


def server_app(folder: Path, conversation: Conversation, task: t.Task) -> ServerApp:
    """Return the ServerApp that runs the strategy."""
    app = ServerApp()

    @app.main()
    def serve(grid: Grid, context: Context) -> None:
        start = ArrayRecord(net_with(task.initial).state_dict())
        config = ConfigRecord({"task": str(folder)})
        rounds = len(task.orders) + 1  # one more than there will be: closing down must not fall into another's round
        try:
            OnCommand(conversation, task).start(grid, start, num_rounds=rounds, train_config=config)
        except NoMoreRoundsError:
            return

    return app


def main() -> None:
    folder, weights = arguments(__doc__ or "")
    task = t.open_task(folder)
    conversation = Conversation(weights, flwr=version("flwr"), ray=version("ray"), workers=ACTORS)
    backend: dict[str, Any] = {
        "init_args": {"num_cpus": ACTORS, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    app = server_app(folder, conversation, task)
    run_simulation(app, flower_client.app, num_supernodes=task.clients, backend_config=backend)
    sys.exit(0)


if __name__ == "__main__":
    main()
