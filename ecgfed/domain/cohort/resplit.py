"""The same beats divided anew: another random split, or other clients held out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError, OptionError, param
from ecgfed.base.files import replacing_folder
from ecgfed.base.text import listed
from ecgfed.domain.cohort.arrays import DIGEST
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.layout import example_of
from ecgfed.domain.cohort.split import split_beats
from ecgfed.domain.cohort.writer import CohortWriter


def client_seed(seed: int, client: str) -> int:
    """Return the seed of a client's random split: of the cohort's seed and its own id, whoever else is there."""
    return int(np.random.SeedSequence([seed, *client.encode()]).generate_state(1)[0])


def resplit(
    cohort: Cohort,
    out: Path,
    *,
    seed: int | None = None,
    holdout: Sequence[str] | None = None,
    sites: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write a cohort of the same beats with another random split, other clients held out, or both.

    Args:
        cohort: of recordings.
        out: folder to make.
        seed: of the random split, which is then what ``prepare`` with this seed makes; None keeps the split.
        holdout: ids of the clients to keep out of training; None keeps who is held out.
        sites: of a joined cohort, whose clients are kept out of training too.
        overwrite: replace ``out`` where it exists.

    Raises:
        OptionError: nothing to change, an unknown client or site, or nobody left to train on.
        CohortError: no cohort of recordings, a chronological split, or training examples of other leads.
        StorageError: see ``replacing_folder``.
    """
    _check(cohort, seed)
    held = _held_out(cohort, holdout, sites)
    if seed is None and held == set(cohort.held_out):
        action = f"pass {param('seed')}, {param('holdout')} or {param('holdout_site')}"
        raise OptionError("seed", "nothing would change", "another seed or other clients held out", action)
    stated = {name: value for name, value in cohort.meta.items() if name != DIGEST}
    clients = [{**entry, "holdout": entry["id"] in held} for entry in cohort.meta["clients"]]
    meta = {**stated, "clients": clients, "holdout": [entry["id"] for entry in clients if entry["holdout"]]}
    if seed is not None:
        meta["seed"] = seed
    with (
        replacing_folder(out, overwrite=overwrite) as folder,
        CohortWriter(folder, cohort.modality, cohort.rr_version, example_of(cohort.meta)) as writer,
    ):
        for client in cohort.clients:
            rows = slice(*np.searchsorted(cohort.client, [client.index, client.index + 1]).tolist())
            arrays: dict[str, NDArray[Any]] = {name: array[rows] for name, array in cohort.arrays.items()}
            if seed is not None and not client.record_label:
                arrays["split"] = split_beats(arrays["label"], "random", client_seed(seed, client.id))
            writer.append(**arrays)
        writer.finish(meta)


def _check(cohort: Cohort, seed: int | None) -> None:
    """Raise CohortError for a cohort whose split cannot be drawn anew."""
    if cohort.modality != "ecg":
        action = f"make it again with another {param('seed')}"
        raise CohortError(cohort.path, "holds no recordings", "a cohort of recordings", action)
    if cohort.other_lead.any():
        action = f"prepare it again with another {param('seed')} or {param('holdout')}"
        raise CohortError(
            cohort.path, "has training examples of other leads, which follow the split", "the first lead alone", action
        )
    if seed is not None and cohort.meta["split"] != "random":
        expected = "a random split, which has a seed"
        raise CohortError(cohort.path, f"has the split {cohort.meta['split']}", expected, "there is one such split")


def _held_out(cohort: Cohort, holdout: Sequence[str] | None, sites: Sequence[str]) -> set[str]:
    """Return the ids of who is to be held out; raises OptionError."""
    if unknown := sorted(set(sites) - set(cohort.sites)):
        expected = listed(list(cohort.sites), 12) or "a joined cohort, which has sites"
        raise OptionError("holdout_site", f"no site {unknown[0]!r:.60}", expected, code="unknown-choice")
    ids = [client.id for client in cohort.clients]
    if unknown := sorted(set(holdout or ()) - set(ids)):
        problem = f"no client {', '.join(unknown)}"
        raise OptionError("holdout", problem, f"ids among {listed(ids, 12)}", code="unknown-choice")
    clients: list[Client] = [client for site in sites for client in cohort.sites[site]]
    before = cohort.held_out if holdout is None else holdout
    held = {*before, *(client.id for client in clients)}
    if all(client.id in held or client.record_label for client in cohort.clients):
        raise OptionError("holdout", "every client is held out", "at least one client left to train on")
    return held
