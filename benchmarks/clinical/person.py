"""A person who labels beats, simulated: knows the reference, answers with what the labelling page offers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ecgfed.core.evaluation.ec57 import CLASSES
from ecgfed.domain.beats.extract import MATCH_S, match_peaks
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.choose import KIND_OF, Rule, next_group
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.record.reader import open_every_lead
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats

#: What the page has no button for, by what a person would press.
PRESSED = {"a": "A", "J": "A", "S": "A", "e": "N", "j": "N", "n": "N", "E": "V", "r": "V", "f": "/", "Q": "?", "B": "L"}
#: Ways of choosing: ours, at random, those of which the model is least sure.
CHOICES = ("ours", "random", "unsure")
NO_BEAT, CANNOT_TELL = "|", "?"


def grouped(source: Path, record: str, bundle: object, peaks: str, minutes: float | None = None) -> GroupedBeats:
    """Return a record's beats in groups, as ``ecgfed label`` has them."""
    options = BeatOptions(("MLII", "II"), peaks)
    recording = open_every_lead(source / record, options.leads)
    return grouped_beats(recording, options, bundle, minutes=minutes)  # type: ignore[arg-type]


def truth(source: Path, record: str, found: GroupedBeats) -> NDArray[np.str_]:
    """Return what a person would call each beat of a record: (beats,) symbols, ``|`` where there is none."""
    marks = read_annotation(source / record).beats()
    fs_hz = found.beats.recording.fs_hz
    ours, theirs = match_peaks(found.beats.r_samples, marks.sample, round(MATCH_S * fs_hz))
    symbol = np.full(len(found.beats.r_samples), NO_BEAT, dtype="<U1")
    symbol[ours] = [PRESSED.get(one, one) for one in marks.symbol[theirs].tolist()]
    return symbol


def labelled(
    found: GroupedBeats, symbol: NDArray[np.str_], counts: Sequence[int], choice: str, rule: Rule | None = None
) -> Iterator[tuple[int, dict[int, str]]]:
    """Yield for each number of labels the beats that were asked for, with their labels.

    Args:
        found: the beats in groups.
        symbol: (beats,) what the person calls each.
        counts: numbers of labels, rising.
        choice: one of ``CHOICES``.
        rule: of ``ours``; default the one in the package.
    """
    groups, label = found.groups, dict[int, str]()
    order = None if choice == "ours" else _order(found, choice)
    for count in counts:
        while len(label) < count:
            beat = (
                _next(groups, label, rule)
                if order is None
                else (order[len(label)] if len(label) < len(order) else None)
            )
            if beat is None:
                break
            label[beat] = str(symbol[beat])
        yield count, dict(label)


def _next(groups: Groups, label: dict[int, str], rule: Rule | None) -> int | None:
    group = next_group(groups, label, rule=rule)
    return None if group is None else int(groups.beat[group])


def _order(found: GroupedBeats, choice: str) -> list[int]:
    """Return all beats in the order they are asked for: at random, or the most central one first and then those that
    the model is least sure of, one from each smallest group in turn."""
    if choice == "random":
        order: list[int] = np.random.default_rng(0).permutation(found.grouped).tolist()
        return order
    unsure = np.argsort(found.predictions.confidence[: found.grouped], kind="stable")
    turn = np.zeros(found.grouped, np.int64)
    met: dict[int, int] = {}
    for beat in unsure.tolist():
        leaf = int(found.groups.leaf[beat])
        turn[beat] = met[leaf] = met.get(leaf, -1) + 1
    first = int(found.groups.beat[0])
    rest = unsure[np.argsort(turn[unsure], kind="stable")].tolist()
    return [first, *(beat for beat in rest if beat != first)]


def annotation(found: GroupedBeats, symbol: NDArray[np.str_]) -> Annotation:
    """Return marks for symbols (beats,); what nobody could tell takes the model's, what is no beat is left out."""
    known = np.where(symbol == CANNOT_TELL, found.names[: len(symbol)], symbol)
    beat = known != NO_BEAT
    sample = found.beats.r_samples[: len(symbol)][beat]
    return Annotation(sample, known[beat], ("",) * len(sample))


def class_numbers(found: GroupedBeats, symbol: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return the bundle's class of each symbol, -1 for what has none."""
    return found.bundle.labels.encode(symbol).astype(np.int64)


def of_kind(counts: NDArray[np.int64], kind: str) -> int:
    """Return how many beats of a kind a record's counts (7, 7) hold."""
    return int(counts[CLASSES.index(kind)].sum())


#: Of a beat's nearest ones, whose kinds make it a doubtful one.
NEIGHBOURS = 10


def mistaken(found: GroupedBeats, symbol: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return what a person may take each beat for who errs: (beats,) symbols, ``""`` where there is no doubt.

    F is taken for V and V for F, S for N, where the recording has both; any other beat for the most frequent other kind
    among its ten nearest ones, if there is one. The symbol is the recording's most frequent one of that kind.
    """
    kinds = np.array([KIND_OF.get(one, "") for one in symbol.tolist()])
    usual = {kind: Counter(symbol[kinds == kind].tolist()).most_common(1)[0][0] for kind in set(kinds.tolist()) - {""}}
    wrong = np.full(len(symbol), "", dtype="<U1")
    at = found.groups.points.at
    _, near = cKDTree(at).query(at, k=min(NEIGHBOURS + 1, len(at)))
    for beat, kind in enumerate(kinds.tolist()):
        rival = {"F": "V", "V": "F", "S": "N"}.get(kind, "")
        if not kind:
            continue
        if rival not in usual:
            others = Counter(one for one in kinds[near[beat]].tolist() if one not in ("", kind))
            rival = others.most_common(1)[0][0] if others else ""
        wrong[beat] = usual.get(rival, "")
    return wrong


def as_answered(found: GroupedBeats, symbol: NDArray[np.str_], rate: float, seed: int) -> NDArray[np.str_]:
    """Return what a person answers who errs in a share of the doubtful beats (``mistaken``), (beats,) symbols."""
    wrong = mistaken(found, symbol)
    errs = np.random.default_rng([seed, 34]).random(len(symbol)) < rate
    return np.where(errs & (wrong != ""), wrong, symbol)
