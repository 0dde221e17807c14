"""What a method says of itself, above all what travels: as data, so that a check can hold it to its word.

``ecgfed.federation.communication_log`` runs rounds and compares what was sent with the card, entry by entry.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

#: What lies under a name of a tree. ``model``, ``trainable`` (without running statistics), ``extractor`` and ``head``
#: have the entries of the net; ``models`` is several whole models under names of their own; ``net`` the parameters of
#: another net; ``number`` one value and ``numbers`` a row of them; ``beats`` are recordings: windows and labels.
Form = Literal["model", "trainable", "extractor", "head", "models", "net", "number", "numbers", "beats"]
#: Whose it is that comes down: one for ``everybody``, made for the ``addressee``, or ``another`` patient's as it is.
Whose = Literal["everybody", "addressee", "another"]
#: Whether the server knows what a client keeps: ``never``, ``as it is``, or ``in effect``, from what travels.
Known = Literal["never", "as it is", "in effect"]

_CONDITION = re.compile(r"(\w+)([=<>])(.+)")


def holds(condition: str, settings: Any) -> bool:
    """Return whether a condition on settings holds: ``NAME=VALUE``, ``NAME<VALUE`` or ``NAME>VALUE``.

    Settings without that name hold no condition on it.

    Raises:
        ValueError: it is no such condition.
    """
    match = _CONDITION.fullmatch(condition)
    if not match:
        raise ValueError(f"{condition!r} is no condition on a setting")
    name, sign, wanted = match.groups()
    if not hasattr(settings, name):
        return False
    value: object = getattr(settings, name)
    if sign == "=":
        return str(value).lower() == wanted.lower()
    number, bound = float(str(value)), float(wanted)
    return number < bound if sign == "<" else number > bound


@dataclass(frozen=True)
class Travels:
    """Something that travels every round, or in some rounds.

    Attributes:
        name: where it lies in the tree that ``shared`` or ``finish`` returns: ``model``, ``generic/model``.
        what: what it is, in a few plain words.
        form: what lies there.
        whose: of what comes down.
        when: conditions on the settings (``holds``), all of which have to hold; none: always.
    """

    name: str
    what: str
    form: Form = "model"
    whose: Whose = "everybody"
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Keeps:
    """Something a client keeps from round to round.

    Attributes:
        name: where it lies in the tree that ``finish`` keeps.
        what: what it is, in a few plain words.
        known: whether the server knows it.
        when: as in ``Travels``.
    """

    name: str
    what: str
    known: Known = "never"
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reports:
    """A number a client reports beside its tree: a loss's mean over the round's local steps.

    Attributes:
        name: as ``step`` calls it.
        what: what it is, in a few plain words.
        when: as in ``Travels``.
    """

    name: str
    what: str
    when: tuple[str, ...] = ()


Entry = Travels | Keeps | Reports
EntryT = TypeVar("EntryT", Travels, Keeps, Reports)

#: Reported by every client, whatever the method.
LOSS = Reports("loss", "its loss")
#: What else of a client travels up in every round beside its tree and its losses: fields of ``Returned``.
BESIDE = {"train_examples": "how many training beats it has", "clients": "its number"}
#: With ``risk=meta-bsm``, whatever the method.
META_DOWN = Travels("meta", "validation beats of all patients together", "beats", when=("risk=meta-bsm",))
META_KEPT = (
    Keeps("balance", "the weights of its risk", when=("risk=meta-bsm",)),
    Keeps("balance/gamma", "its risk's strength", "in effect", ("risk=meta-bsm",)),
)
META_REPORTS = (
    Reports("meta_loss", "its loss on those beats", ("risk=meta-bsm",)),
    Reports("gamma", "its risk's strength", ("risk=meta-bsm",)),
)


def in_words(entries: Iterable[Entry]) -> str:
    """Return what some entries are, without repetition; a star marks what a client keeps and the server knows too."""
    each = (entry.what + ("*" if isinstance(entry, Keeps) and entry.known != "never" else "") for entry in entries)
    return ", ".join(dict.fromkeys(each)) or "nothing"


@dataclass(frozen=True)
class Card:
    """What ``ecgfed methods`` says about a method.

    What every method has in common is added by ``whole``.

    Attributes:
        title: the method's name as papers write it.
        reference: authors, venue, year.
        down: what the server sends a client.
        up: what a client sends back.
        keeps: what a client keeps from round to round; its recordings stay in any case.
        reports: the numbers that go beside the tree, but for ``loss``.
    """

    title: str
    reference: str
    down: tuple[Travels, ...] = ()
    up: tuple[Travels, ...] = ()
    keeps: tuple[Keeps, ...] = ()
    reports: tuple[Reports, ...] = ()

    def whole(self) -> "Card":
        """Return the card with what every method has in common."""
        return replace(
            self,
            down=(*self.down, META_DOWN),
            keeps=(*self.keeps, *META_KEPT),
            reports=(LOSS, *self.reports, *META_REPORTS),
        )

    def with_settings(self, settings: Any) -> "Card":
        """Return the whole card as it is with these settings: nothing on it has a condition that does not hold."""
        return self.whole().only(lambda entry: all(holds(condition, settings) for condition in entry.when))

    def only(self, wanted: Callable[[Entry], bool]) -> "Card":
        """Return the card with some of its entries."""

        def left(entries: tuple[EntryT, ...]) -> tuple[EntryT, ...]:
            return tuple(entry for entry in entries if wanted(entry))

        return replace(self, down=left(self.down), up=left(self.up), keeps=left(self.keeps), reports=left(self.reports))
