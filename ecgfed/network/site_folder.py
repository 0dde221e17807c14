"""A site's folder: its cohort, the order of its patients, and their state in each run.

site.json        the cohort, and the order of the patients; only the site knows which patient has which number
spent.json       the charges against ``--most-epsilon``, if it is set
runs/ID/         one folder per run: ``checkpoint/`` with the patients' state and the last reply, ``history.jsonl`` with
                 a line for each round the site took part in, ``order.json`` with the run specification, and
                 ``cohort.json``, which identifies the cohort at the start of the run; ``rounds/`` has the state of
                 earlier rounds, to which the server may go back
result/          after the end of a run: a run of this site's patients, to evaluate, export and personalise
bundle/          and its bundle; for further runs both have the run's ID appended, so no result is ever replaced
audit.jsonl      every question of the server, signed and chained (``ecgfed.network.audit``)
server-seen      touched whenever the server answers
log.txt          errors in full, of which the server receives only the code; older lines are in log-old.txt
"""

import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import EcgfedError, OptionError, StorageError
from ecgfed.base.files import create_folder, read_json, write_json
from ecgfed.base.text import count_of
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.network.certificates import check_public_key
from ecgfed.network.config import FEWEST_SUMMED, SiteOptions
from ecgfed.network.errors import SiteError
from ecgfed.network.limits import DEFAULT_OPTIONS, Limits
from ecgfed.network.provenance import provenance_of

FILE_NAME = "site.json"
SCHEMA_VERSION = 1
ORDERS = ("shuffled", "cohort")


@dataclass(frozen=True)
class Site:
    """A site.

    Attributes:
        path: the site's folder.
        cohort_path: the site's cohort.
        order: position -> index of the client in the cohort.
        max_epsilon: bound on the epsilon of all runs together for one patient (``ecgfed.network.budget``); None is no
            bound.
        limits: limits on the number of runs and their rounds.
        partners: folder with the public keys of the only sites in whose sums this one takes part
            (``ecgfed.network.site_sums``); with None it takes part in other runs too, and in secure aggregation
            believes the server whose keys they are.
        numbers: one of ``ORDERS``; None if an older version created the folder.
        asked: what the audit log will say of the question that is being answered.
    """

    path: Path
    cohort_path: Path
    order: tuple[int, ...]
    max_epsilon: float | None = None
    limits: Limits = field(default_factory=Limits)
    numbers: str | None = None
    partners: Path | None = None
    asked: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        epsilon = self.max_epsilon
        if epsilon is not None and (
            isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < 1e6
        ):
            raise OptionError("max_epsilon", f"{epsilon!r:.40}", "a number above 0 and below 1,000,000")

    @property
    def is_private(self) -> bool:
        """Whether the site has a privacy budget."""
        return self.max_epsilon is not None

    def cohort(self) -> Cohort:
        """Open the cohort; raises CohortError, and SiteError if its clients do not match the order."""
        cohort = open_cohort(self.cohort_path)
        if sorted(self.order) != list(range(len(cohort.clients))):
            reason = f"was made for {count_of(len(self.order), 'patient')}, {cohort.path} has {len(cohort.clients)}"
            raise SiteError("cohort", self.path / FILE_NAME, reason, action="create a new site folder")
        return cohort

    def training_data(
        self,
        cohort: Cohort,
        *,
        rr: bool,
        leave_out: str,
        first: int = 0,
        weak: bool = False,
        most_per_class: int | None = None,
    ) -> TrainingData:
        """Return the training beats with the patients' federation numbers in place of their indices.

        Ids become numbers too, so that error messages do not name patients.

        Args:
            rr: whether the net takes RR features.
            leave_out: as in ``TrainPlan``.
            first: number of the patient at position 0.
            weak: as in ``ecgfed.core.federation.data.training_data``.
            most_per_class: as in ``TrainPlan``.
        """
        data = training_data(cohort, rr=rr, leave_out=leave_out, weak=weak, most_per_class=most_per_class)
        number = {index: first + position for position, index in enumerate(self.order)}
        return replace(
            data,
            clients=np.array(sorted(number[int(index)] for index in data.clients), dtype=np.int64),
            rows={number[index]: rows for index, rows in data.rows.items()},
            valid_rows={number[index]: rows for index, rows in data.valid_rows.items()},
            ids={number[index]: f"number {number[index]}" for index in data.ids},
            excluded={number[index]: classes for index, classes in data.excluded.items()},
        )

    def index_of(self, number: int, first: int) -> int:
        """Return a patient's index in the cohort."""
        return self.order[number - first]


