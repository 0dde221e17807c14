"""A method of one's own: FedAvg with the trimmed mean of Yin et al. (ICML 2018, arXiv 1803.01498).

    ecgfed train cohort --method examples/trimmed_mean.py:TrimmedMean --set trim=0.2 --out run

Every entry of the model is the mean of the clients' values without the smallest and the largest share of them, so that
a few broken recordings cannot pull it away.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from ecgfed.methods import CommunicationSpec, FedAvg, FederatedSgdSettings, Returned, Tree, ranged, server_step


@dataclass(frozen=True)
class TrimmedMeanSettings(FederatedSgdSettings):
    """Settings of the trimmed mean.

    Attributes:
        trim: share of the clients left out at either end (beta in the paper), below 1/2.
    """

    trim: float = ranged(0.1, 0, 0.49)


class TrimmedMean(FedAvg):
    """FedAvg that leaves the extremes out."""

    name: ClassVar[str] = "trimmed-mean"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication, title="Trimmed mean", reference="Yin et al., ICML 2018"
    )
    settings_type: ClassVar[type] = TrimmedMeanSettings

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        clients = len(returned.clients)
        out = int(self.settings.trim * clients)
        mean = {
            name: torch.sort(value, dim=0).values[out : clients - out].mean(0)
            for name, value in returned.tree["model"].items()
        }
        return server_step(server, mean, self.settings, returned.progress)
