"""GRP-FED as Algorithm 1 prints it (Chou et al. 2021, arXiv 2108.13858), without the departures of ``grp-fed``.

L_D is unbounded below, L_R saturates, q starts at 10 without a lower bound, and the server takes the weighted mean. It
does not learn on MIT-BIH (docs/grp-fed.md). Equations: ``ecgfed methods grp-fed``.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.grp_fed import GrpFed, GrpFedSettings
from ecgfed.core.methods.server_sgd import PlainMeanSettings


@dataclass(frozen=True)
class PrintedSettings(PlainMeanSettings, GrpFedSettings):
    """GRP-FED's settings with the paper's values as defaults (section 4.1 and Algorithm 1)."""

    lr: float = 5e-3
    beta: float = 0.5
    q0: float = 10.0
    q_floor: float = -1000.0
    loss_memory: float = 0.0
    gradient_penalty: float = 0.0
    personal_start: float = 0.0
    discriminator_loss: str = "printed"
    regulariser: str = "printed"


class GrpFedPrinted(GrpFed):
    """GRP-FED as Algorithm 1 prints it: unbounded L_D, saturating L_R, q0 = 10, plain aggregation."""

    name: ClassVar[str] = "grp-fed-printed"
    communication: ClassVar[CommunicationSpec] = replace(
        GrpFed.communication, title="GRP-FED as printed", reference="Chou et al., 2021, Algorithm 1"
    )
    settings_type: ClassVar[type] = PrintedSettings
