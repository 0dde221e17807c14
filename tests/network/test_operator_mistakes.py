"""What happens to an operator: a clock that is set, a program that ends, a SuperLink that answers late."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from ecgfed.network import federate, last_answer
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import ALL_SITES
from ecgfed.tasks.progress import SILENT


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_is_no_silence(hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last_answer.note_answer(tmp_path)
    now = time.time() + 3600 * hours
    monkeypatch.setattr(time, "time", lambda: now)
    assert last_answer.server_gone(tmp_path) == ""
    assert 0 <= last_answer.seconds_since_answer(tmp_path) < 60


class Late:
    """A connection to a SuperLink that does not answer the first questions."""

    def __init__(self, late: int) -> None:
        self.late = late

    def online(self) -> set[int]:
        self.late -= 1
        if self.late >= 0:
            raise NetworkError("Flower", "does not answer")
        return {1}


def waited(control: Any, ended: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(federate, "WAIT_S", 0.0)
    return federate._wait_for_sites(control, {1: "a"}, ALL_SITES, SILENT, lambda: False, ended)


def test_a_server_waits_for_sites_though_its_superlink_answers_late(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(Late(3), lambda: "", monkeypatch)


def test_a_server_whose_program_ends_waits_for_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NetworkError, match="HAProxy ended"):
        waited(Late(10**9), lambda: "HAProxy", monkeypatch)
