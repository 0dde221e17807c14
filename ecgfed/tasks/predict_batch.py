"""``predict`` for many recordings: failures are listed, the others are completed, with one summary."""

import html
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.deprecation import renamed_fields, renamed_parameters
from ecgfed.base.errors import EcgfedError, OptionError, RecordError, param
from ecgfed.base.files import check_free, write_together
from ecgfed.base.locks import locked
from ecgfed.base.options import flat_options, option
from ecgfed.base.text import count_of, listed, safe_text
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.cohort.folder import doubled, not_utf8, recordings_and_not_read
from ecgfed.domain.record.reader import record_path
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.exports.device.bundle import Bundle
from ecgfed.tasks.batch_entries import StoredEntries
from ecgfed.tasks.batch_state import BatchState, call_of
from ecgfed.tasks.batch_work import BatchRequest, Work, lines_of
from ecgfed.tasks.predict import ENDINGS, opened_bundle
from ecgfed.tasks.prediction_warnings import CODES
from ecgfed.tasks.progress import SILENT, ProgressReporter

#: Name of the summary file.
SUMMARY = "predictions.summary.json"
#: Code of the warning about out-of-distribution beats; largest number of recordings named in a line.
_OUT_OF_DISTRIBUTION, _MAX_NAMED = "far-beats", 6


@renamed_fields(
    "0.3",
    "0.5",
    done="completed",
    uncertain_counts="low_confidence_counts",
    far_counts="out_of_distribution_counts",
    mostly_far="mostly_out_of_distribution",
)
@dataclass(frozen=True, repr=False, eq=False)
class Batch:
    """Results of a batch.

    Attributes:
        completed: JSON-ready, for each classified recording: its metadata, ``file`` (the recording, relative to its
            folder), ``beats``, ``counts``, ``poor_quality_beats``,
            ``uncertain_beats``, ``far_beats``, ``uncertain_counts``, ``far_counts``, ``grave_warnings``, ``files``;
            on the disk and read at each access, so that memory does not grow with the number of recordings.
        failed: ``file``, ``problem``, ``code`` and, if there is one, ``parameter`` of each other recording.
        classes: classes of the bundle.
        summary: path of the summary file; it is not written where no recording was completed.
    """

    completed: Sequence[dict[str, Any]]
    failed: tuple[dict[str, str], ...]
    classes: tuple[str, ...]
    summary: Path

    def __repr__(self) -> str:
        beats = sum(entry["beats"] for entry in self.completed)
        return (
            f"Batch({count_of(len(self.completed), 'recording')}: {count_of(beats, 'beat')}; {len(self.failed)} failed)"
        )

    @property
    def counts(self) -> dict[str, int]:
        """Beats of each class over all recordings."""
        return self._total("counts")

    @property
    def low_confidence_counts(self) -> dict[str, int]:
        """Low-confidence beats of each class over all recordings."""
        return self._total("uncertain_counts")

    @property
    def out_of_distribution_counts(self) -> dict[str, int]:
        """Out-of-distribution beats of each class over all recordings."""
        return self._total("far_counts")

    def _total(self, key: str) -> dict[str, int]:
        return {name: sum(entry[key][name] for entry in self.completed) for name in self.classes}

    @property
    def mostly_out_of_distribution(self) -> tuple[str, ...]:
        """Recordings with more than half of their beats out of distribution; the totals include them."""
        return tuple(entry["file"] for entry in self.completed if 2 * entry["far_beats"] > entry["beats"])

    @property
    def warned(self) -> dict[str, tuple[str, ...]]:
        """Code of each severe warning -> the recordings it applies to."""
        codes = dict.fromkeys(code for entry in self.completed for code in entry["grave_warnings"])
        return {
            code: tuple(entry["file"] for entry in self.completed if code in entry["grave_warnings"]) for code in codes
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about the totals: a sentence for each kind of severe warning, with the recordings."""
        sentences = [
            f"{code}, {CODES[code]}: {listed(names, _MAX_NAMED)}"
            for code, names in self.warned.items()
            if code != _OUT_OF_DISTRIBUTION
        ]
        if files := self.mostly_out_of_distribution:
            beats = sum(entry["beats"] for entry in self.completed if entry["file"] in set(files))
            what = f"{beats:,} of these {count_of(sum(self.counts.values()), 'beat')} are of recordings that are mostly"
            sentences.insert(0, f"{what} far, like none the model was trained on: {listed(files, _MAX_NAMED)}")
        return tuple(sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of the summary file."""
        return {**self._totals(), "done": list(self.completed)}

    def _totals(self) -> dict[str, Any]:
        return {
            "recordings": len(self.completed) + len(self.failed),
            "beats": sum(entry["beats"] for entry in self.completed),
            "counts": self.counts,
            "uncertain_counts": self.low_confidence_counts,
            "far_counts": self.out_of_distribution_counts,
            "unclassified_beats": sum(entry.get("unclassified_beats", 0) for entry in self.completed),
            "mostly_far": list(self.mostly_out_of_distribution),
            "warned": {code: list(names) for code, names in self.warned.items()},
            "failed": list(self.failed),
        }

    def _summary_chunks(self) -> Iterator[bytes]:
        """The JSON text of ``to_dict()``, an entry at a time."""

        def text(value: object) -> str:
            return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)

        yield f'{text(self._totals())[:-2]},\n "done": ['.encode()
        for number, entry in enumerate(self.completed):
            lines = text(entry).replace("\n", "\n  ")  # line breaks within strings are escaped
            yield f"{',' if number else ''}\n  {lines}".encode()
        yield b"\n ]\n}\n"

    def _repr_html_(self) -> str:
        """Return a notebook's table: beats of each class by recording, warnings, and failures."""
        names = ("recording", *self.classes, "uncertain", "far", "warnings")
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        warning_texts = ["; ".join(warning["text"] for warning in entry["warnings"]) for entry in self.completed]
        rows = [
            [entry["file"], *entry["counts"].values(), entry["uncertain_beats"], entry["far_beats"], texts]
            for entry, texts in zip(self.completed, warning_texts, strict=True)
        ]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
        lines = [*self.remarks, *(entry["problem"] for entry in self.failed)]
        remarks = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<table><tr>{head}</tr>{body}</table><ul>{remarks}</ul>"


