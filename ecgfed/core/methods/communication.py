"""Communication spec of a method, as data: what is sent, stored and reported.

``ecgfed.core.federation.traffic`` runs rounds and compares what was sent with the spec, entry by entry.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from ecgfed.base.deprecation import renamed_fields

#: Content under a name of a tree. ``model``, ``trainable`` (without running statistics), ``extractor``, ``head`` and
#: ``without norm`` (without normalisation layers) have the entries of the net; ``models`` is several complete models
#: under names of their own; ``net`` the parameters of another net; ``number`` one value and ``numbers`` a vector;
#: ``prototypes`` (classes, features) are features averaged over the beats of each class; ``beats`` are recordings:
#: windows and labels.
SentForm = Literal[
    "model",
    "trainable",
    "extractor",
    "head",
    "without norm",
    "models",
    "net",
    "number",
    "numbers",
    "prototypes",
    "beats",
]
#: What the server sends is equal for ``everybody``, computed for the ``addressee``, or ``another`` client's unchanged.
Scope = Literal["everybody", "addressee", "another"]
#: What the server makes of what the clients send, if it is a mean and nothing else: weighted by training ``beats``, or
#: ``equal``; "" if it needs what each of them sent.
Mean = Literal["", "beats", "equal"]
BEATS: Mean = "beats"
EQUAL: Mean = "equal"
#: Whether the server knows a client's stored value: ``never``, ``as it is``, or ``in effect``, from the messages.
Visibility = Literal["never", "as it is", "in effect"]

_CONDITION = re.compile(r"(\w+)([=<>])(.+)")


def condition_holds(condition: str, settings: Any) -> bool:
    """Return whether a condition on settings holds: ``NAME=VALUE``, ``NAME<VALUE`` or ``NAME>VALUE``.

    A condition on a setting that the settings do not have does not hold.

    Raises:
        ValueError: the condition is malformed.
    """
    match = _CONDITION.fullmatch(condition)
    if not match:
        raise ValueError(f"{condition!r} is no condition on a setting")
    name, sign, text = match.groups()
    if not hasattr(settings, name):
        return False
    value: object = getattr(settings, name)
    if sign == "=":
        return str(value).lower() == text.lower()
    number, bound = float(str(value)), float(text)
    return number < bound if sign == "<" else number > bound


@renamed_fields(since="0.3", removed="0.5", whose="scope", when="condition")
@dataclass(frozen=True)
class Sent:
    """Something that is sent in every round, or in some rounds.

    Attributes:
        name: path in the tree that ``server_message`` or ``finish_round`` returns: ``model``, ``generic/model``.
        what: short description.
        form: the content.
        scope: of what the server sends.
        condition: conditions on the settings (``condition_holds``), all of which have to hold; none: always.
        mean: of what a client sends, the mean that is all the server needs of it, if there is one.
        equal_if: conditions on the settings, each of which makes that mean ``equal``.
    """

    name: str
    what: str
    form: SentForm = "model"
    scope: Scope = "everybody"
    condition: tuple[str, ...] = ()
    mean: Mean = ""
    equal_if: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields under the keys of ``ecgfed methods --json``."""
        return {**_common(self), "form": self.form, "whose": self.scope, "when": self.condition}


@renamed_fields(since="0.3", removed="0.5", when="condition")
@dataclass(frozen=True)
class Stored:
    """Something a client stores from round to round.

    Attributes:
        name: path in the client state that ``finish_round`` returns.
        what: short description.
        known: whether the server knows it.
        condition: as in ``Sent``.
    """

    name: str
    what: str
    known: Visibility = "never"
    condition: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields under the keys of ``ecgfed methods --json``."""
        return {**_common(self), "known": self.known, "when": self.condition}


@renamed_fields(since="0.3", removed="0.5", when="condition")
@dataclass(frozen=True)
class Metric:
    """A number that a client reports beside its message: a loss averaged over the round's local steps.

    Attributes:
        name: name in the losses that ``step`` returns.
        what: short description.
        condition: as in ``Sent``.
    """

    name: str
    what: str
    condition: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields under the keys of ``ecgfed methods --json``."""
        return {**_common(self), "when": self.condition}


Entry = Sent | Stored | Metric
EntryT = TypeVar("EntryT", Sent, Stored, Metric)


def _common(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "what": entry.what}


#: Reported by every client, with every method.
LOSS = Metric("loss", "its loss")
#: Sent by every client in every round beside its tree and its losses: fields of ``Returned``.
ALWAYS_SENT = {"train_examples": "how many training beats it has", "clients": "its number"}
#: With ``risk=meta-bsm``, for every method.
META_DOWN = Sent("meta", "validation beats of all patients together", "beats", condition=("risk=meta-bsm",))
META_STORED = (
    Stored("balance", "the weights of its risk", condition=("risk=meta-bsm",)),
    Stored("balance/gamma", "its risk's strength", "in effect", ("risk=meta-bsm",)),
)
META_METRICS = (
    Metric("meta_loss", "its loss on those beats", ("risk=meta-bsm",)),
    Metric("gamma", "its risk's strength", ("risk=meta-bsm",)),
)


def summarize(entries: Iterable[Entry]) -> str:
    """Return descriptions without repetition; a star marks what a client stores and the server knows, too."""
    texts = (entry.what + ("*" if isinstance(entry, Stored) and entry.known != "never" else "") for entry in entries)
    return ", ".join(dict.fromkeys(texts)) or "nothing"


@renamed_fields(since="0.3", removed="0.5", keeps="stores", reports="metrics")
@dataclass(frozen=True)
class CommunicationSpec:
    """What a method sends, stores and reports.

    Entries that all methods share are added by ``complete``.

    Attributes:
        title: the method's name as in papers.
        reference: authors, venue, year.
        down: sent by the server to a client.
        up: sent by a client to the server.
        stores: stored by a client from round to round; its recordings always stay with it.
        metrics: numbers sent beside the tree, except ``loss``.
    """

    title: str
    reference: str
    down: tuple[Sent, ...] = ()
    up: tuple[Sent, ...] = ()
    stores: tuple[Stored, ...] = ()
    metrics: tuple[Metric, ...] = ()

    def complete(self) -> "CommunicationSpec":
        """Return the spec with the entries that all methods share."""
        stores = (*self.stores, *META_STORED)
        return replace(self, down=(*self.down, META_DOWN), stores=stores, metrics=(LOSS, *self.metrics, *META_METRICS))

    def with_settings(self, settings: Any) -> "CommunicationSpec":
        """Return the complete spec with these settings: entries whose conditions do not hold are dropped."""
        card = self.complete().filtered(
            lambda entry: all(condition_holds(condition, settings) for condition in entry.condition)
        )
        up = (
            replace(entry, mean=EQUAL) if any(condition_holds(one, settings) for one in entry.equal_if) else entry
            for entry in card.up
        )
        return replace(card, up=tuple(up))

    @property
    def needs_each(self) -> Sent | None:
        """The last entry that the server needs of each client by itself; None if sums over clients are enough."""
        return next((entry for entry in reversed(self.up) if not entry.mean), None)

    def filtered(self, predicate: Callable[[Entry], bool]) -> "CommunicationSpec":
        """Return the spec with the entries that fulfil a predicate."""

        def select(entries: tuple[EntryT, ...]) -> tuple[EntryT, ...]:
            return tuple(entry for entry in entries if predicate(entry))

        return replace(
            self, down=select(self.down), up=select(self.up), stores=select(self.stores), metrics=select(self.metrics)
        )
