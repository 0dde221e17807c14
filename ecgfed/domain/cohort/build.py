"""From recordings to a cohort, whatever their source."""

import contextlib
import os
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.base import platform
from ecgfed.base.errors import CohortError, OptionError, RecordError, param
from ecgfed.base.executors import in_order, process_pool
from ecgfed.base.files import replacing_folder, sha256
from ecgfed.base.safe_io import check_labels, check_name
from ecgfed.base.text import listed
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, Labels, Windows, no_windows
from ecgfed.domain.beats.path import OnSamplesFactory, RecordingBeats, cut_beats, read_beats
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.cohort.clients import of_first_lead
from ecgfed.domain.cohort.cohort import UNLABELLED
from ecgfed.domain.cohort.other_leads import in_training, training_beats
from ecgfed.domain.cohort.sources import PrepareOptions, Source, weak_labels
from ecgfed.domain.cohort.split import TRAIN, split_beats
from ecgfed.domain.cohort.writer import CohortWriter
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.anonymous import anonymous_annotation, lead_names, removed_fields
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.reader import annotation_file, open_recording, record_path
from ecgfed.domain.record.recording import Recording, is_synthetic, spans
from ecgfed.domain.signal import filters
from ecgfed.domain.signal.detectors import DEFAULT_MAINS_HZ
from ecgfed.domain.signal.size import too_large

OnProgress = Callable[[str, int, int], None]
#: A recording without labelled beats that is shorter is left out: it says too little of rhythm, and of whose beats.
SHORTEST_S = 10.0
#: Beats of a long recording that are written at once.
_AT_ONCE = 4096


@dataclass(frozen=True)
class _Read:
    """What a worker sends home for one recording, and which fields of its files did not come into the cohort."""

    label: NDArray[np.int16]  # (beats,) class numbers of the labelled beats
    sample: NDArray[np.int64]
    rr_s: NDArray[np.float32]  # (beats, features)
    flags: NDArray[np.uint8]
    window_mv: NDArray[np.float32] | Path  # (beats, 1, 256), or their file for a recording read by blocks
    metadata: dict[str, Any]
    mark: NDArray[np.int64]  # (beats,) annotated beats behind them, as of ``Labels``
    removed: tuple[str, ...] = ()
    others: tuple["_Read", ...] = ()  # of the other leads

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


def _read_record(
    path: Path, name: str, options: PrepareOptions, folder: Path, on_samples_for: OnSamplesFactory = None
) -> _Read:
    every, how = [_read_lead(path, name, options, folder, on_samples_for)], options.beats
    others: list[str] = []
    if options.train_leads == "all" and len(every[0].label):
        recording = open_recording(path, how.leads, every_lead=True, how=how.how)
        others += [lead for lead in ecg_alone(recording).leads if lead != recording.lead]
    for lead in others:
        alone = replace(options, beats=replace(how, leads=(lead,)))  # as if there were no other
        try:
            every.append(_read_lead(path, name, alone, folder))
        except RecordError:  # the first lead could be read: in this one no beat is detected
            every.append(_without_beats(replace(recording, lead=lead), name, options, "none_detected"))
    if options.anonymous:  # a lead's name may be any text
        names, renamed = lead_names([str(read.metadata["lead"]) for read in every], how.leads)
        pairs = zip(every, names, strict=True)
        every = [replace(read, metadata={**read.metadata, "lead": lead}) for read, lead in pairs]
        every[0] = replace(every[0], removed=(*every[0].removed, *["names of leads"] * bool(renamed)))
    return replace(every[0], others=tuple(every[1:]))


def _read_lead(
    path: Path, name: str, options: PrepareOptions, folder: Path, on_samples_for: OnSamplesFactory = None
) -> _Read:
    if options.unlabelled:
        return _read_unlabelled(path, name, options, folder)
    cut = read_beats(path, options.beats, annotated=True, on_samples_for=on_samples_for)
    return _labelled(cut, cut.labels(options.labels), name, options, folder)


def _read_unlabelled(path: Path, name: str, options: PrepareOptions, folder: Path) -> _Read:
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


def _without_beats(recording: Recording, name: str, options: PrepareOptions, reason: str) -> _Read:
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
    return _Read(empty.astype(np.int16), empty, nothing.rr_s, nothing.flags, nothing.window_mv, metadata, empty)


def _labelled(cut: RecordingBeats, labelled: Labels, name: str, options: PrepareOptions, folder: Path) -> _Read:
    """Return a recording's labelled beats, and what ``cohort.json`` says of it."""
    recording, quality = cut.recording, cut.quality
    window_mv, rr_s, flags, used = _with_signal(cut, labelled.keep, folder)
    at = cut.r_samples[labelled.keep][used]
    counted = cut.exclusions(labelled, int((~used).sum()))
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
    return _Read(labelled.label[used], at, rr_s, flags, window_mv, metadata, labelled.mark[used], removed)