@dataclass(frozen=True)
class BatchOptions(RecordingOptions):
    """How recordings are read and drawn."""

    strip: bool = option(False, "Also draw 10 s of each on ECG paper.")
    strip_at_s: float | None = option(None, "Start of each strip in seconds; default: where most kinds of beats are.")


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(BatchOptions)
def predict_batch(
    records: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    bundle: Bundle | Path | str | None = None,
    patient: str | None = None,
    int8: bool = False,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Batch:
    """Classify the beats of many recordings, one by one or by an executor. Research use only, not for diagnosis.

    A recording that cannot be used is listed with the reason, and so are broken links, pipes and files or sub-folders
    that cannot be read; the others are completed. An interrupted batch continues with ``resume``, with the same result.

    Args:
        records: recordings of any format, and folders of recordings, searched recursively.
        out: output folder, with the sub-folders of the input: files as of ``RecordingPredictions.save``, and the
            summary, ``predictions.summary.json``.
        bundle: as in ``predict``; so are all arguments up to ``force``.
        patient: see there.
        int8: see there.
        how: how the recording is read: ``ReadOptions``, or all options of the last lines.
        trusted: see there.
        force: see there.
        resume: continue the batch in ``out``: recordings completed by the same call are skipped, unless one of their
            files has changed.
        overwrite: replace files of these names, but never a recording.
        executor: any ``concurrent.futures.Executor``, as dask's: the recordings are shared out among its workers, which
            see the same files; the results are the same (docs/executors.md).
        progress: receives progress, notes and warnings.
        options: the fields of ``BatchOptions``; they take precedence over ``how``.

    Raises:
        EcgfedError: an unusable bundle, patient or option; a folder without recordings, existing files, a batch of
            another call, or one that another process is working on.

    Examples:
        >>> import ecgfed
        >>> ecgfed.predict_batch("cohort-records", "read", bundle="bundle")
        Batch(3 recordings: 247 beats; 0 failed)
    """
    out = Path(out)
    if resume and overwrite:
        raise OptionError(f"{param('resume')} and {param('overwrite')}", "both given", "one of them", code="conflict")
    opened = opened_bundle(bundle, trusted)
    opened.classifier(patient, int8=int8)
    resolved = BatchOptions.merged(how, options, "predict_batch")
    beat_options = resolved.beat_options()
    drawn: dict[str, Any] = {
        "strip": resolved.strip or resolved.strip_at_s is not None,
        "strip_at_s": resolved.strip_at_s,
    }
    call = call_of(opened, beat_options, patient=patient, int8=int8, force=force, **drawn)
    requests = _requests([records] if isinstance(records, Path | str) else records, out, resolved.annotator)

    how = RecordingOptions(**resolved.shared_with(RecordingOptions))
    replaces = overwrite or resume or executor is not None  # a killed worker's recording is done again
    work = Work(patient, int8, how, force, resolved.annotator, {**drawn, "overwrite": replaces})
    with locked(out):
        state = BatchState(out, call, opened.classes)
        if resume:
            state.resume()
        elif not overwrite:
            state.refuse_unfinished()
        if not resume:  # a resumed batch replaces its own files
            check_free(
                [out / SUMMARY, *(file for request in requests for file in _targets(request, drawn["strip"]))],
                overwrite=overwrite,
            )
        state.begin()
        completed, failed = _predict_all(requests, state, opened, work, executor, progress)
        batch = Batch(completed, tuple(failed), opened.classes, out / SUMMARY)
        if completed:
            write_together({batch.summary: batch._summary_chunks()})
        state.end()
    return batch


def _predict_all(
    requests: Sequence[BatchRequest],
    state: BatchState,
    bundle: Bundle,
    work: Work,
    executor: Executor | None,
    progress: ProgressReporter,
) -> tuple[StoredEntries, list[dict[str, str]]]:
    """Predict the recordings that are not completed; return the completed and the failed ones."""
    completed = StoredEntries()
    failed: list[dict[str, str]] = []
    problems, strip = _name_clashes(requests), work.drawn["strip"]
    results: dict[Path, dict[str, Any]] = {}
    for request in requests if state.finished else ():
        result = state.stored_result(request.name, request.path, _targets(request, strip))
        if result and request.path not in problems:
            results[request.path] = result
    missing = [request for request in requests if request.path not in problems and request.path not in results]
    lines = lines_of(bundle, work, missing, executor, progress)
    for number, request in enumerate(requests):
        if request.path in problems:
            line: dict[str, Any] = problems[request.path].as_json()
        elif request.path in results:
            line = {"done": results[request.path]}
        else:
            line = next(lines)
            if "done" in line:
                state.append(line)
        if "done" in line:
            files = [str(file) for file in _targets(request, strip)]
            completed.append({"file": request.name, **line["done"], "files": files})
        else:
            failed.append({"file": safe_text(request.name), **line})
        progress.update("recordings", number + 1, len(requests), request.name)
    if results:
        progress.note(f"{len(results)} of {count_of(len(requests), 'recording')} were already completed.")
    return completed, failed


def _requests(records: Sequence[Path | str], out: Path, annotator: str) -> list[BatchRequest]:
    """List the recordings, those of folders with their relative names; files in ``out`` are skipped."""
    requests: dict[Path, BatchRequest] = {}
    for source in map(Path, records):
        if not source.is_dir():
            requests.setdefault(source, BatchRequest(source, source.as_posix(), out))
            continue
        if source.resolve() == out.resolve():
            raise OptionError("out", f"{out} is the folder of the recordings", "another folder")
        paths, not_read = recordings_and_not_read(source, annotator)
        for path in paths:
            if not Path(os.path.realpath(path)).is_relative_to(out.resolve()):  # resolve() raises for circular links
                name, place = path.relative_to(source).as_posix(), out / path.relative_to(source).parent
                requests.setdefault(path, BatchRequest(path, name, place, not_read.get(path)))
    if not requests:
        where = ", ".join(map(str, records)) or "RECORDS"
        raise RecordError(where, "holds no recording", "one or more", "check the path")
    return list(requests.values())


def _targets(request: BatchRequest, strip: bool) -> list[Path]:
    name = record_path(request.path).name
    return [request.out / f"{name}.{end}" for end in (*ENDINGS, *["png"] * strip)]


def _name_clashes(requests: Sequence[BatchRequest]) -> dict[Path, EcgfedError]:
    """Return an error for each recording whose predictions would replace those of another."""
    paths = [request.path for request in requests]
    not_read = {request.path: request.not_read for request in requests if request.not_read is not None}
    problems: dict[Path, EcgfedError] = {**doubled(paths), **not_utf8(paths), **not_read}
    taken: dict[str, Path] = {}  # case-insensitive, as on Windows and macOS
    for request in requests:
        if request.path in problems:
            continue
        targets = [str(file).casefold() for file in _targets(request, False)]  # a.rhythms has a's a.rhythms.csv
        first = next((taken[file] for file in targets if file in taken), request.path)
        taken.update(dict.fromkeys(targets, request.path) if first == request.path else {})
        if first != request.path:
            problem = f"has the name of {first}, whose predictions it would replace"
            problems[request.path] = RecordError(request.path, problem, f"another name, or another {param('out')}")
    return problems
