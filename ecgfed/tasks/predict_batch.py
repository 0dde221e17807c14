"""``predict`` for many recordings: each by itself, what fails is listed, the rest is done, one summary of all."""

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.base.errors import EcgfedError, OptionError, RecordError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.folder import doubled, recordings_below
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.reader import record_path
from ecgfed.domain.record.recording import ReadOptions, read_options
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.model_warnings import CODES
from ecgfed.tasks.batch_state import BatchState, call_of
from ecgfed.tasks.predict import SUFFIX, RecordingPredictions, opened_bundle, predict
from ecgfed.tasks.watch import NOBODY, Watch

#: The summary's file.
SUMMARY = "predictions.summary.json"
#: The grave warning whose recordings are named beside the totals; recordings that a line names.
FAR_BEATS, NAMED = "far-beats", 6


@dataclass(frozen=True, repr=False, eq=False)
class Batch:
    """What became of each recording.

    Attributes:
        done: of each that was classified, JSON-ready: what its own file says without the beats, and its ``file`` (the
            recording, below the folder it was found in), ``beats``, ``counts``, ``poor_quality_beats``,
            ``uncertain_beats``, ``far_beats``, ``uncertain_counts``, ``far_counts``, ``grave_warnings``, ``files``.
        failed: of each other one, its ``file`` and the ``problem`` in one line.
        classes: the bundle's.
        summary: the file that says all this.
    """

    done: tuple[dict[str, Any], ...]
    failed: tuple[dict[str, str], ...]
    classes: tuple[str, ...]
    summary: Path

    def __repr__(self) -> str:
        beats = sum(one["beats"] for one in self.done)
        return f"Batch({count_of(len(self.done), 'recording')}: {count_of(beats, 'beat')}; {len(self.failed)} failed)"

    @property
    def counts(self) -> dict[str, int]:
        """Beats of each class over all recordings."""
        return self._total("counts")

    @property
    def uncertain_counts(self) -> dict[str, int]:
        """Uncertain beats of each class over all recordings."""
        return self._total("uncertain_counts")

    @property
    def far_counts(self) -> dict[str, int]:
        """Beats of each class that look like none in training, over all recordings."""
        return self._total("far_counts")

    def _total(self, what: str) -> dict[str, int]:
        return {name: sum(one[what][name] for one in self.done) for name in self.classes}

    @property
    def mostly_far(self) -> tuple[str, ...]:
        """The recordings most of whose beats look like none in training; the totals count them too."""
        return tuple(one["file"] for one in self.done if 2 * one["far_beats"] > one["beats"])

    @property
    def warned(self) -> dict[str, tuple[str, ...]]:
        """Code of each grave warning -> the recordings it is of."""
        codes = dict.fromkeys(code for one in self.done for code in one["grave_warnings"])
        return {code: tuple(one["file"] for one in self.done if code in one["grave_warnings"]) for code in codes}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to keep in mind of the totals: a sentence for each kind of grave warning, with the recordings."""
        said = [
            f"{code}, {CODES[code]}: {listed(names, NAMED)}" for code, names in self.warned.items() if code != FAR_BEATS
        ]
        if self.mostly_far:
            theirs = sum(one["beats"] for one in self.done if one["file"] in set(self.mostly_far))
            what = (
                f"{theirs:,} of these {count_of(sum(self.counts.values()), 'beat')} are of recordings that are mostly"
            )
            said.insert(0, f"{what} far, like none the model was trained on: {listed(self.mostly_far, NAMED)}")
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        """Return what the summary holds."""
        return {
            "recordings": len(self.done) + len(self.failed),
            "beats": sum(one["beats"] for one in self.done),
            "counts": self.counts,
            "uncertain_counts": self.uncertain_counts,
            "far_counts": self.far_counts,
            "unclassified_beats": sum(one.get("unclassified_beats", 0) for one in self.done),
            "mostly_far": list(self.mostly_far),
            "warned": {code: list(names) for code, names in self.warned.items()},
            "failed": list(self.failed),
            "done": list(self.done),
        }

    def _repr_html_(self) -> str:
        """A notebook's table: the beats of each class, recording by recording, what is in doubt, and what failed."""
        names = ("recording", *self.classes, "uncertain", "far", "warnings")
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        doubts = ["; ".join(said["text"] for said in one["warnings"]) for one in self.done]
        rows = [
            [one["file"], *one["counts"].values(), one["uncertain_beats"], one["far_beats"], said]
            for one, said in zip(self.done, doubts, strict=True)
        ]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
        lines = [*self.remarks, *(one["problem"] for one in self.failed)]
        wrong = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<table><tr>{head}</tr>{body}</table><ul>{wrong}</ul>"


