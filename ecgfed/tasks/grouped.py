"""Beats of a recording in groups of similar beats: ``label`` queries groups, ``personalize`` propagates labels in them.

The same recording, model and seed give the same groups. No torch.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.text import count_of
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import MATCH_S, match_peaks
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, cut_beats, require_marks
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.events.kinds import Kind, kind_of
from ecgfed.domain.labels.groups import LEAVES, Groups, group_beats
from ecgfed.domain.labels.likeness import KINDS, MOST_LEADS, Floats, points_of
from ecgfed.domain.record.leads import are_ecg
from ecgfed.domain.record.recording import Recording, spans
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.predict import beats_excluded, opened_bundle
from ecgfed.tasks.progress import SILENT, ProgressReporter, minutes_reporter
from ecgfed.tasks.records import recording_digests

#: Version of the RR features used as context features, independent of the model; those of version 3 begin with them.
_CONTEXT_VERSION = 2
#: Samples read at a time.
_BLOCK_SAMPLES = 1 << 20
#: kind of a class -> column of its probability; classes of several kinds have none.
_COLUMN = {Kind.NORMAL: "N", Kind.SUPRA: "S", Kind.VENTRICULAR: "V", Kind.FUSION: "F", Kind.PACED: "Q", Kind.OTHER: "Q"}


def recording_id(recording: Recording) -> str:
    """Return an id of the recording, 16 hexadecimal digits, which is stored with its labels.

    It is the beginning of the SHA-256 over the digests of its files, or over the leads, the sampling frequency and the
    samples of a recording without files. The name and the header do not affect it.
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
    """The beats of a recording, with predictions and groups.

    Attributes:
        beats: the beats that have a signal in the lead in use.
        bundle: the bundle whose global model made the predictions.
        predictions: predictions for ``beats``.
        groups: groups of the first beats, those within ``minutes`` if it was set.
        all_beats: all beats of the recording; beats without signal are not grouped and not queried.
        all_predictions: predictions for ``all_beats``.
    """

    beats: RecordingBeats
    bundle: Bundle
    predictions: Predictions
    groups: Groups
    all_beats: RecordingBeats
    all_predictions: Predictions

    @property
    def grouped(self) -> int:
        """Number of grouped beats; they are the first ones."""
        return len(self.groups.leaf)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(beats,) int64, indices of ``beats`` in ``all_beats``."""
        return np.flatnonzero(self.all_predictions.classified)

    @property
    def excluded(self) -> Exclusions:
        """Counts of the beats read, used and excluded."""
        return beats_excluded(self.all_beats, self.all_predictions)

    @cached_property
    def names(self) -> NDArray[np.str_]:
        """(beats,) WFDB symbol of the predicted class of each beat."""
        symbols = [self.bundle.labels.symbol_of(name) for name in self.bundle.classes]
        return np.array(symbols, dtype=np.str_)[self.predictions.label]


def grouped_beats(
    recording: Recording,
    options: BeatOptions,
    bundle: Bundle | str | None = None,
    *,
    minutes: float | None = None,
    leaves: int = LEAVES,
    added: NDArray[np.int64] | None = None,
    seed: int = 0,
    progress: ProgressReporter = SILENT,
) -> GroupedBeats:
    """Find the beats of a recording and group similar beats.

    Args:
        recording: the recording with all its leads and a lead in use.
        options: how to find the beats; ``rr_version`` is replaced by the bundle's.
        bundle: the bundle whose global model is used; default the model in the package.
        minutes: group the beats of the first minutes only.
        leaves: maximum number of the smallest groups.
        added: (beats,) int64 R peaks that a person added; those within 150 ms of a detected one are that beat.
        seed: seed for choosing among the beats of a long recording.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: as ``predict``, and if there is no beat in these minutes.
    """
    opened = opened_bundle(bundle)
    options = replace(options, rr_version=opened.rr_version or 1)
    beats = cut_beats(recording, options, on_samples=minutes_reporter(progress, "minutes read", recording))
    if added is not None and len(added):
        detected = match_peaks(beats.r_samples, added, round(MATCH_S * recording.fs_hz))[1]
        beats = replace(beats, r_samples=np.union1d(beats.r_samples, np.delete(added, detected)))
    require_marks(beats, options)
    _first(beats, minutes)
    all_beats, all_predictions = beats, opened.classifier(None).classify_recording(beats.blocks())
    keep = np.flatnonzero(all_predictions.classified)
    beats, predictions = all_beats.chosen(keep), all_predictions.chosen(keep)
    first = _first(beats, minutes, without=len(all_predictions) - len(keep))
    symbols: Mapping[str, list[str]] = {name: [] for name in opened.classes}
    for symbol, name in opened.labels.symbols.items():
        symbols[name].append(symbol)
    prior = np.zeros((len(predictions.probability), len(KINDS)))
    for number, name in enumerate(opened.classes):
        prior[:, KINDS.index(_COLUMN[kind_of(symbols[name])])] += predictions.probability[:, number]
    windows = [windows_on(beats, lead, first) for lead in displayed_leads(recording)]
    points = points_of(windows, beats.intervals_s[:first], _context(beats)[:first], prior[:first])
    groups = group_beats(points, leaves, seed=seed)
    return GroupedBeats(beats, opened, predictions, groups, all_beats, all_predictions)


def _first(beats: RecordingBeats, minutes: float | None, *, without: int = 0) -> int:
    """Return the number of beats in the first minutes, of all for None; ``without`` is the number without signal."""
    recording = beats.recording
    if minutes is not None and not 0 < minutes < float("inf"):
        raise OptionError("minutes", f"{minutes:g}", "more than 0")
    count = len(beats.r_samples)
    if minutes is not None:
        count = int(np.searchsorted(beats.r_samples, minutes * 60 * recording.fs_hz))
    if not count:
        where = "in the recording" if minutes is None else f"in the first {count_of(minutes, 'minute')}"
        shows = f" whose signal {recording.lead} shows ({count_of(without, 'beat')} without)" if without else ""
        action = f"choose another lead with {param('leads')}"
        raise RecordError(recording.path, f"no beat{shows} was found {where}", "some to label", action, code="no-beats")
    return count


def displayed_leads(recording: Recording) -> list[str]:
    """Return the leads used for grouping and display, beginning with the lead in use."""
    ecg_leads = [name for name in recording.leads if name != recording.lead and are_ecg([name])[0]]
    return [recording.lead, *ecg_leads][:MOST_LEADS]


def windows_on(beats: RecordingBeats, lead: str, first: int) -> Callable[[], Iterator[NDArray[np.float32]]]:
    """Return a function that yields the windows of the first beats on a lead in blocks (beats, 256)."""
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
    """Return the context features of all beats, (beats, features)."""
    with_context = beats if beats.rr_version >= _CONTEXT_VERSION else replace(beats, rr_version=_CONTEXT_VERSION)
    count = len(RR_NAMES[_CONTEXT_VERSION])
    return np.concatenate([block.rr_s[:, :count].astype(np.float64) for block in with_context.blocks()])
