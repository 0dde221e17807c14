"""What table 1 compares: each method's settings, its three trials, and what the paper found of those it has."""

from dataclasses import dataclass, field
from typing import Any

from common import BY_LOSS, SAME_SERVER

from ecgfed.core.methods.server_sgd import PLAIN_MEAN

Settings = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One method of the table.

    Attributes:
        method: its name in the registry.
        settings: what every trial has.
        trials: three choices of a learning rate and of one parameter of its own.
        work: what it costs to read a beat once, beside FedAvg's one gradient; GRP-FED's, whose local steps are in the
            last fifth of the rounds, as its seconds say (.36 a round, then .88; ``timing.jsonl`` of a trial).
        paper: T_g, T_p, T_r, T_l of the paper's table 1 on MIT-BIH.
    """

    method: str
    trials: tuple[Settings, Settings, Settings]
    work: float
    paper: tuple[float, float, float, float] | None = None
    settings: Settings = field(default_factory=dict)


#: AFL and q-FFL take losses over as many beats as a round trains on, forward only: a third of a gradient's work more.
SURVEYED: Settings = {**SAME_SERVER, "survey_beats": 64}
ROWS = {
    "Local": Row(
        "local", ({"lr": 0.02}, {"lr": 0.005}, {"lr": 0.02, "weight_decay": 1e-3}), 1, (0.075, 0.933, 0.076, 0.140)
    ),
    "FedAvg": Row(
        "fedavg",
        (SAME_SERVER, {**SAME_SERVER, "server_lr": 0.02}, {"lr": 0.02, "server_optimizer": "sgd"}),
        1,
        (0.334, 0.684, 0.334, 0.407),
        PLAIN_MEAN,
    ),
    "AFL": Row(
        "afl-fedavg",
        ({"lambda_lr": 0.01}, {"lambda_lr": 0.001}, {"lambda_lr": 0.001, "server_lr": 0.02}),
        4 / 3,
        (0.506, 0.606, 0.506, 0.503),
        SURVEYED,
    ),
    "q-FFL": Row(
        "q-ffl", ({"q": 1.0}, {"q": 1.0, "server_lr": 0.02}, {"q": 0.3}), 4 / 3, (0.551, 0.602, 0.551, 0.534), SURVEYED
    ),
    "per-FedAvg": Row(
        "per-fedavg",
        ({"alpha": 0.01}, {"alpha": 0.01, "server_lr": 0.02}, {"alpha": 0.001}),
        1,
        (0.378, 0.799, 0.310, 0.424),
        SAME_SERVER,
    ),
    "pFedMe": Row(
        "pfedme",
        (
            {"lr": 0.02, "personal_lr": 0.02},
            {"lr": 0.02, "personal_lr": 0.05},
            {"lr": 0.02, "personal_lr": 0.02, "lam": 30.0},
        ),
        3,
        (0.290, 0.850, 0.178, 0.288),
        {"inner_steps": 3, "lam": 15.0},
    ),
    "LG-FedAvg": Row(
        "lg-fedavg",
        ({"lr": 0.02}, {"lr": 0.005}, {"lr": 0.02, "warm_start": 0.8}),
        1,
        (0.343, 0.964, 0.169, 0.286),
        {"warm_start": 0.5},
    ),
    "GRP-FED": Row("grp-fed", ({}, {"server_lr": 0.02}, {"beta": 0.9}), 1.28, (0.569, 0.864, 0.424, 0.553)),
    "FedGate": Row("fed-gate", ({}, {"server_lr": 0.02}, BY_LOSS), 1),
}
#: From FedAvg's global model, without any federation of something personal.
PERSONAL = ("masked", "prior", "head", "kernel", "finetune", "probe", "gated")
#: As the paper prints them, R = 5 local epochs of SGD with 5e-3 and 0.9: its method, but for losses that are bounded;
#: and FedAvg beside it.
PRINTED: dict[str, tuple[str, Settings]] = {
    "GRP-FED, printed, bounded losses": (
        "grp-fed-printed",
        {"discriminator_loss": "bce", "regulariser": "non-saturating"},
    ),
    "FedAvg, printed": ("fedavg", {"lr": 5e-3, **PLAIN_MEAN}),
}

#: The methods of figure 3, and of figure 5.
CURVES = ("FedAvg", "AFL", "q-FFL", "GRP-FED")
CASES = ("FedAvg", "q-FFL", "LG-FedAvg", "pFedMe", "GRP-FED")
#: Of patients with several classes, the one nearest to everybody's mix of them and the farthest (figure 5 checks it).
NEAR, FAR = "223", "107"


def latest_stage(results: dict[str, Any]) -> str:
    """The stage that is drawn and set beside the paper: ``sixty``, 60 passes, where it has every row of ``passes``."""
    longer, rows = ({row["name"] for row in results.get(stage, ())} for stage in ("sixty", "passes"))
    return "sixty" if longer >= rows else "passes"
