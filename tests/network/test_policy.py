"""``--min-sites``, ``--wait`` and what a site may claim: what can be, and what is written down."""

from pathlib import Path

import pytest
from needs import flower

flower()

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Requirements
from ecgfed.network.policy import ALL_SITES, Policy, read_policy, write_policy


@pytest.mark.parametrize(
    ("least", "wait", "found"),
    [
        (0, None, "min_sites: 0"),
        (4, None, "min_sites: 4; expected at most 3"),
        (2, -1.0, "wait_s: -1.0"),
        (2, float("nan"), "wait_s: nan"),
        (None, 5.0, "wait_s: was given without min_sites"),
    ],
)
def test_policies_that_cannot_be(least: int | None, wait: float | None, found: str) -> None:
    with pytest.raises(OptionError) as caught:
        Policy(least, wait).check(3, Requirements())
    assert caught.value.line.startswith(found)


def test_a_policy_on_the_disk(tmp_path: Path) -> None:
    assert read_policy(tmp_path) == ALL_SITES
    for policy in (Policy(2), Policy(2, 30.0), Policy(2, 30.0, 7, 8), ALL_SITES):
        write_policy(tmp_path, policy)
        assert read_policy(tmp_path) == policy
    assert (Policy(2).needed(3), Policy(2).needed(1), ALL_SITES.needed(3)) == (2, 1, 3)
