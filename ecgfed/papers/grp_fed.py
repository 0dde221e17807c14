"""GRP-FED (Chou, Hong, Sun, Cai, Song and Li): table 1, MIT-BIH and CIFAR-10."""

from dataclasses import replace

from ecgfed.papers.table import Paper, Protocol, Reduction, Row, Setting, Table

OPEN = (
    "the number of rounds: 100 here",
    "the number of seeds behind ±: five here",
    "normalisation layers: GroupNorm here",
)
#: q's step and start are those of the method's own settings.
MITBIH_PROTOCOL = Protocol(
    section="4.1",
    net="default",
    rounds=100,
    local_epochs=5,
    batch_size=64,
    sgd={"lr": 0.005, "momentum": 0.9},
    reduced=Reduction(rounds=20, local_epochs=5),
    seeds=5,
    left_open=(
        *OPEN,
        "the number of clients in a round: all 46 here",
        "the split: here 72% of a client's beats to train on and 20% to test, at random within each class",
    ),
)
CIFAR10_PROTOCOL = replace(
    MITBIH_PROTOCOL,
    net="resnet30",
    reduced=Reduction(rounds=50, local_epochs=2, examples=20_000),
    clients_per_round=10,
    left_open=(
        *OPEN,
        "the number of clients in a round: 10 of 50 here",
        "the blocks of the ResNet-30: 5, 5 and 4 of widths 16, 32 and 64 here",
    ),
)
MITBIH = Setting("MIT-BIH", "mitbih", MITBIH_PROTOCOL, {"by": "record"})
CIFAR10 = Setting("CIFAR-10", "cifar10", CIFAR10_PROTOCOL, {"kind": "longtail", "clients": 50, "rho": 0.7, "tau": 0.5})


def _printed(mitbih: str, cifar10: str) -> dict[str, str]:
    return {"mitbih MIT-BIH": mitbih, "cifar10 CIFAR-10": cifar10}


ROWS = (
    Row(
        "Local",
        "local",
        _printed("0.075±0.009 0.140±0.001 0.933±0.005 0.076±0.001", "0.214±0.022 0.290±0.005 0.396±0.009 0.235±0.003"),
    ),
    Row(
        "FedAvg",
        "fedavg",
        _printed("0.334±0.046 0.407±0.044 0.684±0.011 0.334±0.046", "0.462±0.006 0.482±0.004 0.518±0.001 0.462±0.006"),
    ),
    Row(
        "AFL",
        "afl-fedavg",
        _printed("0.506±0.018 0.503±0.023 0.606±0.042 0.506±0.018", "0.495±0.004 0.496±0.006 0.510±0.009 0.495±0.004"),
        settings={"lambda_lr": 0.1},
        note="AFL's step of the mixture: 0.1 here; five local epochs, where AFL's own paper has one step",
    ),
    Row(
        "q-FFL",
        "q-ffl",
        _printed("0.551±0.034 0.534±0.006 0.602±0.033 0.551±0.001", "0.563±0.003 0.530±0.007 0.510±0.009 0.563±0.003"),
        settings={"q": 10.0},
    ),
    Row(
        "per-FedAvg",
        "per-fedavg",
        _printed("0.378±0.030 0.424±0.022 0.799±0.004 0.310±0.024", "0.525±0.021 0.490±0.014 0.550±0.012 0.453±0.017"),
        settings={"alpha": 0.01},
        note="the inner step: 0.01 here, first order",
    ),
    Row(
        "pFedMe",
        "pfedme",
        _printed("0.290±0.011 0.288±0.012 0.850±0.006 0.178±0.001", "0.406±0.010 0.414±0.007 0.503±0.014 0.356±0.010"),
        settings={"lam": 15.0},
        note="lambda: 15 here, with five inner steps of 0.02",
    ),
    Row(
        "LG-FedAvg",
        "lg-fedavg",
        _printed("0.343±0.034 0.286±0.010 0.964±0.007 0.169±0.006", "0.503±0.025 0.499±0.015 0.676±0.017 0.403±0.014"),
        note="the share of FedAvg's rounds at its start: half here",
    ),
    Row(
        "GRP-FED",
        "grp-fed-printed",
        _printed("0.569±0.004 0.553±0.011 0.864±0.022 0.424±0.007", "0.578±0.001 0.552±0.010 0.611±0.010 0.516±0.007"),
        settings={"discriminator_loss": "bce", "regulariser": "non-saturating"},
        note="the discriminator's losses are bounded here: as printed they have no lower bound and do not stay finite",
    ),
)
PAPER = Paper(
    "grp-fed",
    "Chou et al., GRP-FED: Addressing Client Imbalance in Federated Learning via Global-Regularized Personalization",
    {
        1: Table(
            number=1,
            title="Macro-F1 in the global and the local test",
            columns={"Global Test": "T_g", "Local Test": "T_l", "Personalization": "T_p", "Generalization": "T_r"},
            settings=(MITBIH, CIFAR10),
            rows=ROWS,
            percent=False,
            ensemble="ensemble",
        )
    },
)
