"""What sites and server exchange: every leaf of every message by name, and the check that enforces it.

A site checks before it sends: if a leaf of the method's tree, or a loss, is not declared in the method's communication
spec, nothing is sent and the server receives the code ``card``. Besides the trees, messages hold only the fields listed
in this file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ecgfed.core.federation.communication_audit import entry_of
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.methods.communication import ALWAYS_SENT
from ecgfed.network.errors import SiteError
from ecgfed.network.provenance import PROVENANCE_UP
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.tensor_schema import MAX_ABS, TensorSchema
from ecgfed.network.transport import PLAIN, packed

#: Fields of a site's reply in a round, besides the trees -> description.
ROUND_UP = {
    "run": "the run's SHA-256, as received",
    "round": "number of the round, as received",
    "clients": ALWAYS_SENT["clients"],
    "examples": "number of beats used in this round",
}
#: A SHA-256 as text, and a whole number.
_RUN, _COUNT = torch.zeros(64, dtype=torch.uint8), torch.zeros((), dtype=torch.int64)
#: With ``--transport`` other than ``plain``: the scale sent with every compressed leaf.
SCALE = "the leaf's largest change"
#: With ``--secure-aggregation``: one leaf for all clients of a site.
MASKED = "weighted sum of the changes over the site's patients, masked"
#: Fields of a site's replies in secure aggregation beside those of a round.
KEYS_UP = {
    "mask": "public key of this round, for the masks",
    "seal": "public key of this round, for the shares",
    "signature": "over both keys, the run, the weights, the round and the site, by the site's key",
}
SHARES_UP = {"sites": "the other sites", "boxes": "for each, shares of this site's secrets, encrypted for it"}
UNMASK_UP = {
    "sites": "the sites that have shared secrets",
    "shares": "of the seed of each whose sum arrived, of the key of each other",
}
#: Fields of a site's registration.
REGISTRATION_UP = {
    "protocol": "version of the messages",
    "patients": "number of patients in its cohort, including held-out patients",
    "clients": "positions of the participating patients, from 0, in an order chosen by the site",
    "train_examples": ALWAYS_SENT["train_examples"],
    "modality": "ECG beats or images",
    "classes": "names of the classes",
    "rr_version": "version of its RR features",
    **PROVENANCE_UP,
}
#: Fields of a site's scores: on its test beats at the end of the run, on its validation beats in between. A site with a
#: privacy budget (``--most-epsilon``) reports only the number of patients at the end, and noised scores in between.
END_UP = {
    "patients": "number of patients scored",
    "T_g": "macro-F1 of the global model on the beats of all its patients together",
    "T_p": "mean over patients of the macro-F1 of each patient's personal model on that patient's beats",
}
#: Fields of the server's final request, besides the leaves.
END_DOWN = {"order": "as in a round", "last": "as in a round", "split": "test, or valid for intermediate scores"}
#: Fields of the server's request in a round, besides the trees.
ROUND_DOWN = {
    "order": "the run: method, settings, net, plan, class names, number of the first patient; each site's "
    "patients, training examples and provenance, and which site the receiver is",
    "round": "number of the round",
    "clients": "numbers of the participating patients",
    "last": "the site's last committed round",
    "holders": "which leaves belong to which patient",
}


@dataclass(frozen=True)
class Leaf:
    """One leaf of a message.

    Attributes:
        way: ``down``, ``up`` or ``end``.
        name: its path in the method's tree, or ``reports/NAME``.
        what: its description in the communication spec.
        shape: shape for one client.
        dtype: dtype of the values.
        bytes: size for one client.
    """

    way: str
    name: str
    what: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    def as_json(self) -> dict[str, Any]:
        """Return the leaf as a JSON-ready dict."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Leaf":
        """Return the leaf from ``as_json``'s dict; raises KeyError, TypeError, ValueError."""
        shape = tuple(int(length) for length in value["shape"])
        way, name, what, dtype = (str(value[key]) for key in ("way", "name", "what", "dtype"))
        return cls(way, name, what, shape, dtype, int(value["bytes"]))


def _leaf(way: str, name: str, what: str, value: Tensor) -> Leaf:
    size = value.numel() * value.element_size()
    return Leaf(way, name, what, tuple(value.shape), str(value.dtype).removeprefix("torch."), size)


