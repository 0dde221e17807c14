"""A report's labelled beats after the edits of a physician; ``web/edits.js`` has the same rules for the page."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.language import message
from ecgfed.domain.events.kinds import kind_of, meaning_of
from ecgfed.domain.events.rhythm_episodes import REVIEWER, RhythmEpisodes
from ecgfed.domain.labels.edits import REFRACTORY_S, Edits, RhythmEdit
from ecgfed.domain.labels.user_labels import NO_BEAT
from ecgfed.reports.added_beats import with_added
from ecgfed.reports.labelled import Labelled, Second

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Symbols in the order in which classes are added.
_ORDER = "NLRBV/AaJSFfEejnrQ?"


@dataclass(frozen=True, eq=False)
class EditedBeats:
    """The labels of a report before and after editing.

    Attributes:
        base: the labels before.
        labelled: the labels after.
        second: another reader of the remaining beats, or None.
        by_person: (remaining beats,) bool, beats that a person labelled or whose label a person accepted.
        removed: samples of the removed beats.
        added: (remaining beats,) bool, beats that a person added.
        edits: the edits.
    """

    base: Labelled
    labelled: Labelled
    second: Second | None
    by_person: Mask
    removed: Ints
    added: Mask
    edits: Edits


def digest_of(labelled: Labelled, fs_hz: float) -> str:
    """Return the digest of beats, labels and rhythms before editing, 16 hexadecimal digits."""
    rhythms = [[rhythm.to_dict() for rhythm in labelled.rhythms or ()], float(fs_hz)]
    digest = hashlib.sha256(json.dumps(rhythms).encode())
    digest.update(np.ascontiguousarray(labelled.sample, "<i8").tobytes())
    digest.update("".join(labelled.names.tolist()).encode())
    return digest.hexdigest()[:16]


def apply_edits(labelled: Labelled, second: Second | None, edits: Edits, fs_hz: float) -> EditedBeats:
    """Return the labels after editing.

    A beat that a person labelled or accepted is not of low confidence, not doubted and not unlike those of training.
    The interval across a removed beat is confirmed if both intervals beside it were, those beside an added beat are. No
    beat is undetected in such intervals, nor in one that a person accepted.

    Args:
        labelled: the labels before.
        second: another reader of the same beats, or None.
        edits: the edits.
        fs_hz: sampling frequency of the recording.

    Raises:
        RecordError: an edit of a beat or an episode that the report does not have, or a beat that cannot be added.
    """
    base, (labelled, second, added) = labelled, with_added(labelled, second, edits)
    codes, label, by_person = _labels(labelled, edits)
    keep = np.flatnonzero(label >= 0)
    _check_apart(labelled.sample[keep], added[keep], edits, fs_hz)
    new = codes[len(labelled.codes) :]
    kinds = (*labelled.kinds, *(kind_of([code]) for code in new))
    of_person = by_person[keep]
    probability = None
    if labelled.probability is not None:
        columns = len(codes) - labelled.probability.shape[1]
        probability = np.pad(labelled.probability[keep], ((0, 0), (0, columns)))
        probability[of_person] = np.eye(len(codes))[label[keep][of_person]]

    def cleared(values: Mask | None) -> Mask | None:
        return None if values is None else values[keep] & ~of_person

    confirmed, rejected = _intervals(labelled, keep, added[keep], edits)
    changed = replace(
        labelled,
        by=message("{reader}, edited by {author}", reader=labelled.by, author=edits.author),
        sample=labelled.sample[keep],
        label=label[keep],
        classes=(*labelled.classes, *new),
        codes=codes,
        meanings=(*labelled.meanings, *map(meaning_of, new)),
        kinds=kinds,
        confidence=None if labelled.confidence is None else np.where(of_person, 1.0, labelled.confidence[keep]),
        uncertain=cleared(labelled.uncertain),
        rhythms=_rhythms(labelled, edits, fs_hz),
        provisional=labelled.provisional and edits.reviewed is None,
        confirmed=confirmed,
        rejected=rejected,
        undetected=_undetected(labelled, keep, edits),
        doubted=cleared(labelled.doubted),
        probability=probability,
        out_of_distribution=cleared(labelled.out_of_distribution),
        pulses=None if labelled.pulses is None else labelled.pulses[keep],
        no_signal=cleared(labelled.no_signal),
        pacing=labelled.pacing if len(keep) == len(labelled.sample) else None,
    )
    if second is not None:
        second = replace(second, names=second.names[keep], confidence=second.confidence[keep])
    removed = labelled.sample[(label < 0) & ~added]
    return EditedBeats(base, changed, second, of_person, removed, added[keep], edits)


def _labels(labelled: Labelled, edits: Edits) -> tuple[tuple[str, ...], Ints, Mask]:
    """Return the codes of all classes, the class of each beat (-1: removed), and which beats a person labelled."""
    symbols: list[str | None] = [None] * len(labelled.sample)
    by_person = np.zeros(len(symbols), np.bool_)
    for edit in edits.of_beats:
        for at in _numbers(labelled.sample, edit.samples, edits).tolist():
            symbols[at] = symbols[at] if edit.label is None else edit.label
            by_person[at] = True
    new = {symbol for symbol in symbols if symbol is not None} - {*labelled.codes, NO_BEAT}
    codes = (*labelled.codes, *(code for code in _ORDER if code in new))
    number = {code: at for at, code in enumerate(codes)} | {NO_BEAT: -1}
    label = labelled.label.copy()
    for at, symbol in enumerate(symbols):
        if symbol is not None:
            label[at] = number[symbol]
    return codes, label, by_person


def _numbers(sample: Ints, samples: Sequence[int], edits: Edits) -> Ints:
    """Return the numbers of the beats at these samples; raises RecordError where there is none."""
    wanted = np.array(samples, np.int64)
    at = np.searchsorted(sample, wanted)
    missing = np.flatnonzero(np.append(sample, -1)[at] != wanted)
    if len(missing):
        problem = f"edits a beat at sample {wanted[missing[0]]}"
        raise RecordError(edits.path, problem, "a beat of this report, and there is none")
    return np.asarray(at, np.int64)


def _check_apart(sample: Ints, added: Mask, edits: Edits, fs_hz: float) -> None:
    """Refuse an added beat nearer to another remaining beat than the refractory period; raises RecordError."""
    near = np.flatnonzero((np.diff(sample) < REFRACTORY_S * fs_hz) & (added[1:] | added[:-1]))
    if len(near):
        first, second = sample[near[0] : near[0] + 2].tolist()
        apart_ms = 1000 * (second - first) / fs_hz
        problem = f"has an added beat {apart_ms:.0f} ms from another, at samples {first} and {second}"
        raise RecordError(edits.path, problem, f"{1000 * REFRACTORY_S:.0f} ms between an added beat and any other")


def _undetected(labelled: Labelled, keep: Ints, edits: Edits) -> NDArray[np.uint8] | None:
    """Return where a wave may be an undetected beat, of the intervals between remaining beats."""
    if labelled.undetected is None:
        return None
    undetected = np.where(np.diff(keep) == 1, np.append(labelled.undetected, 0)[keep[:-1]], 0).astype(np.uint8)
    sample = labelled.sample[keep]
    for edit in edits.of_intervals:
        at = int(np.searchsorted(sample, edit.start))
        if edit.accepted and sample[at : at + 2].tolist() == [edit.start, edit.stop]:
            undetected[at] = 0
    return undetected


def _intervals(labelled: Labelled, keep: Ints, added: Mask, edits: Edits) -> tuple[Mask | None, Mask | None]:
    """Return which intervals between remaining beats are confirmed, and which of them a person rejected.

    An edit of an interval that is no longer between two consecutive beats has no effect.
    """
    confirmed, sample = labelled.confirmed, labelled.sample[keep]
    if confirmed is not None:
        before = np.concatenate([[0], np.cumsum(~confirmed)])
        confirmed = (before[keep[1:]] == before[keep[:-1]]) | added[1:] | added[:-1]
    if not edits.of_intervals:
        return confirmed, None
    rejected = np.zeros(max(len(sample) - 1, 0), np.bool_)
    for edit in edits.of_intervals:
        _numbers(labelled.sample, (edit.start, edit.stop), edits)
        at = int(np.searchsorted(sample, edit.start))
        if sample[at : at + 2].tolist() == [edit.start, edit.stop]:
            rejected[at] = not edit.accepted
            if confirmed is not None and edit.accepted:
                confirmed[at] = True
    return confirmed, rejected


def _rhythms(labelled: Labelled, edits: Edits, fs_hz: float) -> tuple[RhythmEpisodes, ...] | None:
    """Return the rhythms without rejected episodes, those that a person accepted or renamed last."""
    decided: dict[tuple[str, int, int], RhythmEdit] = {
        (edit.rhythm, edit.start, edit.stop): edit for edit in edits.of_rhythms
    }
    remaining, accepted = list[RhythmEpisodes](), dict[str, list[tuple[float, float]]]()
    for rhythm in labelled.rhythms or ():
        episodes, certainty = list[tuple[float, float]](), list[float]()
        for number, (start, stop) in enumerate(rhythm.episodes):
            edit = decided.pop((rhythm.rhythm, round(start * fs_hz), round(stop * fs_hz)), None)
            if edit is None:
                episodes.append((start, stop))
                certainty += rhythm.certainty[number : number + 1]
            elif edit.label:
                accepted.setdefault(edit.label, []).append((start, stop))
        if episodes:
            remaining.append(replace(rhythm, episodes=tuple(episodes), certainty=tuple(certainty)))
    if edit := next(iter(decided.values()), None):
        problem = f"edits an episode of {edit.rhythm!r:.60} from sample {edit.start} to {edit.stop}"
        raise RecordError(edits.path, problem, "an episode of this report, and there is none")
    remaining += [RhythmEpisodes(name, tuple(sorted(when)), REVIEWER) for name, when in accepted.items()]
    return tuple(remaining) or None
