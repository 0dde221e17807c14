"""Settings as data: ranges, types, meanings, and names as people type them."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from ecgfed.base.errors import OptionError
from ecgfed.base.text import did_you_mean, same_name
from ecgfed.core.methods.fed_rod import GENERIC, FedRodSettings
from ecgfed.core.methods.grp_fed import GrpFedSettings
from ecgfed.core.methods.grp_fed_printed import PrintedSettings
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.losses import LossSettings
from ecgfed.core.methods.per_fedavg import PerFedAvgSettings
from ecgfed.core.methods.registry import method_by_name, methods
from ecgfed.core.methods.scaffold import ScaffoldSettings
from ecgfed.core.methods.settings import (
    Choice,
    Range,
    Settings,
    choice,
    make_settings,
    named_values,
    ranged,
    settings_of,
    stored_settings,
)


@dataclass(frozen=True)
class Own(Settings):
    """Somebody's own.

    Attributes:
        rate: how fast,
            and how far.
        times: how often.
        form: which.
        free: anything finite.
        limit: a number, or none.
        loud: whether.
    """

    rate: float = ranged(0.5, 0, 1)
    times: int = ranged(3, 1, 10)
    form: str = choice("round", ("round", "square-ish"))
    free: float = 1.0
    limit: float | None = ranged(2.0, 0, 9)
    loud: bool = False


@dataclass(frozen=True)
class Heir(Own):
    """Its heir.

    Attributes:
        times: how often in a row.
    """

    rate: float = 0.9


class WithoutOurs:
    """What somebody has who does not derive from ``Settings``."""

    @dataclass(frozen=True)
    class Plain:
        rate: float = ranged(0.5, 0, 1)


@pytest.mark.parametrize("kind", [Own, Heir])
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"rate": 1.01}, "settings rate: 1.01; expected 0 to 1"),
        ({"rate": float("nan")}, "settings rate: nan; expected 0 to 1"),
        ({"rate": float("inf")}, "settings rate: inf; expected 0 to 1"),
        ({"rate": True}, "settings rate: True; expected a number"),
        ({"rate": "fast"}, "settings rate: 'fast'; expected a number"),
        ({"times": 0}, "settings times: 0; expected 1 to 10"),
        ({"times": 2.5}, "settings times: 2.5; expected a whole number"),
        ({"times": False}, "settings times: False; expected a whole number"),
        (
            {"form": "squareish"},
            "settings form: 'squareish'; expected one of round, square-ish; did you mean square-ish?",
        ),
        ({"free": float("inf")}, "settings free: inf; expected a finite number"),
        ({"free": True}, "settings free: True; expected a number"),
        ({"limit": 10.0}, "settings limit: 10.0; expected 0 to 9"),
        ({"loud": 1}, "settings loud: 1; expected true or false"),
    ],
)
def test_a_wrong_value_is_refused_however_it_comes(kind: type[Own], values: dict[str, Any], told: str) -> None:
    for make in (lambda: kind(**values), lambda: make_settings(kind, values)):
        with pytest.raises(OptionError) as error:
            make()
        assert error.value.line == told


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
def test_text_that_is_no_finite_number_is_refused(value: str) -> None:
    for name in ("rate", "free", "limit", "times"):
        with pytest.raises(OptionError, match=f"settings {name}"):
            make_settings(Own, {name: value})
    with pytest.raises(OptionError, match="a whole number"):
        make_settings(Own, {"times": float(value)})


def test_text_and_toml_become_the_settings_type() -> None:
    made = make_settings(Own, {"rate": "0.25", "times": 4.0, "limit": "none", "loud": "True", "free": 7})
    assert made == Own(0.25, 4, "round", 7.0, None, True)
    assert isinstance(made.times, int)
    assert Own(rate=np.float32(0.5), times=np.int64(2)).times == 2  # type: ignore[arg-type]


def test_a_dataclass_without_our_base_is_checked_when_it_is_read() -> None:
    with pytest.raises(OptionError, match="0 to 1"):
        make_settings(WithoutOurs.Plain, {"rate": "2"})


def test_what_is_known_of_settings() -> None:
    known = {setting.name: setting for setting in settings_of(Heir)}
    assert list(known) == ["rate", "times", "form", "free", "limit", "loud"]
    assert (known["rate"].default, known["rate"].limits) == (0.9, Range(0, 1))  # another default, the same range
    assert known["rate"].meaning == "how fast, and how far."
    assert known["times"].meaning == "how often in a row."
    assert known["form"].limits == Choice(("round", "square-ish"))
    allowed = {name: setting.allowed for name, setting in known.items()}
    assert allowed == {
        "rate": "0 to 1",
        "times": "1 to 10",
        "form": "round, square-ish",
        "free": "a value of type float",
        "limit": "0 to 9 or none",
        "loud": "true, false",
    }


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_setting_of_a_method_has_a_range_and_a_meaning(name: str) -> None:
    kind = methods()[name].settings_type
    for setting in settings_of(kind):
        assert setting.limits is not None or setting.kind is bool, setting.name
        assert setting.meaning, setting.name
        setting.check(setting.default)
    assert make_settings(kind, {}) == kind()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SgdSettings, {"momentum": 0.99991}),
        (LossSettings, {"meta_beats": 0}),
        (GrpFedSettings, {"lr": 101}),  # a default of its own, the range of SgdSettings
        (PrintedSettings, {"gradient_penalty": -1}),
        (PerFedAvgSettings, {"delta": 0}),
        (methods()["q-ffl"].settings_type, {"lr": 0}),  # narrower than SgdSettings: 1 / lr is in the equation
        (methods()["fedabc"].settings_type, {"risk": "bsm"}),
        (methods()["fedfomo"].settings_type, {"candidates": True}),
    ],
)
def test_ranges_are_what_they_were(kind: type[Any], values: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(values))):
        kind(**values)


def test_settings_that_depend_on_each_other_are_checked_together() -> None:
    assert ScaffoldSettings(momentum=0.9, option="I").momentum == 0.9
    with pytest.raises(OptionError, match="plain SGD only"):
        ScaffoldSettings(momentum=0.9)


# ---- names


@pytest.mark.parametrize("asked", ["GRPFED", "grp_fed", "Grp-Fed", "grp-fed", "GRP_fed"])
def test_a_method_is_found_whatever_its_case_and_hyphens(asked: str) -> None:
    assert method_by_name(asked) is methods()["grp-fed"]


def test_no_two_methods_or_settings_have_the_same_plain_name() -> None:
    for names in (list(methods()), *([f.name for f in fields(kind.settings_type)] for kind in methods().values())):
        assert len({name.lower().replace("-", "").replace("_", "") for name in names}) == len(names)


@pytest.mark.parametrize(
    ("asked", "meant"), [("grpfde", "grp-fed"), ("FedAvgUniforms", "fedavg-uniform"), ("scafold", "scaffold")]
)
def test_a_near_miss_of_a_method_is_refused_with_a_guess(asked: str, meant: str) -> None:
    with pytest.raises(OptionError) as error:
        method_by_name(asked)
    assert error.value.line.endswith(f"did you mean {meant}?")
    assert f"'{asked}'; expected one of afl, afl-fedavg" in error.value.line


def test_a_name_like_no_other_is_refused_without_one() -> None:
    with pytest.raises(OptionError, match=r"or your own as FILE\.py:CLASS$"):
        method_by_name("xyzzy")
    assert did_you_mean("xyzzy", methods()) == ""


def test_a_setting_is_found_whatever_its_case_and_hyphens_and_the_last_one_counts() -> None:
    found = make_settings(GrpFedSettings, {"LR": "0.1", "Server-LR": "0.2", "keepvelocity": "false", "Q0": 2})
    assert (found.lr, found.server_lr, found.keep_velocity, found.q0) == (0.1, 0.2, False, 2.0)
    assert make_settings(SgdSettings, {"lr": 0.1, "LR": 0.3}).lr == 0.3
    with pytest.raises(
        OptionError, match=r"settings momentun: is no setting .* lr, momentum.* did you mean momentum\?$"
    ):
        make_settings(SgdSettings, {"momentun": 0.5})


def test_same_name_prefers_the_exact_one() -> None:
    assert same_name("b_c", ["bc", "b_c"]) == "b_c"
    assert same_name("BC", ["bd"]) is None


def test_pairs_are_read_and_wrong_ones_refused() -> None:
    assert named_values(["lr = 0.1", "a=b=c", "lr=2"]) == {"lr": "2", "a": "b=c"}
    for wrong in ("lr", "=1"):
        with pytest.raises(OptionError, match="NAME=VALUE"):
            named_values([wrong])


# ---- Fed-RoD: every setting of the method it wraps


@pytest.mark.parametrize("generic", sorted(GENERIC))
def test_fed_rods_generic_branch_gets_every_setting_of_its_method(generic: str) -> None:
    """Each setting of the generic method at another value than its default, through Fed-RoD into it."""
    kind = GENERIC[generic].settings_type
    other = {setting.name: _another(setting.default, setting.limits) for setting in settings_of(kind)}
    if generic == "scaffold":  # momentum goes with option I only
        other["option"] = "I"
    del other["label_smoothing"]  # goes with one risk only
    made = make_settings(FedRodSettings, {"generic": generic, **other}).generic_settings()
    assert made == kind(**other)
    assert all(getattr(made, name) != getattr(kind(), name) for name in other)


def _another(default: Any, limits: Range | Choice | None) -> Any:
    if isinstance(limits, Choice):
        return next(option for option in limits.options if option not in (default, "bsm"))
    assert isinstance(limits, Range)
    return type(default)((default + limits.low) / 2 if default > limits.low else limits.high / 2)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"mu": 0.5}, "settings mu: 0.5, which fedavg does not have"),
        ({"generic": "feddyn", "server_lr": 0.5}, "settings server_lr: 0.5, which feddyn does not have"),
        ({"generic": "fedprox", "alpha": 1.0}, "settings alpha: 1.0, which fedprox does not have"),
        ({"generic": "fedprox", "option": "I"}, "settings option: I, which fedprox does not have"),
    ],
)
def test_a_setting_that_the_generic_method_does_not_have_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError) as error:
        make_settings(FedRodSettings, values)
    assert error.value.line.startswith(told)


def test_what_version_0_1_stored_of_fed_rod_still_opens() -> None:
    """All of its settings then, with a mu that its generic branch had no use for."""
    stored = {
        **{"risk": "bsm", "gamma": 1.0, "meta_lr": 0.01, "meta_beats": 10, "lr": 0.005, "momentum": 0.9},
        **{"weight_decay": 0.0, "clip": 0.0, "generic": "fedavg", "mu": 0.3, "alpha": 0.01, "hidden": 32},
    }
    found = stored_settings(FedRodSettings, stored)
    assert (found.generic, found.hidden, found.mu) == ("fedavg", 32, 0.01)
    with pytest.raises(OptionError, match="mu"):
        make_settings(FedRodSettings, stored)
    assert stored_settings(FedRodSettings, {**stored, "generic": "fedprox"}).mu == 0.3
