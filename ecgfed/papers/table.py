"""A table of a paper as data: how each run is trained, which method a row is, and what was printed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ecgfed.base.text import count_of

Value = str | int | float
#: Printed with a dash: the paper has no value there.
DASH = "-"
#: Not legible in the copy that this was transcribed from.
ILLEGIBLE = "?"
#: Method -> settings of the papers' runs that neither protocol nor row has, where they are not the defaults here.
METHOD_SETTINGS: dict[str, dict[str, Value]] = {
    "afl-fedavg": {"lambda_lr": 0.1, "survey_beats": 0},
    "lg-fedavg": {"warm_start": 0.5},
    "per-fedavg": {"alpha": 0.01},
    "pfedme": {"lam": 15.0, "inner_steps": 5},
    "q-ffl": {"q": 1.0, "survey_beats": 0},
}


@dataclass(frozen=True)
class Reduction:
    """A smaller form of a protocol; everything else is as in full.

    Attributes:
        rounds: communication rounds.
        local_epochs: of a client in a round.
        examples: training examples, and a fifth as many test examples; None for all.
        seeds: number of seeds.
    """

    rounds: int
    local_epochs: int
    examples: int | None = None
    seeds: int = 1


@dataclass(frozen=True)
class Protocol:
    """How a paper trains.

    Attributes:
        section: of the paper that describes it.
        net: a net of ``ecgfed.core.config.NETS``, or the name of a class in ``ecgfed.core.nets.paper_nets``.
        rounds: communication rounds.
        local_epochs: of a client in a round.
        batch_size: examples of a step.
        sgd: settings of every method that has them: ``lr``, ``momentum``, ``weight_decay``.
        reduced: the smaller form.
        clients_per_round: participants of a round; None for all clients.
        lr_decay: factor of the clients' learning rates from one round to the next.
        crop_pixels: training images are padded by so many pixels, flipped at random and cropped back; 0 for none.
        examples: training examples; None for all, of the reduced form how many are drawn.
        seeds: number of seeds.
        left_open: what the paper does not say, and what is done here.
        departures: what is done otherwise than printed, and why.
    """

    section: str
    net: str
    rounds: int
    local_epochs: int
    batch_size: int
    sgd: Mapping[str, float]
    reduced: Reduction
    clients_per_round: int | None = None
    lr_decay: float = 1.0
    crop_pixels: int = 0
    examples: int | None = None
    seeds: int = 1
    left_open: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()

    def at(self, scale: str) -> "Protocol":
        """Return the protocol at a scale, ``full`` or ``reduced``."""
        if scale == "full":
            return self
        small = self.reduced
        return replace(
            self, rounds=small.rounds, local_epochs=small.local_epochs, examples=small.examples, seeds=small.seeds
        )

    def differences(self, scale: str) -> tuple[str, ...]:
        """Return how a scale differs from the full protocol, one phrase for each difference."""
        here = self.at(scale)
        phrases = [
            f"{count_of(getattr(here, name), what)}, not {getattr(self, name)}"
            for name, what in (("rounds", "round"), ("local_epochs", "local epoch"), ("seeds", "seed"))
            if getattr(here, name) != getattr(self, name)
        ]
        if here.examples is not None:
            phrases.insert(0, f"{here.examples:,} training and {here.examples // 5:,} test examples, not all")
        return tuple(phrases)


@dataclass(frozen=True)
class Setting:
    """A group of columns: a data set, its partition, and the protocol.

    Attributes:
        name: the paper's, such as ``Dir(0.3)``; that of the data set if the paper has no other.
        data: a key of ``ecgfed.tasks.reproduce_data.DATA``.
        protocol: how its runs are trained.
        partition: options of ``ecgfed.partition``; of MIT-BIH ``{"by": "record"}``.
    """

    name: str
    data: str
    protocol: Protocol
    partition: Mapping[str, Value]

    @property
    def label(self) -> str:
        """``DATA NAME``, its key in ``Row.printed``."""
        return f"{self.data} {self.name}"

    @property
    def key(self) -> str:
        """A name for files, such as ``cifar10-dirichlet-0.3``."""
        kind, alpha = self.partition.get("kind"), self.partition.get("alpha")
        return "-".join(str(part) for part in (self.data, kind, alpha) if part is not None)


@dataclass(frozen=True)
class Cell:
    """One printed value.

    Attributes:
        mean: the value; None if there is none.
        sd: what is printed after ±; None if nothing is.
        legible: whether it can be read in the copy that this was transcribed from.
    """

    mean: float | None
    sd: float | None = None
    legible: bool = True

    def written(self, digits: int) -> str:
        """Return the mean with so many decimals, ``-`` if there is none, ``?`` if it is not legible."""
        if self.mean is not None:
            return f"{self.mean:.{digits}f}"
        return DASH if self.legible else ILLEGIBLE


@dataclass(frozen=True)
class Row:
    """A method of the table.

    Attributes:
        name: as printed.
        method: its name here; a method that this version does not have makes the row one that cannot be run.
        printed: ``Setting.label`` -> the printed cells in the order of the table's columns.
        settings: of the method, beside the protocol's.
        by_data: data set -> further settings.
        personal: the personalisation applied after training, a name of ``ecgfed.core.personal``; None: the method's.
        valid_share: share of a client's training examples that the method needs for validation.
        note: what the paper leaves open about this row, and what is done here.
    """

    name: str
    method: str
    printed: Mapping[str, str]
    settings: Mapping[str, Value] = field(default_factory=dict)
    by_data: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    personal: str | None = None
    valid_share: float = 0.0
    note: str = ""

    def cells(self, setting: Setting) -> tuple[Cell, ...]:
        """Return the printed values under a setting; () if the table has none there."""
        return tuple(read_cell(text) for text in self.printed.get(setting.label, "").split())


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        number: as printed.
        title: what it shows.
        columns: name as printed -> the score here, a key of what ``ecgfed.tasks.reproduce_run.scores_of`` returns.
        settings: its groups of columns.
        rows: its methods.
        percent: whether values are printed as percent; otherwise from 0 to 1.
        ensemble: ``ensemble`` or ``average``: how a method without a global model answers for everybody.
        note: about the transcription.
    """

    number: int
    title: str
    columns: Mapping[str, str]
    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    percent: bool
    ensemble: str
    note: str = ""

    @property
    def digits(self) -> int:
        """Decimals of its values."""
        return 1 if self.percent else 3


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        name: on the command line.
        title: with authors and year.
        tables: number -> table.
    """

    name: str
    title: str
    tables: Mapping[int, Table]


def read_cell(text: str) -> Cell:
    """Return a printed value: ``0.334±0.046``, ``68.6``, ``-`` or ``?``."""
    if text in (DASH, ILLEGIBLE):
        return Cell(None, legible=text == DASH)
    match = re.fullmatch(r"(\d+\.\d+)(?:±(\d+\.\d+))?", text)
    if match is None:
        raise ValueError(f"no printed value: {text!r}")
    return Cell(float(match[1]), None if match[2] is None else float(match[2]))
