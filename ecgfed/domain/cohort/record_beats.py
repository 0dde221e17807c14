"""From one recording to its labelled beats, as a worker of ``build_cohort`` reads it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.files import sha256
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, Labels, Windows, no_windows
from ecgfed.domain.beats.path import OnSamplesFactory, RecordingBeats, cut_beats, read_beats
from ecgfed.domain.beats.windows import WINDOW_SAMPLES
from ecgfed.domain.cohort.cohort import UNLABELLED
from ecgfed.domain.cohort.sources import PrepareOptions
from ecgfed.domain.cohort.time_split import TimeSplit, by_part, without_gap
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.anonymous import anonymous_annotation, lead_names, removed_fields
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.reader import annotation_file, open_recording
from ecgfed.domain.record.recording import Recording, is_synthetic, spans
from ecgfed.domain.signal.size import too_large

#: A recording without labelled beats that is shorter is left out: it says too little of rhythm, and of whose beats.
SHORTEST_S = 10.0
#: Beats of a long recording that are written at once.
_AT_ONCE = 4096


@dataclass(frozen=True)
class RecordBeats:
    """What a worker sends home for one recording, and which fields of its files did not come into the cohort."""

    label: NDArray[np.int16]  # (beats,) class numbers of the labelled beats
    sample: NDArray[np.int64]
    rr_s: NDArray[np.float32]  # (beats, features)
    flags: NDArray[np.uint8]
    window_mv: NDArray[np.float32] | Path  # (beats, 1, 256), or their file for a recording read by blocks
    metadata: dict[str, Any]
    mark: NDArray[np.int64]  # (beats,) annotated beats behind them, as of ``Labels``
    split: NDArray[np.uint8] | None = None  # (beats,) of a chronological split
    removed: tuple[str, ...] = ()
    others: tuple["RecordBeats", ...] = ()  # of the other leads

    def windows(self) -> Iterator[NDArray[np.float32]]:
        """Yield the windows (beats, 1, 256), some at a time; their file is gone after that."""
        if not isinstance(self.window_mv, Path):
            yield self.window_mv
            return
        for start, stop in spans(len(self.label), _AT_ONCE):
            numbers = WINDOW_SAMPLES * (stop - start)
            windows = np.fromfile(self.window_mv, np.float32, numbers, offset=4 * WINDOW_SAMPLES * start)
            yield windows.reshape(stop - start, 1, WINDOW_SAMPLES)
        self.window_mv.unlink()


def read_record(
    path: Path,
    name: str,
    options: PrepareOptions,
    folder: Path,
    by_time: TimeSplit | None = None,
    on_samples_for: OnSamplesFactory = None,
) -> RecordBeats:
    """Read one recording: its labelled beats in its first lead, and in the others where these are trained on.

    Args:
        path: of the recording.
        name: what the cohort calls it.
        options: how.
        folder: where the windows of a long recording lie until they are written.
        by_time: the parts of a chronological split.
        on_samples_for: returns the progress callback of a recording.

    Raises:
        RecordError: the recording cannot be used.
    """
    every, how = [_read_lead(path, name, options, folder, by_time, on_samples_for)], options.beats
    others: list[str] = []
    if options.train_leads == "all" and len(every[0].label):
        recording = open_recording(path, how.leads, every_lead=True, how=how.how)
        others += [lead for lead in ecg_alone(recording).leads if lead != recording.lead]
    for lead in others:
        alone = replace(options, beats=replace(how, leads=(lead,)))  # as if there were no other
        try:
            every.append(_read_lead(path, name, alone, folder, by_time))
        except RecordError:  # the first lead could be read: in this one no beat is detected
            every.append(_without_beats(replace(recording, lead=lead), name, options, "none_detected"))
    if options.anonymous:  # a lead's name may be any text
        names, renamed = lead_names([str(read.metadata["lead"]) for read in every], how.leads)
        pairs = zip(every, names, strict=True)
        every = [replace(read, metadata={**read.metadata, "lead": lead}) for read, lead in pairs]
        every[0] = replace(every[0], removed=(*every[0].removed, *["names of leads"] * bool(renamed)))
    return replace(every[0], others=tuple(every[1:]))


def _read_lead(
    path: Path,
    name: str,
    options: PrepareOptions,
    folder: Path,
    by_time: TimeSplit | None,
    on_samples_for: OnSamplesFactory = None,
) -> RecordBeats:
    if options.unlabelled:
        return _read_unlabelled(path, name, options, folder)
    cut = read_beats(path, options.beats, annotated=True, on_samples_for=on_samples_for)
    return _labelled(cut, cut.labels(options.labels), name, options, folder, by_time)


def _read_unlabelled(path: Path, name: str, options: PrepareOptions, folder: Path) -> RecordBeats:
    """Read a recording whose beats nobody labelled; without beats where it is too short, shows none, or is noise."""
    recording = open_recording(path, options.beats.leads, every_lead=options.beats.every_lead, how=options.beats.how)
    try:
        cut = cut_beats(recording, options.beats)
        reason = "all_noise" if cut.quality.spans().total >= recording.samples else ""
    except RecordError:  # of a recording that could be opened: nothing in it is a beat
        cut, reason = None, "none_detected"
    if recording.duration_s < SHORTEST_S:
        reason = "too_short"
    if cut is not None and not reason:
        beats = np.arange(len(cut.r_samples))
        unlabelled = Labels(beats, np.full(len(beats), UNLABELLED, np.int16), cut.r_samples, {}, (0, 0))
        return _labelled(cut, unlabelled, name, options, folder)
    return _without_beats(recording, name, options, reason)


def _without_beats(recording: Recording, name: str, options: PrepareOptions, reason: str) -> RecordBeats:
    metadata = {
        "name": name,
        "lead": recording.lead,
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "beats": 0,
        "excluded": {},
        "not_used": reason,
        "sha256": {} if options.anonymous else {file.name: sha256(file) for file in recording.files},
    }
    nothing, empty = no_windows(options.beats.rr_version), np.empty(0, np.int64)
    return RecordBeats(empty.astype(np.int16), empty, nothing.rr_s, nothing.flags, nothing.window_mv, metadata, empty)


def _labelled(
    cut: RecordingBeats,
    labelled: Labels,
    name: str,
    options: PrepareOptions,
    folder: Path,
    by_time: TimeSplit | None = None,
) -> RecordBeats:
    """Return a recording's labelled beats, and what ``cohort.json`` says of it."""
    recording, quality, in_gap = cut.recording, cut.quality, 0
    parts, split = [(cut, labelled.keep)], None
    if by_time is not None:
        labelled, split, in_gap = without_gap(labelled, by_time.of(labelled.mark))
        parts = by_part(cut, labelled, split)
    window_mv, rr_s, flags, used = _with_signal(parts, folder)
    at = cut.r_samples[labelled.keep][used]
    counted = cut.exclusions(labelled, int((~used).sum()))
    counted[0] = replace(counted[0], excluded={**counted[0].excluded, "split_gap": in_gap})
    files = {*recording.files}
    if cut.annotation is None:
        counted = counted[:1]  # beats; there is no annotation to count
    else:
        files.add(annotation_file(recording.path, options.beats.annotator))
    metadata = {
        "name": name,
        "lead": recording.lead,
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "beats": len(at),
        "left_out": labelled.unclassified,
        "excluded": {f"{exclusions.what}s": exclusions.as_json() for exclusions in counted},
        "poor_quality": {
            "usable_s": round(quality.usable_s, 3),
            "seconds": quality.seconds(),
            "beats": int((flags & FLAG_POOR_QUALITY).astype(bool).sum()),
        },
        # a file's name may be a person's, and its digest finds it again
        "sha256": {} if options.anonymous else {file.name: sha256(file) for file in sorted(files)},
    }
    if is_synthetic(recording):
        metadata["synthetic"] = True
    notes = [] if options.anonymous else [*recording.notes]  # they name leads and files
    if cut.annotation is not None and cut.annotation.beyond_end:
        notes.append(end_note(cut.annotation))
    if notes:
        metadata["notes"] = notes
    for large in too_large([cut.size]):  # said only where it is amiss
        metadata["too_large_mv"] = round(large.mv, 1)
    if cut.detected and cut.annotation is not None:
        metadata["peaks_without_annotation"], metadata["annotations_without_peak"] = labelled.unmatched
    removed = _removed(cut) if options.anonymous else ()
    split = None if split is None else split[used]
    return RecordBeats(labelled.label[used], at, rr_s, flags, window_mv, metadata, labelled.mark[used], split, removed)


