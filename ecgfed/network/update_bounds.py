r"""Bounds on the update of a site: relative to what it was sent, and to the updates of the other sites.

An update's length is the L2 norm of the change of all weights that a client returns. It may be at most ``most`` times
the norm of what the client was sent, or of 1 where that is larger. Where three sites or more have replied, the median
of a site's updates per local step may be at most ``most`` times the median of the other sites' medians.

Honest updates stay far below both; what gets past them can still lead the mean astray, which ``--aggregation`` is
against. Every round's lengths are recorded, so that a run that breaks down later can name the site that stood out.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ecgfed.base.files import append_line, write_text
from ecgfed.core.config import SERVER
from ecgfed.core.federation.client_round import ClientWork
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, stack
from ecgfed.core.federation.updates import updates_of
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.privacy.robust import lengths
from ecgfed.core.runs.history import read_lines
from ecgfed.network.errors import NetworkError
from ecgfed.network.kept_rounds import rounds_in
from ecgfed.network.server_folder import RUN
from ecgfed.network.tensor_schema import MAX_ABS

#: File in the server's folder: a line per round with every site's update.
UPDATES = "updates.jsonl"
#: A site whose update is this many times as long as the others' is named when a run breaks down, if it was so in one of
#: the last rounds.
SUSPECT, LAST_ROUNDS = 3.0, 20
#: The server says so at once from here on.
WARN = 10.0
_STANDING_OUT = {
    "beside_others": "update of site {name} in round {number} was {times} times as long",
    "numbers_beside_others": "losses or numbers of site {name} in round {number} were {times} times as large",
}


@dataclass(frozen=True)
class SiteUpdate:
    """The lengths of a site's updates in a round.

    Attributes:
        of_sent: the longest update over the norm of what was sent.
        per_step: the median of the clients' lengths, per local step.
        largest: the largest absolute value of what is no weight: losses and other numbers.
    """

    of_sent: float
    per_step: float
    largest: float = 0.0


def measured(
    method: Method,
    plan: TrainPlan,
    work: Sequence[ClientWork],
    returned: Sequence[Tree],
    losses: Sequence[Mapping[str, float]],
    most: float,
) -> SiteUpdate:
    """Return the lengths of a site's updates.

    Args:
        plan: the run's; noise that it adds before an update leaves may make that longer.
        work: what the site's clients were sent.
        returned: their replies.
        losses: their losses.
        most: the largest accepted ``of_sent``, and the largest prototype over the largest that was sent, or 1.

    Raises:
        NetworkError: an update is longer, or a prototype larger.
    """
    tree = stack(list(returned))
    updates = updates_of(method, [client.shared for client in work], tree)
    largest = max((abs(value) for client in losses for value in client.values()), default=0.0)
    prototypes = [entry.name for entry in method.communication.up if entry.form == "prototypes"]
    for path, leaf in flatten(tree).items():
        if path in updates.change or not leaf.is_floating_point():
            continue
        largest = max(largest, float(leaf.abs().max()) if leaf.numel() else 0.0)
        sent = [flatten(client.shared).get(path) for client in work]
        before = max((float(value.abs().max()) for value in sent if value is not None and value.numel()), default=1.0)
        if path in prototypes and not bool((leaf.abs() <= most * max(1.0, before)).all()):
            reason = f"has {path} of {float(leaf.abs().max()):.3g}"
            raise NetworkError("a site's reply", reason, f"at most {most:g} times what was sent, or {most:g}")
    if not updates.change:
        return SiteUpdate(0.0, 0.0, largest)
    norms = torch.stack([lengths(updates.before), torch.ones(len(work), dtype=torch.float64)]).amax(0)
    moved = lengths(updates.change)
    of_sent = float((moved / norms).max())
    noised = 0.0
    if plan.clips and plan.dp_at != SERVER:  # twice the length of so many normal numbers
        count = sum(leaf[0].numel() for leaf in updates.change.values())
        noised = plan.dp_clip * (1 + 2 * plan.dp_noise * math.sqrt(count))
    if not bool((moved <= (most * norms).clamp_min(noised)).all()):
        reason = f"has an update {of_sent:.3g} times as long as the weights that were sent"
        raise NetworkError("a site's reply", reason, f"at most {most:g} times")
    steps = torch.tensor([max(1, client.info.steps) for client in work], dtype=torch.float64)
    return SiteUpdate(of_sent, median((moved / steps).tolist()), largest)


def beside_others(updates: Mapping[int, SiteUpdate], what: str = "per_step") -> dict[int, float]:
    """Return how many times as large as the other sites' a site's value is, by site.

    Empty with fewer than three sites: of two that differ, nobody can say which is wrong.

    Args:
        updates: the sites' updates.
        what: an attribute of ``SiteUpdate``.
    """
    if len(updates) < 3:
        return {}
    ratios = {}
    for site, update in updates.items():
        others = median(getattr(other, what) for number, other in updates.items() if number != site)
        ratios[site] = getattr(update, what) / others if others > 0 else 1.0
    return ratios


def record_updates(
    folder: Path, round_number: int, names: Mapping[int, str], updates: Mapping[int, SiteUpdate]
) -> None:
    """Append a round's lengths to ``UPDATES``; lines of the same and later rounds are replaced. Raises StorageError."""
    ratios, numbers = beside_others(updates), beside_others(updates, "largest")
    sites = {
        names[site]: {**asdict(update), "beside_others": ratios.get(site), "numbers_beside_others": numbers.get(site)}
        for site, update in sorted(updates.items())
    }
    earlier = read_lines(folder / UPDATES)
    if earlier and earlier[-1]["round"] >= round_number:  # the round is repeated, or the run went back
        kept = [line for line in earlier if line["round"] < round_number]
        write_text(folder / UPDATES, "".join(json.dumps(line) + "\n" for line in kept))
    append_line(folder / UPDATES, json.dumps({"round": round_number, "sites": sites}))


