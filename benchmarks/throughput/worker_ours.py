"""ecgfed: FedAvg, ThreadEngine with two workers, the product's own loop over rounds."""

import sys

import task as t
import torch
from make_task import one_epoch, reference_net, training_data
from worker import Conversation, arguments

from ecgfed import __version__
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.server_sgd import PlainMeanSettings

WORKERS = 2


class OnCommand(Callback):
    """Holds the loop between rounds until the next one is asked for."""

    def __init__(self, conversation: Conversation, samples: int) -> None:
        self.conversation, self.samples = conversation, samples

    def on_start(self, state: State) -> None:
        """Wait for the first command."""
        self._wait()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Answer, then wait for the next command."""
        model = outcome.state.server["model"]
        self.conversation.done(self.samples, {name: value.numpy() for name, value in model.items()})
        self._wait()

    def _wait(self) -> None:
        if self.conversation.wait() is None:
            sys.exit(0)


def main() -> None:
    folder, weights = arguments(__doc__ or "")
    task = t.open_task(folder)
    plan = one_epoch(len(task.orders))
    method = FedAvg(reference_net(), PlainMeanSettings(lr=t.LEARNING_RATE, momentum=t.MOMENTUM))
    data = training_data(task.windows, task.label, task.clients, task.beats)
    torch.set_num_threads(1)  # as train does; here too so that the record shows it
    conversation = Conversation(weights, ecgfed=__version__, workers=WORKERS)
    with ThreadEngine(data, plan, WORKERS) as engine:
        train(method, data, plan, engine, initial_state(method, plan), [OnCommand(conversation, task.samples)])


if __name__ == "__main__":
    main()