_Spooled = tuple[NDArray[np.float32] | Path, NDArray[np.float32], NDArray[np.uint8], NDArray[np.bool_]]


def _with_signal(cuts: Sequence[tuple[RecordingBeats, NDArray[np.int64]]], folder: Path) -> _Spooled:
    """Return windows (or their file), RR features and flags of the beats with a signal, and which these are.

    Args:
        cuts: beats of one recording, in parts or all together, and the numbers of those to keep among them.
        folder: where the file lies.
    """
    recording, rr_version = cuts[0][0].recording, cuts[0][0].rr_version
    parts, used, spool = [nothing := no_windows(rr_version)], [np.empty(0, np.bool_)], None
    with contextlib.ExitStack() as stack:
        if recording.is_lazy:
            handle, name = tempfile.mkstemp(".windows", ".", folder)
            spool, out = Path(name), stack.enter_context(os.fdopen(handle, "wb"))
        for cut, keep in cuts:
            first = 0
            for block in cut.blocks(keep):
                at, first = keep[first : first + len(block.flags)], first + len(block.flags)
                holds = ~cut.empty(block.window_mv, cut.r_samples[at])
                used.append(holds)
                some = block.chosen(np.flatnonzero(holds))
                if spool is not None:
                    some.window_mv.tofile(out)
                    some = replace(some, window_mv=nothing.window_mv)
                parts.append(some)
    if spool is None:
        windows = Windows.joined(parts)
        return windows.window_mv, windows.rr_s, windows.flags, np.concatenate(used)
    rr_s, flags = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rr_s", "flags"))
    return spool, rr_s, flags, np.concatenate(used)


def _removed(cut: RecordingBeats) -> tuple[str, ...]:
    """Return which fields that could name a person a cohort does not hold of a recording, without their counts."""
    texts = 0 if cut.annotation is None else anonymous_annotation(cut.annotation)[1]
    fields = [field.partition(" (")[0] for field in removed_fields(cut.recording)]
    return (*fields, *["texts of annotations"] * bool(texts), "digests of the files")
