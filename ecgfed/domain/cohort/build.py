"""From recordings to a cohort, whatever their source."""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.base import platform
from ecgfed.base.errors import CohortError, OptionError, param
from ecgfed.base.executors import in_order, process_pool
from ecgfed.base.files import replacing_folder
from ecgfed.base.safe_io import check_labels, check_name
from ecgfed.base.text import listed
from ecgfed.domain.beats.path import OnSamplesFactory
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.cohort.clients import of_first_lead
from ecgfed.domain.cohort.cohort import UNLABELLED
from ecgfed.domain.cohort.other_leads import in_training, training_beats
from ecgfed.domain.cohort.record_beats import RecordBeats, read_record
from ecgfed.domain.cohort.resplit import client_seed
from ecgfed.domain.cohort.sources import PrepareOptions, Source, weak_labels
from ecgfed.domain.cohort.split import GAP_S, TRAIN, split_beats
from ecgfed.domain.cohort.time_split import TimeSplit, marks_of, time_splits
from ecgfed.domain.cohort.writer import CohortWriter
from ecgfed.domain.record.reader import record_path
from ecgfed.domain.signal import filters
from ecgfed.domain.signal.detectors import DEFAULT_MAINS_HZ

OnProgress = Callable[[str, int, int], None]


def _read_all(
    sources: Sequence[Source],
    options: PrepareOptions,
    folder: Path,
    by: Executor | int,
    on_samples_for: OnSamplesFactory,
) -> Iterator[RecordBeats]:
    paths = [path for source in sources for path in source.records]
    names = [name for source in sources for name in source.called]
    scored = replace(options, train_leads="first")  # held out: none of their beats is trained on
    by_record = [scored if source.id in options.holdout else options for source in sources for _ in source.records]
    # a detector that was made in place is nowhere to be found by another process
    if (isinstance(by, int) and (by <= 1 or len(paths) < 4)) or not options.beats.qrs_detector.origin:
        parts = _time_splits(sources, options, itertools.starmap(marks_of, ((path, options) for path in paths)))
        for path, name, how, part in zip(paths, names, by_record, parts, strict=True):
            yield read_record(path, name, how, folder, part, on_samples_for)
        return
    pool = process_pool(by) if isinstance(by, int) else by
    try:
        parts = _time_splits(sources, options, in_order(pool, marks_of, ((path, options) for path in paths)))
        tasks = zip(paths, names, by_record, [folder] * len(paths), parts, strict=True)
        yield from in_order(pool, read_record, tasks)
    except BrokenExecutor:
        action = f"free memory or pass a smaller {param('workers')}, then run the same command again"
        raise CohortError("the recordings", "a worker process was killed while it read them", action=action) from None
    finally:
        if pool is not by:
            pool.shutdown(wait=True, cancel_futures=True)


def _time_splits(
    sources: Sequence[Source], options: PrepareOptions, marks: Iterator[tuple[NDArray[np.int64], float]]
) -> list[TimeSplit | None]:
    """Return the parts of each recording of a chronological split; None for each of another one, or without labels."""
    if options.split != "chronological" or options.unlabelled:
        return [None for source in sources for _ in source.records]
    return [part for source in sources for part in time_splits([next(marks) for _ in source.records])]


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

    def add(self, source: Source, read: list[RecordBeats]) -> None:
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
        seed = client_seed(self.options.seed, source.id)
        start, others = 0, []
        if source.record_label:  # beats without a label are scored nowhere
            self.weak.append(source)
            split = np.full(len(label), TRAIN, np.uint8)
        elif by_time := [part.split for part in read if part.split is not None]:
            split = np.concatenate(by_time)
        else:
            split = split_beats(label, self.options.split, seed)
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

    def _append(self, part: RecordBeats, number: int, split: NDArray[np.integer], keep: NDArray[np.bool_]) -> None:
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
        **({"split_gap_s": GAP_S} if options.split == "chronological" else {}),
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