_Spooled = tuple[NDArray[np.float32] | Path, NDArray[np.float32], NDArray[np.uint8], NDArray[np.bool_]]


def _with_signal(cut: RecordingBeats, keep: NDArray[np.int64], folder: Path) -> _Spooled:
    """Return windows (or their file), RR features and flags of the beats with a signal, and which these are."""
    recording = cut.recording
    parts, used, spool = [nothing := no_windows(cut.rr_version)], [np.empty(0, np.bool_)], None
    with contextlib.ExitStack() as stack:
        if recording.is_lazy:
            handle, name = tempfile.mkstemp(".windows", ".", folder)
            spool, out = Path(name), stack.enter_context(os.fdopen(handle, "wb"))
        for block in cut.blocks(keep):
            at = keep[sum(map(len, used)) :][: len(block.flags)]
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


def _read_all(
    sources: Sequence[Source],
    options: PrepareOptions,
    folder: Path,
    by: Executor | int,
    on_samples_for: OnSamplesFactory,
) -> Iterator[_Read]:
    paths = [path for source in sources for path in source.records]
    names = [name for source in sources for name in source.called]
    scored = replace(options, train_leads="first")  # held out: none of their beats is trained on
    by_record = [scored if source.id in options.holdout else options for source in sources for _ in source.records]
    # a detector that was made in place is nowhere to be found by another process
    if (isinstance(by, int) and (by <= 1 or len(paths) < 4)) or not options.beats.qrs_detector.origin:
        for path, name, how in zip(paths, names, by_record, strict=True):
            yield _read_record(path, name, how, folder, on_samples_for)
        return
    pool = process_pool(by) if isinstance(by, int) else by
    try:
        yield from in_order(pool, _read_record, zip(paths, names, by_record, [folder] * len(paths), strict=True))
    except BrokenExecutor:
        action = f"free memory or pass a smaller {param('workers')}, then run the same command again"
        raise CohortError("the recordings", "a worker process was killed while it read them", action=action) from None
    finally:
        if pool is not by:
            pool.shutdown(wait=True, cancel_futures=True)


def _check(sources: Sequence[Source], options: PrepareOptions) -> None:
    ids = [source.id for source in sources]
    for source in sources:  # before the work: what a cohort could not be opened with
        check_name(source.id, "client", "the source", CohortError)
        check_name(source.patient, "patient", "the source", CohortError)
        check_labels((record_path(path).name for path in source.records), "record", "the source", CohortError)
    if len({name.casefold() for name in ids}) < len(ids):
        raise CohortError("the source", "two clients have the same id", "an id of its own for each, whatever its case")
    if not sources:
        raise CohortError("the source", "holds no recordings", action="check the folder and the lead")
    unknown = sorted(set(options.holdout) - set(ids))
    if unknown:
        problem = f"no client {', '.join(unknown)}"
        raise OptionError("holdout", problem, f"ids among {listed(ids, 12)}", code="unknown-choice")
    if len(set(options.holdout)) == len(ids):
        raise OptionError("holdout", "every client is held out", "at least one client left to train on")


def build_cohort(
    sources: Sequence[Source],
    out: Path,
    options: PrepareOptions,
    *,
    kind: str,
    metadata: dict[str, Any] | None = None,
    overwrite: bool = False,
    workers: Executor | int | None = None,
    on_progress: OnProgress | None = None,
    check: Callable[[dict[str, int]], None] | None = None,
    on_samples_for: OnSamplesFactory = None,
) -> None:
    """Read all recordings and write the cohort folder ``out``.

    Args:
        sources: the clients and their recordings.
        out: folder to make.
        options: how.
        kind: ``mitbih``, ``folder``, ``demo``: what the cohort is made from.
        metadata: more to say in ``cohort.json``.
        overwrite: replace ``out`` where it exists.
        workers: processes, or what has them; one a core by default. The result does not depend on it.
        on_progress: called after each record with its name, the number done and the number of all.
        on_samples_for: returns the progress callback of a recording; unused where several processes read.
        check: called with the beats of each class before anything is kept; raises where they cannot be right.

    Raises:
        RecordError: a recording that cannot be used.
        CohortError: no recordings, or no beat of any class in them.
        OptionError, StorageError: see ``replacing_folder``.
    """
    _check(sources, options)
    total = sum(len(source.records) for source in sources)
    version = options.beats.rr_version
    with replacing_folder(out, overwrite=overwrite) as folder, CohortWriter(folder, rr_version=version) as writer:
        build = _Build(options, writer)
        read = _read_all(sources, options, folder, workers or platform.cores(), on_samples_for)
        for source in sources:
            parts = []
            for _ in source.records:
                parts.append(next(read))
                if on_progress:
                    on_progress(parts[-1].metadata["name"], len(of_first_lead(build.records)) + len(parts), total)
            build.add(source, parts)
        by_class = {name: int(n) for name, n in zip(options.labels.classes, build.counts, strict=True)}
        if all(entry["holdout"] for entry in build.clients):
            problem, symbols = "hold no beat of any class to train on", f"one of {', '.join(options.labels.symbols)}"
            action = f"choose other classes with {param('classes')}"
            raise CohortError("the recordings", problem, symbols, action, code="no-beats")
        if check:
            check(by_class)
        writer.finish(_meta(kind, build, by_class, metadata))


