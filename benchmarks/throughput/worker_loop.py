"""The plain loop: one process, a client after the other, nn.Module and torch.optim.SGD, two torch threads."""

import task as t
import torch
from net import net_with, train_client, weights_of
from worker import Conversation, arguments, plain_batches

THREADS = 2


def average(states: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return the mean of state dictionaries; clients are of one size here, so data shares are equal."""
    return {name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]}


def main() -> None:
    folder, weights = arguments(__doc__ or "")
    task = t.open_task(folder)
    torch.set_num_threads(THREADS)
    net = net_with(task.initial)
    server = {name: value.clone() for name, value in net.state_dict().items()}
    conversation = Conversation(weights)
    while (number := conversation.wait()) is not None:
        states = []
        for client in range(task.clients):
            net.load_state_dict(server)
            train_client(net, plain_batches(task, client, number))
            states.append({name: value.clone() for name, value in net.state_dict().items()})
        server = average(states)
        conversation.done(task.samples, weights_of(server))


if __name__ == "__main__":
    main()
