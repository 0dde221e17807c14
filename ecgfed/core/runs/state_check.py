"""Check stored states against a run's method: leaf names, dtypes and shapes, before a hook uses them."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ecgfed.base.errors import RunError
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.structure import Mismatch, Structures, client_mismatch, server_mismatch, structures_of
from ecgfed.core.methods.base import Method, Tree

_AGAIN = "restore the file from a backup, or train again into a new folder"


@dataclass(frozen=True)
class StateCheck:
    """Compares the states of a run with the structure of its method's states.

    Attributes:
        method: the run's method.
        plan: its plan.
        at_sites: whether clients' states are stored at the sites, so that they are empty here.
        is_site: whether this is a site, which stores its last reply in place of the server's state.
    """

    method: Method
    plan: TrainPlan
    at_sites: bool = False
    is_site: bool = False

    @cached_property
    def _structures(self) -> Structures:
        return structures_of(self.method, self.plan)

    @property
    def stores(self) -> bool:
        """Whether clients store a state."""
        return any(self._structures.client)

    def server(self, state: Tree, participants: Collection[int], path: Path) -> None:
        """Refuse a server state from which the method cannot continue; raises RunError with the file ``path``."""
        if self.is_site:
            return
        _refuse(server_mismatch(self._structures, state, participants), "its server", path)
        for client in participants if self._structures.of_clients else ():
            try:
                self.method.server_message(state, client)
            except (KeyError, IndexError, ValueError, TypeError, RuntimeError) as problem:
                problem_text = f"of its server does not go together ({type(problem).__name__}: {problem!s:.100})"
                raise RunError(path, problem_text, "what its method sends each client", _AGAIN) from problem

    def client(self, state: Tree, path: Path, *, older: bool) -> None:
        """Refuse a client state from which the method cannot continue; raises RunError with the file ``path``.

        Args:
            older: whether version 0.1 or 0.2 wrote the file, with leaves that are no longer used.
        """
        if state or not (self.at_sites or self.is_site):  # at a site, a client may not have finished any round
            _refuse(client_mismatch(self._structures, state, more=older), "the client", path)


def _refuse(mismatch: Mismatch | None, owner: str, path: Path) -> None:
    if mismatch is not None:
        actual = f"{mismatch.leaf:.100} of {owner} is {mismatch.actual}"
        raise RunError(path, actual, f"{mismatch.expected}, as its method and net have it", _AGAIN)
