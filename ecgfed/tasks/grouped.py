"""The beats of a recording in groups of alike ones: what ``label`` asks about, and what ``personalize`` spreads labels
over. The same recording, model and seed give the same groups. No torch.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.text import count_of
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, cut_beats, require_marks
from ecgfed.domain.events.kinds import Kind, kind_of
from ecgfed.domain.labels.groups import LEAVES, Groups, group_beats
from ecgfed.domain.labels.likeness import KINDS, MOST_LEADS, Floats, points_of
from ecgfed.domain.record.leads import are_ecg
from ecgfed.domain.record.recording import AnyRecording, spans
from ecgfed.domain.signal.block_quality import quality_of
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.predict import beats_excluded, opened_bundle
from ecgfed.tasks.records import recording_digests
from ecgfed.tasks.watch import NOBODY, Watch, minutes_told

#: Context features are those of this version of the RR features, whatever the model takes.
_CONTEXT_VERSION = 2
#: Samples that are read at once.
_BLOCK_SAMPLES = 1 << 20
#: kind of a class -> where its probability counts; classes of several kinds count nowhere.
_COLUMN = {Kind.NORMAL: "N", Kind.SUPRA: "S", Kind.VENTRICULAR: "V", Kind.FUSION: "F", Kind.PACED: "Q", Kind.OTHER: "Q"}


def recording_id(recording: AnyRecording) -> str:
    """Return 16 hexadecimal digits that say which recording labels are of.

    They are the first of SHA-256 over the digests of its files; of a recording without files, over its leads, its
    sampling frequency and its samples. Its name and header do not count.
    """
    digest = hashlib.sha256()
    if digests := recording_digests(recording):
        digest.update("".join(digests).encode())
    else:
        digest.update(json.dumps([*recording.leads, recording.fs_hz]).encode())
        for start, stop in spans(recording.samples, _BLOCK_SAMPLES):
            digest.update(np.ascontiguousarray(recording.read(start, stop), "<f8").tobytes())
    return digest.hexdigest()[:16]


@renamed_fields("0.3", "0.5", answers="predictions", all_answers="all_predictions")
@dataclass(frozen=True, eq=False)
class GroupedBeats:
    """The beats of a recording, what a model says of them, and their groups.

    Attributes:
        beats: the recording's beats whose lead shows a signal.
        bundle: whose global model looked at them.
        predictions: what it says of these.
        groups: of the first of them, those before ``minutes`` where a person said so.
        all_beats: all beats of the recording; those without signal are in no group, and nobody is asked about them.
        all_predictions: what the model says of all of them.
    """

    beats: RecordingBeats
    bundle: Bundle
    predictions: Predictions
    groups: Groups
    all_beats: RecordingBeats
    all_predictions: Predictions

    @property
    def grouped(self) -> int:
        """How many beats are in groups, the first ones."""
        return len(self.groups.leaf)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(beats,) int64 the numbers of the beats with a signal among all beats."""
        return np.flatnonzero(self.all_predictions.classified)

    @property
    def excluded(self) -> Exclusions:
        """How many beats were read, are in groups or could be, and were excluded."""
        return beats_excluded(self.all_beats, self.all_predictions)

    @cached_property
    def names(self) -> NDArray[np.str_]:
        """(beats,) the symbol that the model gives each beat."""
        symbols = [self.bundle.labels.symbol_of(name) for name in self.bundle.classes]
        return np.array(symbols, dtype=np.str_)[self.predictions.label]


