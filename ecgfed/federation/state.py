"""Where a training stands between two rounds."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from ecgfed.methods.base import Tree


@dataclass
class State:
    """A run after some round.

    Attributes:
        round: finished rounds.
        server: the server's state.
        kept: client number -> what it keeps; clients that never took part are absent. In a run with checkpoints a
            ``KeptStates``, which reads a client's file when it is asked for.
        seen: client number -> beats used so far.
    """

    round: int
    server: Tree
    kept: MutableMapping[int, Tree] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