@dataclass(frozen=True)
class _Asked:
    """A recording, what it is called in the summary, and the folder its predictions go to."""

    path: Path
    name: str
    out: Path


@dataclass
class _Listener(Watch):
    """Passes on what a verb tells, with the recording's name before it."""

    watch: Watch
    name: str = field(default="")

    def note(self, text: str) -> None:
        """Pass a sentence on."""
        self.watch.note(f"{self.name}: {text}")

    def warn(self, text: str) -> None:
        """Pass a warning on."""
        self.watch.warn(f"{self.name}: {text}")


def predict_batch(
    records: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    bundle: Bundle | Path | str | None = None,
    patient: str | None = None,
    int8: bool = False,
    leads: str | Sequence[str] | None = None,
    peaks: str = "detected",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    annotator: str = "atr",
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    strip: bool = False,
    strip_at_s: float | None = None,
    resume: bool = False,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> Batch:
    """Classify the beats of many recordings, one after the other. Research use only, not for diagnosis.

    A recording that cannot be used is listed with the reason, and the others are done. A batch that was killed goes
    on with ``resume``, and ends the same.

    Args:
        records: recordings, and folders of them with all their sub-folders, whatever the format.
        out: folder to write into, a folder's sub-folders alike: as ``RecordingPredictions.save``, and a summary of
            all, ``predictions.summary.json``.
        bundle: as in ``predict``; so are all arguments up to ``force``.
        patient: see there.
        int8: see there.
        leads: see there.
        peaks: see there.
        detector: see there.
        mains_hz: see there.
        annotator: see there.
        how: see there.
        trusted: see there.
        force: see there.
        strip: also draw 10 s of each on ECG paper.
        strip_at_s: where each strip begins, in seconds; default: where most kinds of beats are.
        resume: go on with the batch in ``out``: what the very same call has finished there is not done again, unless
            a file of it has changed.
        overwrite: replace files of these names, but never a recording.
        watch: told of the progress, and what to keep in mind of each recording.

    Raises:
        EcgfedError: in one line, what no recording can be read with: a bundle, a patient, an option; a folder without
            recordings, files that are there already, a batch that was begun by another call, or that another process
            is at work on.

    Examples:
        >>> import ecgfed
        >>> ecgfed.predict_batch("cohort-records", "read", bundle="bundle")
        Batch(3 recordings: 247 beats; 0 failed)
    """
    out = Path(out)
    if resume and overwrite:
        raise OptionError("--resume and --overwrite", "both given", "one of them")
    opened = opened_bundle(bundle, trusted)
    opened.classifier(patient, int8=int8)
    wanted = None if leads is None else lead_list(leads)
    options = BeatOptions(wanted or (), peaks, detector, annotator, read_options(how), mains_hz)
    strip = strip or strip_at_s is not None
    call = call_of(opened, options, patient=patient, int8=int8, force=force, strip=strip, strip_at_s=strip_at_s)
    asked = _asked([records] if isinstance(records, Path | str) else records, out, annotator)

    def one_by_itself(one: _Asked) -> RecordingPredictions:
        return predict(
            bundle=opened,
            recording=one.path,
            patient=patient,
            int8=int8,
            leads=wanted,
            peaks=peaks,
            detector=detector,
            mains_hz=mains_hz,
            annotator=annotator,
            how=how,
            force=force,
            watch=_Listener(watch, one.name),
        )

    with locked(out):
        state = BatchState(out, call, opened.classes)
        if resume:
            state.resume()
        elif not overwrite:
            state.refuse_unfinished()
        if not resume:  # else it was asked when the batch began, and what is there since is its own
            check_free([out / SUMMARY, *(file for one in asked for file in _targets(one, strip))], overwrite=overwrite)
        state.begin()
        done, failed = _work(asked, state, one_by_itself, strip, strip_at_s, overwrite or resume, watch)
        batch = Batch(tuple(done), tuple(failed), opened.classes, out / SUMMARY)
        told = json.dumps(batch.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_together({batch.summary: f"{told}\n".encode()})
        state.end()
    return batch


def _work(
    asked: Sequence[_Asked],
    state: BatchState,
    read: Callable[[_Asked], RecordingPredictions],
    strip: bool,
    strip_at_s: float | None,
    overwrite: bool,
    watch: Watch,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Do what is not done yet, one recording after the other; return what was done and what failed."""
    done: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    problems, before = _in_the_way(asked), 0
    for number, one in enumerate(asked):
        try:
            if one.path in problems:
                raise problems[one.path]
            files = _targets(one, strip)
            if said := state.done(one.name, one.path, files):
                before += 1
            else:
                found = read(one)
                files = found.save(one.out, strip=strip, strip_at_s=strip_at_s, overwrite=overwrite)
                said = state.add(one.name, one.path, found, files)
            done.append({"file": one.name, **said, "files": [str(file) for file in files]})
        except EcgfedError as problem:
            failed.append({"file": one.name, "problem": problem.line})
        watch.progress("recordings", number + 1, len(asked), one.name)
    if before:
        watch.note(f"{before} of {count_of(len(asked), 'recording')} were done before.")
    return done, failed


def _asked(records: Sequence[Path | str], out: Path, annotator: str) -> list[_Asked]:
    """List the recordings, those of a folder with what it is called there; what lies in ``out`` is none."""
    found: dict[Path, _Asked] = {}
    for given in map(Path, records):
        if not given.is_dir():
            found.setdefault(given, _Asked(given, given.as_posix(), out))
            continue
        if given.resolve() == out.resolve():
            raise OptionError("--out", f"{out} is the folder of the recordings", "another folder")
        for path in recordings_below(given, annotator=annotator):
            if not path.resolve().is_relative_to(out.resolve()):
                relative = path.relative_to(given)
                found.setdefault(path, _Asked(path, relative.as_posix(), out / relative.parent))
    if not found:
        where = ", ".join(map(str, records)) or "RECORDS"
        raise RecordError(where, "holds no recording", "one or more", "check the path")
    return list(found.values())


def _targets(one: _Asked, strip: bool) -> list[Path]:
    name = record_path(one.path).name
    return [one.out / f"{name}.{end}" for end in (SUFFIX, "csv", "json", *["png"] * strip)]


def _in_the_way(asked: Sequence[_Asked]) -> dict[Path, EcgfedError]:
    """Return what is wrong with recordings whose predictions would be written over those of another one."""
    wrong: dict[Path, EcgfedError] = dict(doubled([one.path for one in asked]))
    taken: dict[str, Path] = {}  # by names without case: Windows and macOS tell none apart
    for one in asked:
        if one.path in wrong:
            continue
        first = taken.setdefault(str(_targets(one, False)[0]).casefold(), one.path)
        if first != one.path:
            found = f"has the name of {first}, whose predictions it would replace"
            wrong[one.path] = RecordError(one.path, found, "another name, or another --out")
    return wrong