def grouped_beats(
    recording: AnyRecording,
    options: BeatOptions,
    bundle: Bundle | str | None = None,
    *,
    minutes: float | None = None,
    leaves: int = LEAVES,
    seed: int = 0,
    watch: Watch = NOBODY,
) -> GroupedBeats:
    """Find the beats of a recording and join alike ones to groups.

    Args:
        recording: with all its leads, the one in use chosen.
        options: how its beats are found; ``rr_version`` is that of the bundle.
        bundle: whose global model looks at them; default the model in the package.
        minutes: only beats of the first minutes are joined to groups.
        leaves: smallest groups.
        seed: for the choice among the beats of a long recording.
        watch: told how far a long recording is.

    Raises:
        EcgfedError: as ``predict``; and for a recording without a beat in these minutes.
    """
    opened = opened_bundle(bundle)
    options = replace(options, rr_version=opened.rr_version or 1)
    beats = cut_beats(recording, options, on_samples=minutes_told(watch, "minutes read", recording))
    require_marks(beats, options)
    _first(beats, minutes)
    all_beats, all_predictions = beats, opened.classifier(None).classify_blocks(beats.blocks())
    keep = np.flatnonzero(all_predictions.classified)
    beats, predictions = all_beats.chosen(keep), all_predictions.chosen(keep)
    first = _first(beats, minutes, without=len(all_predictions) - len(keep))
    points = points_of(
        [windows_on(beats, lead, first) for lead in displayed_leads(recording)],
        beats.intervals_s[:first],
        _context(beats)[:first],
        _prior(opened.labels, opened.classes, predictions.probability)[:first],
    )
    groups = group_beats(points, leaves, seed=seed)
    return GroupedBeats(beats, opened, predictions, groups, all_beats, all_predictions)


def _first(beats: RecordingBeats, minutes: float | None, *, without: int = 0) -> int:
    """Return how many beats lie in the first minutes, all for None; ``without`` others show no signal."""
    recording = beats.recording
    if minutes is not None and not 0 < minutes < float("inf"):
        raise OptionError("--minutes", f"{minutes:g}", "more than 0")
    count = len(beats.r_samples)
    if minutes is not None:
        count = int(np.searchsorted(beats.r_samples, minutes * 60 * recording.fs_hz))
    if not count:
        where = "in the recording" if minutes is None else f"in the first {count_of(minutes, 'minute')}"
        shows = f" whose signal {recording.lead} shows ({count_of(without, 'beat')} without)" if without else ""
        raise RecordError(recording.path, f"no beat{shows} was found {where}", "some to label", "try another --lead")
    return count


def displayed_leads(recording: AnyRecording) -> list[str]:
    """Return the leads that are looked at, the one in use first."""
    other_ecg_leads = [name for name in recording.leads if name != recording.lead and are_ecg([name])[0]]
    return [recording.lead, *other_ecg_leads][:MOST_LEADS]


def windows_on(beats: RecordingBeats, lead: str, first: int) -> Callable[[], Iterator[NDArray[np.float32]]]:
    """Return what gives the windows (some beats, 256) of the first beats on a lead, block by block."""
    on_lead = beats
    if lead != beats.recording.lead:
        recording = replace(beats.recording, lead=lead)
        on_lead = replace(beats, recording=recording, quality=quality_of(recording, lead))

    def blocks() -> Iterator[NDArray[np.float32]]:
        yielded = 0
        for block in on_lead.blocks():
            yield block.window_mv[: max(first - yielded, 0), 0]
            yielded += len(block.flags)

    return blocks


def _context(beats: RecordingBeats) -> Floats:
    """Return the context features of all beats."""
    with_context = beats if beats.rr_version == _CONTEXT_VERSION else replace(beats, rr_version=_CONTEXT_VERSION)
    return np.concatenate([block.rr_s.astype(np.float64) for block in with_context.blocks()])


def _prior(labels: LabelMap, classes: tuple[str, ...], probability: NDArray[np.float32]) -> Floats:
    """Return how likely each of ``KINDS`` is, (beats, 5), of a model's probabilities (beats, classes)."""
    symbols: Mapping[str, list[str]] = {name: [] for name in classes}
    for symbol, name in labels.symbols.items():
        symbols[name].append(symbol)
    prior = np.zeros((len(probability), len(KINDS)))
    for number, name in enumerate(classes):
        prior[:, KINDS.index(_COLUMN[kind_of(symbols[name])])] += probability[:, number]
    return prior
