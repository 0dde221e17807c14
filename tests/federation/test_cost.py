"""What a round costs: by hand, and the table of the methods' page against the measurement."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.cost import CLIENTS, Cost, cost_of, round_bytes
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.communication import summarize
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.layers import trainable
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import count_parameters, extractor_of, head_of
from ecgfed.core.nets.resnet1d import ResNet1d

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
#: Rows of the page's table: every method as it is, and settings that change what travels. Settings that are needed for
#: another one stand in brackets.
ROWS = [
    *sorted(methods()),
    "`fedavg` risk=meta-bsm",
    "`fedfomo` candidates=10",
    "`fed-rod` generic=scaffold (momentum=0)",
    "`mtl` relation=learned",
]
INITIAL = ResNet1d(NetSpec(12)).initial(0)
MODEL = 4 * count_parameters(INITIAL)


def parsed(row: str) -> tuple[str, dict[str, str]]:
    """The method and the settings of a row."""
    name, *pairs = re.sub(r"[`()]", "", row).split()
    return name, dict(pair.split("=") for pair in pairs)


@cache
def cost(row: str) -> Cost:
    """What is measured for a row of the table."""
    name, values = parsed(row)
    return cost_of(methods()[name], values, clients=12 if "candidates" in row else CLIENTS)


def line_of(row: str) -> str:
    """A row of the page's table."""
    found, shown = cost(row), row if row.startswith("`") else f"`{row}`"
    name, values = parsed(row)
    card = methods()[name].communication.with_settings(make_settings(methods()[name].settings_type, values))
    words = (summarize(card.down), summarize(card.up), summarize(card.stores))
    each = (found.first_down_bytes, found.first_up_bytes, found.down_bytes, found.up_bytes)
    numbers = [f"{value:,}" for value in each] + [f"{found.step_flops / 1e6:,.0f}"]
    return f"| {' | '.join([shown, *words, *numbers])} |"


def test_a_model_is_41_860_values() -> None:
    assert MODEL == 4 * 41_860
    assert (trainable(INITIAL).keys(), cost("local")) == (INITIAL.keys(), Cost(0, 0, 0, 0, cost("fedavg").step_flops))


@pytest.mark.parametrize(
    ("row", "first", "late"),
    [
        ("fedavg", (MODEL, MODEL), (MODEL, MODEL)),
        ("q-ffl", (MODEL, MODEL + 8), (MODEL, MODEL + 8)),  # its loss, a float64
        ("scaffold", (2 * MODEL, 2 * MODEL), (2 * MODEL, 2 * MODEL)),
        (
            "fedper",
            (4 * count_parameters(extractor_of(INITIAL)),) * 2,
            (4 * count_parameters(extractor_of(INITIAL)),) * 2,
        ),
        ("lg-fedavg", (MODEL, MODEL), (4 * count_parameters(head_of(INITIAL)),) * 2),  # after the warm start the head
        ("fedfomo", (0, MODEL + 5 * 8), (5 * MODEL, MODEL + 5 * 8)),  # the models it picked, and a number for each
        ("`fedfomo` candidates=10", (0, MODEL + 10 * 8), (10 * MODEL, MODEL + 10 * 8)),
        ("mtl", (MODEL, MODEL), (MODEL, MODEL)),  # the mean, the change
        ("`mtl` relation=learned", (MODEL, 2 * MODEL), (2 * MODEL + 8, 2 * MODEL)),
        # 10 validation beats of each of 12 classes: windows of 256 samples and a label
        ("`fedavg` risk=meta-bsm", (MODEL + 120 * (1024 + 8), MODEL), (MODEL + 120 * (1024 + 8), MODEL)),
        ("`fed-rod` generic=scaffold (momentum=0)", (2 * MODEL, 2 * MODEL), (2 * MODEL, 2 * MODEL)),
        ("grp-fed", (MODEL, MODEL + 8), (MODEL, MODEL + 8)),
    ],
)
def test_bytes_by_hand(row: str, first: tuple[int, int], late: tuple[int, int]) -> None:
    found = cost(row)
    assert (found.first_down_bytes, found.first_up_bytes) == first
    assert (found.down_bytes, found.up_bytes) == late


def test_arithmetic_by_hand() -> None:
    # convolutions and linear layers of a beat, multiplications and additions; T is 64, then 32, then 16
    stem, first = 2 * 7 * 24 * 64, 2 * 32 * (5 * 24 * 40 + 5 * 40 * 40 + 24 * 40)
    second, head = 2 * 16 * (3 * 40 * 64 + 3 * 64 * 64 + 40 * 64), 2 * (64 * 64 + 64 * 12)
    forward = 64 * (stem + first + second + head)
    backward = 2 * forward - 64 * stem  # no gradient by the windows
    assert cost("fedavg").step_flops == pytest.approx(forward + backward, rel=0.01)
    assert cost("ditto").step_flops == 2 * cost("fedavg").step_flops


@pytest.mark.slow
def test_bytes_do_not_depend_on_how_many_clients_there_are() -> None:
    for row in ("fedavg", "fedfomo", "mtl", "`mtl` relation=learned", "grp-fed"):
        name, values = parsed(row)
        assert cost_of(methods()[name], values, clients=46) == cost(row)


def test_a_runs_own_rounds_by_hand() -> None:
    """LG-FedAvg of 12 rounds with RR features and 3 classes: whole models in the warm start, then heads."""
    kind = methods()["lg-fedavg"]
    net = ResNet1d(NetSpec(3, rr=True, rr_version=2))
    initial = net.initial(0)
    method = kind(net, make_settings(kind.settings_type, {"warm_start": 0.5}))
    found = round_bytes(method, TrainPlan(12, 3, None, clients_per_round=2), 5)
    model, head = 4 * count_parameters(initial), 4 * count_parameters(head_of(initial))
    assert list(found) == [1, 2, 4, 6, 8, 10, 12]
    assert found[1] == (model, model)
    assert found[12] == (head, head)
    assert set(found.values()) == {(model, model), (model, head), (head, head)} & set(found.values())


def test_settings_the_method_does_not_have_are_refused() -> None:
    values: dict[str, Any] = {"candidates": 3}
    with pytest.raises(OptionError, match="candidates"):
        cost_of(methods()["fedavg"], values)


def test_the_table_of_the_page_is_what_is_measured() -> None:
    """``ECGFED_RECORD=1 pytest tests/federation/test_cost.py`` writes it anew."""
    head, start, rest = PAGE.read_text().partition("| method | the server sends |")
    title, rule, *lines = (start + rest).splitlines()
    found = lines[: lines.index("")]
    wanted = [line_of(row) for row in ROWS]
    if os.environ.get("ECGFED_RECORD"):
        PAGE.write_text("\n".join([head + title, rule, *wanted, *lines[lines.index("") :]]) + "\n")
        pytest.skip("recorded anew")
    assert found == wanted