class _Build:
    """A cohort while it grows, one client after the other."""

    def __init__(self, options: PrepareOptions, writer: CohortWriter) -> None:
        self.options, self.writer = options, writer
        self.clients: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.removed: Counter[str] = Counter()
        self.without_beats: list[str] = []
        self.weak: list[Source] = []
        self.counts = np.zeros(len(options.labels.classes), dtype=np.int64)

    def add(self, source: Source, read: list[_Read]) -> None:
        """Write one client's beats; a client without any is only noted."""
        numbers = range(len(self.records), len(self.records) + len(read))
        self.records += [recording.metadata for recording in read]
        self.removed.update(field for recording in read for field in set(recording.removed))
        label = np.concatenate([part.label for part in read])
        if not len(label):
            self.without_beats.append(source.id)
            for part in read:
                deque(part.windows(), 0)
            return
        self.counts += np.bincount(label[label != UNLABELLED], minlength=len(self.counts))
        # a client's split depends on the seed and its own id alone, not on who else is in the cohort
        seed = int(np.random.SeedSequence([self.options.seed, *source.id.encode()]).generate_state(1)[0])
        split, start, others = split_beats(label, self.options.split, seed), 0, []
        if source.record_label:  # beats without a label are scored nowhere
            self.weak.append(source)
            split = np.full(len(label), TRAIN, np.uint8)
        for number, part in zip(numbers, read, strict=True):
            part_split, start = split[start : start + len(part.label)], start + len(part.label)
            self._append(part, number, part_split, np.ones(len(part_split), np.bool_))
            others += [(other, part, in_training(other.mark, part.mark, part_split)) for other in part.others]
        for other, part, trains in others:
            keep, entry = training_beats(other.metadata, other.flags, trains, str(part.metadata["lead"]))
            self._append(other, len(self.records), np.full(len(keep), TRAIN), keep)
            self.records.append(entry)
        client = {"id": source.id, "patient": source.patient, "records": list(source.called)}
        self.clients.append({**client, "holdout": source.id in self.options.holdout, "beats": len(label)})

    def _append(self, part: _Read, number: int, split: NDArray[np.integer], keep: NDArray[np.bool_]) -> None:
        """Write one recording's labelled beats in one lead, those to ``keep``, some at a time."""
        at = 0
        for window_mv in part.windows():
            rows = at + np.flatnonzero(keep[at : at + len(window_mv)])
            numbers = {"record": np.full(len(rows), number), "client": np.full(len(rows), len(self.clients))}
            stored = {name: getattr(part, name)[rows] for name in ("flags", "label", "sample")}
            self.writer.append(beats=window_mv[rows - at], rr=part.rr_s[rows], split=split[rows], **stored, **numbers)
            at += len(window_mv)


def _meta(kind: str, build: _Build, by_class: dict[str, int], metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Everything ``cohort.json`` says beside the counts."""
    options, cut = build.options, build.options.beats
    detected, unusual_mains = cut.peaks == "detected", cut.mains_hz not in (None, DEFAULT_MAINS_HZ)
    return {
        "kind": kind,
        "tool_version": __version__,
        "classes": list(options.labels.classes),
        "label_map": options.labels.as_json(),
        "fs_hz": FS_HZ,
        "window_samples": WINDOW_SAMPLES,
        "r_index": R_INDEX,
        "rr_version": cut.rr_version,
        "rr_features": list(RR_NAMES[cut.rr_version]),
        # where none was requested, those that were taken
        "leads": list(cut.leads or dict.fromkeys(str(record["lead"]) for record in of_first_lead(build.records))),
        **({"train_leads": options.train_leads} if options.train_leads != "first" else {}),
        "units": "mV",
        "filter": filters.DESCRIPTION,
        "normalised": False,
        "split": options.split,
        "peaks": cut.peaks,
        "detector": cut.qrs_detector.name if detected else None,
        **({"mains_hz": cut.mains_hz} if detected and unusual_mains else {}),
        "seed": options.seed,
        "reading": {"fs_hz": cut.how.fs_hz, "units": cut.how.units, "columns": list(cut.how.columns)},
        "holdout": list(options.holdout),
        "class_counts": by_class,
        "clients": build.clients,
        "records": build.records,
        "without_beats": build.without_beats,
        **weak_labels(build.weak),
        **({"anonymised": {"removed": dict(sorted(build.removed.items()))}} if options.anonymous else {}),
        **(metadata or {}),
    }
