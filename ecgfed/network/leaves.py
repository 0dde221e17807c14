"""What travels between a site and the server: every leaf of every message by name, and the check that holds it.

A site looks before it sends: a leaf of the method's tree, or a loss, that the method's card does not name stays where
it is, and the server is told ``card``. What goes beside the trees is the constants of this file and nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ecgfed.federation.communication_audit import entry_of
from ecgfed.federation.trees import flatten
from ecgfed.methods.base import Method, Tree
from ecgfed.methods.card import BESIDE
from ecgfed.network.errors import SiteError
from ecgfed.network.expected import Form
from ecgfed.network.transport import PLAIN, packed

#: Beside the trees of a round, up: fields of the message -> what they are.
ROUND_UP = {
    "run": "the run's SHA-256, as it came down",
    "round": "number of the round, as it came down",
    "clients": BESIDE["clients"],
    "examples": "how many beats it used in this round",
}
#: A SHA-256 as text.
_RUN = torch.zeros(64, dtype=torch.uint8)
#: With ``--transport`` other than ``plain``: up, of every leaf that was made smaller.
SCALE = "the largest change in it"
#: What a site says when the server asks who it is.
HELLO_UP = {
    "protocol": "version of the messages",
    "patients": "how many patients its cohort has, held-out ones too",
    "clients": "places of the patients that take part, 0 and on, in an order the site chose",
    "train_examples": BESIDE["train_examples"],
    "modality": "ECG beats or images",
    "classes": "names of the classes",
    "rr_version": "version of its RR features",
}
#: What a site says when the run is over, of its test beats, or on the way, of its validation beats; one that bounds
#: what may be learned of a patient (``--most-epsilon``) says no more than how many patients.
END_UP = {
    "patients": "how many of its patients were scored",
    "T_g": "the global answer on the beats of all its patients together, macro-F1",
    "T_p": "each patient's own answer on that patient's beats, macro-F1, mean",
}
#: What the server says beside the leaves of the end.
END_DOWN = {"order": "as in a round", "last": "as in a round", "split": "test, or valid for scores on the way"}
#: What the server says beside the trees of a round.
ROUND_DOWN = {
    "order": "the run: method, settings, net, plan, names of the classes, number of the first patient",
    "round": "number of the round",
    "clients": "numbers of the patients that take part",
    "last": "the last round of this site that counts",
    "holders": "which leaf is whose",
}


@dataclass(frozen=True)
class Leaf:
    """One leaf of a message.

    Attributes:
        way: ``down``, ``up`` or ``end``.
        name: its path in the method's tree, or ``reports/NAME``.
        what: in the card's words.
        shape: of one participant's.
        dtype: of its values.
        bytes: of one participant's.
    """

    way: str
    name: str
    what: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Leaf":
        """Return what ``as_json`` gave; raises KeyError, TypeError, ValueError."""
        shape = tuple(int(length) for length in value["shape"])
        way, name, what, dtype = (str(value[one]) for one in ("way", "name", "what", "dtype"))
        return cls(way, name, what, shape, dtype, int(value["bytes"]))


def _leaf(way: str, name: str, what: str, value: Tensor) -> Leaf:
    size = value.numel() * value.element_size()
    return Leaf(way, name, what, tuple(value.shape), str(value.dtype).removeprefix("torch."), size)


def check_up(method: Method, returned: Sequence[Tree], losses: Sequence[Mapping[str, float]]) -> None:
    """Hold back what the method's card does not name.

    Raises:
        SiteError: a leaf or a loss without a name on the card; it says which.
    """
    card = method.card.with_settings(method.settings)
    named = {entry.name for entry in card.reports}
    stray = [path for tree in returned for path in flatten(tree) if entry_of(path, card.up) is None]
    stray += [name for one in losses for name in one if name not in named]
    if stray:
        raise SiteError("card", f"method {method.name}", f"would send {stray[0]}, which its card does not name")


def check_down(method: Method, shared: Sequence[Tree]) -> None:
    """Refuse what a server sends and the method's card does not name; raises SiteError."""
    card = method.card.with_settings(method.settings)
    stray = [path for tree in shared for path in flatten(tree) if entry_of(path, card.down) is None]
    if stray:
        raise SiteError("card", f"method {method.name}", f"was sent {stray[0][:200]}, which its card does not name")


def leaves_of_round(
    method: Method, shared: Tree, form: Form, losses: Iterable[str], transport: str = PLAIN
) -> list[Leaf]:
    """Return every leaf of one participant's round, with what the card says it is.

    Args:
        method: the run's.
        shared: what the participant was sent.
        form: what it sends back.
        losses: the names of its losses.
        transport: how updates travel.
    """
    card = method.card.with_settings(method.settings)
    down, up = ({entry.name: entry.what for entry in entries} for entries in (card.down, card.up))
    reports = {entry.name: entry.what for entry in card.reports}
    number = torch.zeros((), dtype=torch.float64)
    sent = {
        path: torch.zeros(shape, dtype=packed(dtype, shape, transport)) for path, (dtype, shape) in form.leaves.items()
    }
    smaller = [path for path, leaf in sent.items() if leaf.dtype != form.leaves[path][0]]
    return [
        *(_leaf("down", path, down[str(entry_of(path, card.down))], leaf) for path, leaf in flatten(shared).items()),
        *(_leaf("up", path, up[str(entry_of(path, card.up))], leaf) for path, leaf in sent.items()),
        *(_leaf("up", f"scales/{path}", SCALE, torch.zeros(())) for path in smaller),
        *(_leaf("up", f"reports/{name}", reports[name], number) for name in losses),
        *(
            _leaf("up", name, what, _RUN if name == "run" else torch.zeros((), dtype=torch.int64))
            for name, what in ROUND_UP.items()
        ),
    ]


def delivered(method: Method, server: Tree) -> dict[str, Tensor]:
    """Return what of the server's state every site gets when the run is over, leaves by path: what answers are made of.

    It is what the method's first state has, which was made from nobody's data, so that no other patient's model is in
    it (FedFomo's and MTL's are added later); without the state of the server's optimizer and single numbers.
    """
    begun = flatten(method.server_start(method.net.initial(0)))
    return {
        path: leaf
        for path, leaf in flatten(server).items()
        if path in begun and not path.rpartition("/")[0].rpartition("/")[2].startswith("server_") and leaf.dim()
    }


def leaves_of_end(method: Method, server: Tree) -> list[Leaf]:
    """Return every leaf of what is delivered."""
    return [_leaf("end", path, "part of the trained answer", leaf) for path, leaf in delivered(method, server).items()]
