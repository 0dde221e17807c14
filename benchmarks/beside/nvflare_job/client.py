"""What NVFlare runs at a site: FedAvg's local training, one pass over the site's beats."""

import os
import time
from pathlib import Path

import numpy as np
import nvflare.client as flare
import torch
from net import Net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

flare.init()
folder = os.environ["BESIDE_DATA"]
data = np.load(f"{folder}/{flare.get_site_name()}.npz")
loader = DataLoader(TensorDataset(torch.tensor(data["x"]), torch.tensor(data["y"])), batch_size=32, shuffle=True)
net, loss_of = Net(), nn.CrossEntropyLoss()
while flare.is_running():
    received = flare.receive()
    net.load_state_dict(received.params)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for beats, labels in loader:
        optimizer.zero_grad()
        loss_of(net(beats), labels).backward()
        optimizer.step()
    flare.send(flare.FLModel(params=net.state_dict(), meta={"NUM_STEPS_CURRENT_ROUND": len(loader)}))
    with Path(f"{folder}/{flare.get_site_name()}.rounds").open("a") as file:
        file.write(f"{time.time()}\n")
