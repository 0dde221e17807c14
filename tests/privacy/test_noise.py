"""Clipping by hand; noise of the size it says, from a secret alone."""

import math
from pathlib import Path

import pytest
import torch

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.privacy.noise import clipped, gaussian
from ecgfed.tasks.train import train

SECRET = b"s" * 32


def test_clipping_by_hand() -> None:
    changes = {"a": torch.tensor([[3.0], [0.3], [0.0]]), "b": torch.tensor([[4.0], [0.4], [0.0]])}
    found = clipped(changes, 1.0)
    assert found["a"].flatten().tolist() == pytest.approx([0.6, 0.3, 0.0])
    assert found["b"].flatten().tolist() == pytest.approx([0.8, 0.4, 0.0])


def test_noise_has_the_deviation_asked_for_and_no_pattern() -> None:
    like = {"w": torch.zeros(200, 500), "b": torch.zeros(3)}
    one, two = (gaussian(like, 0.25, SECRET, number)["w"] for number in (1, 2))
    n = one.numel()
    assert abs(float(one.mean())) < 5 * 0.25 / math.sqrt(n)
    assert float(one.std()) == pytest.approx(0.25, rel=5 / math.sqrt(2 * n))
    assert abs(float((one * two).mean())) < 5 * 0.25**2 / math.sqrt(n)
    assert abs(float((one[:, 1:] * one[:, :-1]).mean())) < 5 * 0.25**2 / math.sqrt(n)


def test_the_same_secret_and_words_draw_the_same_and_others_do_not() -> None:
    like = {"w": torch.zeros(4), "b": torch.zeros(())}
    first = gaussian(like, 1.0, SECRET, 3, "server")
    again = gaussian(dict(reversed(like.items())), 1.0, SECRET, 3, "server")
    assert all(torch.equal(first[name], again[name]) for name in like)
    for other in (
        gaussian(like, 1.0, b"t" * 32, 3, "server"),
        gaussian(like, 1.0, SECRET, 4, "server"),
        gaussian(like, 1.0, SECRET, 3, "patient", 7),
    ):
        assert not torch.equal(first["w"], other["w"])
    with pytest.raises(ValueError, match="secret"):
        gaussian(like, 1.0, b"", 3)


@pytest.mark.parametrize(
    ("how", "option"),
    [
        ({"dp_noise": 1.0}, "dp_noise"),
        ({"dp_at": "site"}, "dp_at"),
        ({"dp_clip": -1.0}, "dp_clip"),
        ({"dp_clip": math.nan}, "dp_clip"),
        ({"dp_clip": math.inf}, "dp_clip"),
        ({"dp_clip": 1.0, "dp_noise": "2"}, "dp_noise"),
        ({"dp_clip": True}, "dp_clip"),
        ({"dp_clip": 1.0, "dp_at": "client"}, "dp_at"),
    ],
)
def test_what_cannot_be_is_refused(how: dict[str, object], option: str) -> None:
    with pytest.raises(OptionError, match=f"^{option}: "):
        TrainPlan(**how)  # type: ignore[arg-type]


def test_the_clip_may_come_from_the_run_that_is_resumed(tmp_path: Path) -> None:
    """A part of the options is judged with the rest of the plan, wherever that comes from."""
    given = {"method": "fedavg", "local_steps": 1, "dp_clip": 0.5, "dp_noise": 1.0}
    (tmp_path / "c.toml").write_text('dp_clip = 0.5\nmethod = "fedavg"\nlocal_steps = 1\n')
    cohort = Path(__file__).parents[1] / "data" / "version-0.2" / "cohort"
    train(cohort, tmp_path / "run", rounds=1, **given)  # type: ignore[arg-type]
    assert train(cohort, tmp_path / "run", rounds=2, dp_noise=1.0, resume=True).plan.rounds == 2
    filed = train(cohort, tmp_path / "filed", rounds=1, dp_noise=1.0, config=tmp_path / "c.toml")
    assert (filed.plan.dp_clip, filed.plan.dp_noise) == (0.5, 1.0)