def suspect(folder: Path, round_number: int) -> tuple[str, str]:
    """Return a sentence about the site whose update stood out most before a round, and what to do; "" if none did.

    Args:
        folder: the server's folder.
        round_number: the round that broke down.
    """
    standing_out: list[tuple[float, int, str, str]] = []
    for line in read_lines(folder / UPDATES, round_number):
        sites: Mapping[str, Any] = line["sites"] if line["round"] >= round_number - LAST_ROUNDS else {}
        for name, update in sites.items():
            for key, what in _STANDING_OUT.items():
                if (update[key] or 0.0) > SUSPECT:
                    standing_out.append((float(update[key]), int(line["round"]), name, what))
    if not standing_out:
        return "", ""
    times, number, name, what = max(standing_out)
    reason = f"the {what.format(name=name, number=number, times=f'{times:.3g}')} as the other sites'"
    first = min(other for _, other, site, _ in standing_out if site == name)
    earlier = [number for number in rounds_in(folder / RUN) if number < first]
    again = f"start again with --without {name}"
    if not earlier:
        return reason, f"begin in a new folder without it; no round before {first} is kept"
    return reason, f"go back with 'ecgfed federate server {folder} --back-to {max(earlier)}', and {again}"


def check_state(state: Tree, folder: Path, round_number: int) -> None:
    """Refuse a server state with values that are not finite or beyond ``MAX_ABS``, before it is saved.

    Raises:
        NetworkError: naming the site whose update stood out.
    """
    for path, leaf in flatten(state).items():
        if leaf.is_floating_point() and not bool((leaf.abs() <= MAX_ABS).all()):
            why, action = suspect(folder, round_number)
            reason = f"leaves a model whose {path[:100]} is not finite or too large{'; ' if why else ''}{why}"
            raise NetworkError(f"round {round_number}", reason, action=action or "lower the learning rate")
