"""Flower's ClientApp, in a module of its own so that the Ray actors import it and keep the task open."""

from functools import cache
from pathlib import Path

import task as t
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from net import ReferenceNet, train_client
from worker import plain_batches

app = ClientApp()


@cache
def opened(folder: str) -> t.Task:
    """Open the task once a process."""
    torch.set_num_threads(1)
    return t.open_task(Path(folder))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's round, as Flower's PyTorch quickstart writes it."""
    config = message.content["config"]
    task = opened(str(config["task"]))
    net = ReferenceNet()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train_client(net, plain_batches(task, int(context.node_config["partition-id"]), int(config["server-round"])))
    metrics = MetricRecord({"num-examples": task.beats, "torch-threads": torch.get_num_threads()})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
