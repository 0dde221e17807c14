"""A site of FL4Health: FedAvg's local training, one pass over the site's beats."""

import sys
import time
from pathlib import Path

import flwr
import numpy as np
import torch
from fl4health.clients.basic_client import BasicClient
from net import Net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Client(BasicClient):
    """Train on the beats of one site."""

    def get_model(self, config):
        return Net()

    def get_optimizer(self, config):
        return torch.optim.SGD(self.model.parameters(), lr=0.01)

    def get_criterion(self, config):
        return nn.CrossEntropyLoss()

    def get_data_loaders(self, config):
        data = np.load(self.data_path)
        beats = TensorDataset(torch.tensor(data["x"]), torch.tensor(data["y"]))
        return DataLoader(beats, batch_size=32, shuffle=True), DataLoader(beats, batch_size=32)

    def fit(self, parameters, config):
        result = super().fit(parameters, config)
        with self.data_path.with_suffix(".rounds").open("a") as file:
            file.write(f"{time.time()}\n")
        return result


data, server, ca = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
client = Client(data, metrics=[], device=torch.device("cpu"))
flwr.client.start_client(server_address=server, client=client.to_client(), root_certificates=ca.read_bytes())
client.shutdown()