def make_site(path: Path, cohort: Path, options: SiteOptions = DEFAULT_OPTIONS) -> Site:
    """Create a site's folder, or open an existing one.

    Args:
        path: the folder.
        options: the operator's options.

    Raises:
        OptionError: an invalid order, epsilon or limit, or the folder has another cohort or order.
        CohortError: the cohort cannot be opened.
        StorageError: the folder cannot be created.
    """
    order = options.numbers
    if order is not None and order not in ORDERS:
        raise OptionError("numbers", f"{order!r}", f"one of {', '.join(ORDERS)}", code="unknown-choice")
    opened = open_cohort(cohort)
    cohort_path = cohort.resolve()
    if (path / FILE_NAME).exists():
        site = open_site(path)
        if site.cohort_path != cohort_path:
            expected = f"{site.cohort_path}, whose site {path} is"
            raise OptionError("cohort", f"{cohort}", expected, "or a new folder", code="contradiction")
        if None not in (order, site.numbers) and order != site.numbers:
            expected = f"{site.numbers}, as in {path}"
            raise OptionError("numbers", f"{order}", expected, "or use a new folder", code="contradiction")
        epsilon = site.max_epsilon if options.max_epsilon is None else options.max_epsilon
        partners = site.partners if options.partners is None else _partners(options.partners)
        updated = replace(site, max_epsilon=epsilon, limits=site.limits.updated(options), partners=partners)
        if updated != site:
            _write(updated)
        return updated
    limits, indices = Limits().updated(options), list(range(len(opened.clients)))
    order = order or "shuffled"
    if order == "shuffled":
        secrets.SystemRandom().shuffle(indices)
    partners = None if options.partners is None else _partners(options.partners)
    site = Site(path, cohort_path, tuple(indices), options.max_epsilon, limits, order, partners)
    create_folder(path)
    _write(site)
    return site


def _partners(text: str) -> Path:
    """Return the folder of the partners' keys; raises OptionError if there are none, or a file is not a key."""
    folder = Path(text).resolve()
    keys = sorted(folder.glob("*.pub")) if folder.is_dir() else []
    if len(keys) < FEWEST_SUMMED - 1:
        expected = f"a folder with the keys of {FEWEST_SUMMED - 1} other sites or more"
        raise OptionError("partners", f"{text} holds {len(keys)} public keys (*.pub)", expected)
    for key in keys:
        check_public_key(key)
    return folder


def _write(site: Site) -> None:
    document: dict[str, object] = {"schema_version": SCHEMA_VERSION, "cohort": str(site.cohort_path)}
    document |= {"order": list(site.order)}
    document |= {} if site.max_epsilon is None else {"most_epsilon": site.max_epsilon}
    document |= {} if site.numbers is None else {"numbers": site.numbers}
    document |= {} if site.partners is None else {"partners": str(site.partners)}
    write_json(site.path / FILE_NAME, document | site.limits.as_json())


def open_site(path: Path) -> Site:
    """Open a site's folder; raises OptionError, StorageError."""
    file = path / FILE_NAME
    if not file.is_file():
        expected = f"a folder with {FILE_NAME}"
        raise OptionError(str(path), "is not a site's folder", expected, "create it with ecgfed federate site")
    value = read_json(file, StorageError)
    try:
        if value["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema version {SCHEMA_VERSION}")
        order = tuple(value["order"])
        if not all(isinstance(index, int) and not isinstance(index, bool) and index >= 0 for index in order):
            raise ValueError("whole numbers")
        limits = Limits.from_json(value)
        numbers = value.get("numbers")
        if numbers is not None and numbers not in ORDERS:
            raise ValueError(f"numbers of {', '.join(ORDERS)}")
        partners = _path(value["partners"]) if "partners" in value else None
        return Site(path, _path(value["cohort"]), order, value.get("most_epsilon"), limits, numbers, partners)
    except (KeyError, TypeError, ValueError, OptionError) as problem:
        reason = f"lacks {problem!s:.100}"
        raise StorageError(file, reason, "a site's description", "create a new site folder") from problem


def _path(value: object) -> Path:
    text = str(value)
    try:
        valid = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half a surrogate pair
        valid = False
    if not valid:
        raise ValueError(f"a valid cohort path, not {text!r:.60}")
    return Path(text)


def registration(
    site: Site, rr: bool, leave_out: str, weak: bool = False, most_per_class: int | None = None
) -> dict[str, Any]:
    """Return a site's registration: the fields of ``ecgfed.network.leaves.REGISTRATION_UP`` without the protocol.

    Raises:
        SiteError: its cohort cannot be used.
    """
    try:
        cohort = site.cohort()
        data = site.training_data(cohort, rr=rr, leave_out=leave_out, weak=weak, most_per_class=most_per_class)
    except SiteError:
        raise
    except EcgfedError as problem:
        raise SiteError("cohort", *problem.parts) from problem
    return {
        "patients": len(site.order),
        "clients": data.clients.tolist(),
        "train_examples": data.train_examples.tolist(),
        "modality": cohort.modality,
        "classes": list(cohort.classes),
        "rr_version": cohort.rr_version if cohort.modality == "ecg" else 1,
        **provenance_of(cohort),
    }