def check_up(method: Method, returned: Sequence[Tree], losses: Sequence[Mapping[str, float]]) -> None:
    """Refuse to send anything that the method's communication spec does not declare.

    Raises:
        SiteError: naming the first undeclared leaf or loss.
    """
    card = method.communication.with_settings(method.settings)
    named = {entry.name for entry in card.metrics}
    undeclared = [path for tree in returned for path in flatten(tree) if entry_of(path, card.up) is None]
    undeclared += [name for client_losses in losses for name in client_losses if name not in named]
    if undeclared:
        reason = f"would send {undeclared[0]}, which its communication spec does not declare"
        raise SiteError("card", f"method {method.name}", reason)


def check_down(method: Method, shared: Sequence[Tree]) -> None:
    """Refuse leaves from the server that the method's communication spec does not declare, or that no model has.

    Raises:
        SiteError: an undeclared leaf, or a value that is not finite or beyond ``tensor_schema.MAX_ABS``.
    """
    card = method.communication.with_settings(method.settings)
    undeclared = [path for tree in shared for path in flatten(tree) if entry_of(path, card.down) is None]
    if undeclared:
        reason = f"was sent {undeclared[0][:200]}, which its communication spec does not declare"
        raise SiteError("card", f"method {method.name}", reason)
    for tree in shared:
        check_values(flatten(tree))


def check_values(leaves: Mapping[str, Tensor]) -> None:
    """Refuse leaves from the server with a value that is not finite or beyond ``MAX_ABS``; raises SiteError."""
    for path, leaf in leaves.items():
        if leaf.is_floating_point() and not bool((leaf.abs() <= MAX_ABS).all()):  # also refuses NaN
            problem = "has values that are too large" if bool(torch.isfinite(leaf).all()) else "is not finite"
            raise SiteError("model", f"leaf {path[:200]} from the server", problem, f"numbers of {MAX_ABS:g} at most")


def leaves_of_round(
    method: Method, shared: Tree, schema: TensorSchema, losses: Iterable[str], run_spec: RunSpec
) -> list[Leaf]:
    """Return every leaf exchanged with one client in a round, with its description in the communication spec.

    Args:
        shared: the tree sent to the client.
        schema: the structure of its reply.
        losses: names of its losses.
        run_spec: encoding of the updates, and whether they are sums over a site's clients.
    """
    card, transport = method.communication.with_settings(method.settings), run_spec.transport
    down, up = ({entry.name: entry.what for entry in entries} for entries in (card.down, card.up))
    if run_spec.is_secure:
        up = {name: f"{what}: {MASKED}" for name, what in up.items()}
    reports = {entry.name: entry.what for entry in card.metrics}
    number = torch.zeros((), dtype=torch.float64)
    dtypes = {path: packed(dtype, shape, transport) for path, (dtype, shape) in schema.leaves.items()}
    if run_spec.is_secure:
        dtypes = dict.fromkeys(dtypes, torch.int64)
    sent = {path: torch.zeros(shape, dtype=dtypes[path]) for path, (_, shape) in schema.leaves.items()}
    smaller = [path for path, dtype in dtypes.items() if transport != PLAIN and dtype != schema.leaves[path][0]]
    return [
        *(_leaf("down", path, down[str(entry_of(path, card.down))], leaf) for path, leaf in flatten(shared).items()),
        *(_leaf("up", path, up[str(entry_of(path, card.up))], leaf) for path, leaf in sent.items()),
        *(_leaf("up", f"scales/{path}", SCALE, torch.zeros(())) for path in smaller),
        *(_leaf("up", f"reports/{name}", reports[name], number) for name in losses),
        *(_leaf("up", name, what, _RUN if name == "run" else _COUNT) for name, what in ROUND_UP.items()),
    ]


def final_leaves(method: Method, server: Tree) -> dict[str, Tensor]:
    """Return the leaves of the server's state, by path, that every site gets at the end of the run to build its models.

    These are the leaves of the method's initial state, which depends on no data, so they contain no other patient's
    model (FedFomo's and MTL's are added later). Scalars and the state of the server's optimizer are excluded.
    """
    initial = flatten(method.server_start(method.net.initial(0)))
    return {
        path: leaf
        for path, leaf in flatten(server).items()
        if path in initial and not path.rpartition("/")[0].rpartition("/")[2].startswith("server_") and leaf.dim()
    }


def leaves_of_end(method: Method, server: Tree) -> list[Leaf]:
    """Return every leaf of ``final_leaves`` with its description."""
    leaves = final_leaves(method, server)
    return [_leaf("end", path, "part of the trained model", leaf) for path, leaf in leaves.items()]
