"""State of a training run between two rounds."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from ecgfed.core.methods.base import Tree


@dataclass
class State:
    """State of a run after a round.

    Attributes:
        round: finished rounds.
        server: the server's state.
        client_states: client number -> its state; clients that never took part are absent. In a run with checkpoints,
            a ``ClientStates``, which reads a client's file on access.
        beats_used: client number -> number of beats used so far.
    """

    round: int
    server: Tree
    client_states: MutableMapping[int, Tree] = field(default_factory=dict)
    beats_used: dict[int, int] = field(default_factory=dict)
