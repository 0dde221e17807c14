"""State file of a batch of predictions, from which an interrupted batch is resumed.

The first line holds the call; every other line a completed recording: the SHA-256 of its inputs and outputs, and its
summary. Incomplete lines, and recordings whose files have changed, count as not completed.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from os.path import relpath
from pathlib import Path
from typing import Any, ClassVar

from ecgfed import __version__
from ecgfed.base.errors import OptionError, RecordError, StorageError, param
from ecgfed.base.files import append_line, remove, sha256, write_together
from ecgfed.base.safe_io import check_links, open_regular, parse_json, read_bounded
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.record.reader import annotation_file
from ecgfed.domain.signal.detectors import Detector
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.tasks.prediction_warnings import CODES

#: Name of the state file; removed when the batch is complete.
STATE = "predictions.unfinished.jsonl"
#: 3 kB for each of 100,000 recordings.
_MAX_BYTES = 300 << 20
#: Size limit of an output file: 200 bytes for each of 10,000,000 beats, two months.
_MAX_FILE_BYTES = 2 << 30
_BEGIN_AGAIN = f"pass {param('overwrite=True')} to start again"
#: Counts of a recording, by class and in total.
_BY_CLASS = ("counts", "uncertain_counts", "far_counts")
_COUNTED = ("beats", "poor_quality_beats", "uncertain_beats", "far_beats")


def call_of(
    bundle: Bundle,
    options: BeatOptions,
    *,
    patient: str | None,
    int8: bool,
    force: bool,
    strip: bool,
    strip_at_s: float | None,
) -> dict[str, Any]:
    """Return all that determines the predictions except the recording, JSON-ready, by names as used in errors."""
    qrs_detector, how = options.qrs_detector, asdict(options.how)
    arguments: dict[str, Any] = {
        "ecgfed": __version__,
        "bundle": name_of(bundle.path),
        "manifest": manifest_sha256(bundle),
        "signature": None if bundle.signature is None else bundle.signature.as_json(),
        "patient": patient,
        **({"int8": True} if int8 else {}),
        "leads": list(options.leads),
        "peaks": options.peaks,
        "detector": [qrs_detector.name, _code_of(qrs_detector)] if options.peaks == "detected" else None,
        "mains_hz": options.mains_hz,
        "annotator": options.annotator,
        **how,
        "force": force,
        "strip": strip,
        "strip_at_s": strip_at_s,
    }
    call: dict[str, Any] = json.loads(json.dumps(arguments))
    return call


def manifest_sha256(bundle: Bundle) -> str:
    """Return the SHA-256 of a bundle's manifest, however its file is laid out."""
    return hashlib.sha256(json.dumps(bundle.manifest, sort_keys=True).encode()).hexdigest()


def _code_of(detector: Detector) -> str:
    """Return the SHA-256 of the file with a detector's code, "" if there is no such file."""
    code = getattr(detector.find, "__code__", None)
    file = Path(getattr(code, "co_filename", ""))
    return sha256(file) if file.is_file() else ""


class BatchState:
    """The completed recordings of a batch.

    Args:
        out: output folder of the batch.
        call: the call (``call_of``).
        classes: classes of the bundle.
    """

    #: Name of the state file.
    name: ClassVar[str] = STATE

    def __init__(self, out: Path, call: Mapping[str, Any], classes: Sequence[str]) -> None:
        self.out, self.call, self.classes = out, dict(call), list(classes)
        self.path = out / self.name
        self.finished: dict[str, dict[str, Any]] = {}

    def refuse_unfinished(self) -> None:
        """Raise OptionError if the folder holds an unfinished batch."""
        if self.path.exists():
            problem = f"{self.out} holds an unfinished batch ({self.name})"
            action = f"pass {param('resume=True')} to continue it, or {param('overwrite=True')} to start again"
            raise OptionError("out", problem, action=action, code="exists")

    def begin(self) -> None:
        """Write the call and the completed recordings; raises OptionError, StorageError."""
        check_links(self.out, [self.name], OptionError)
        lines = [_line(entry) for entry in [{"call": self.call}, *self.finished.values()]]
        write_together({self.path: "".join(f"{line}\n" for line in lines).encode()})

    def resume(self) -> None:
        """Read the completed recordings.

        Raises:
            OptionError: no unfinished batch, a batch of another call, or a state file that links out of the folder.
        """
        check_links(self.out, [self.name], OptionError)
        if not self.path.is_file():
            problem = f"{self.out} holds no unfinished batch"
            raise OptionError("resume", problem, self.name, f"leave {param('resume')} out")
        first, *entries = self._lines()
        stored = first.get("call")
        if not isinstance(stored, dict):
            raise OptionError("resume", f"{self.path} is damaged", "the call of the batch", _BEGIN_AGAIN)
        for name in [*self.call, *stored]:
            if stored.get(name) != self.call.get(name):
                reason = self._difference(name, stored)
                raise OptionError("resume", reason, "the same call", _BEGIN_AGAIN, code="contradiction")
        self.finished = {str(entry["file"]): entry for entry in entries if self._is_valid(entry)}

    def _lines(self) -> list[dict[str, Any]]:
        """Return the lines before the first damaged one; an empty one if there are none."""
        lines: list[dict[str, Any]] = []
        for line in read_bounded(self.path, _MAX_BYTES, OptionError).split(b"\n"):
            try:
                value = parse_json(line)
            except ValueError:
                break
            if not isinstance(value, dict):
                break
            lines.append(value)
        return lines or [{}]

    def _difference(self, name: str, stored: Mapping[str, Any]) -> str:
        if name == "manifest":
            return f"{self.out} was started with another bundle of this name"
        if name == "ecgfed":
            return f"{self.out} was started by ecgfed {stored.get(name)!s:.40}, this is {__version__}"
        stated = name if name in ("bundle", "signature") else param(name)
        return f"{self.out} was started with {stated} {_brief(stored.get(name))}, not {_brief(self.call.get(name))}"

    def _is_valid(self, entry: Mapping[str, Any]) -> bool:
        """Whether a line has all entries that the summary needs."""
        result = entry.get("done")
        if not (isinstance(entry.get("file"), str) and isinstance(entry.get("read"), dict)):
            return False
        if not (isinstance(result, dict) and isinstance(entry.get("written"), dict)):
            return False
        by_class = [result.get(name) for name in _BY_CLASS]
        if not all(isinstance(counts, dict) and list(counts) == self.classes for counts in by_class):
            return False
        numbers = [result.get(name) for name in _COUNTED] + [number for part in by_class for number in part.values()]  # type: ignore[union-attr]
        return all(type(number) is int for number in numbers) and _has_warnings(result)

    def stored_result(self, name: str, path: Path, targets: Sequence[Path]) -> dict[str, Any] | None:
        """Return the summary of a completed recording, None of any other.

        Args:
            name: its name in the summary.
            path: the recording.
            targets: the files of its predictions.
        """
        entry = self.finished.get(name)
        if entry is None or set(entry["written"]) != {file.name for file in targets}:
            return None
        if any(file.is_symlink() for file in targets):  # not written by us, whatever the target
            return None
        with suppress(OSError, ValueError):
            read = _input_digests(path, self.call["annotator"], [path.parent / file for file in entry["read"]])
            if read == entry["read"] and all(_digest(file) == entry["written"][file.name] for file in targets):
                return dict(entry["done"])
        return None

    def store(
        self, name: str, path: Path, inputs: Iterable[Path], files: Sequence[Path], result: Mapping[str, Any]
    ) -> None:
        """Append a completed recording to the state file if possible.

        Args:
            name: its name in the summary.
            path: the recording.
            inputs: its files.
            files: the files written for it.
            result: its summary, JSON-ready.
        """
        self.append(entry_of(name, path, self.call["annotator"], inputs, files, result))

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append a completed recording (``entry_of``) to the state file if possible."""
        if "read" in entry:  # without its line, the recording is only done again
            with suppress(OSError, StorageError):
                append_line(self.path, _line(entry))

    def end(self) -> None:
        """Remove the state file: the summary is written."""
        remove(self.path)


def entry_of(
    name: str, path: Path, annotator: str, inputs: Iterable[Path], files: Sequence[Path], result: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the line of a completed recording; without ``read`` and ``written`` where a file cannot be read.

    Args:
        name: its name in the summary.
        path: the recording.
        annotator: suffix of its annotation file.
        inputs: its files.
        files: the files written for it.
        result: its summary, JSON-ready.
    """
    entry: dict[str, Any] = {"file": name}
    with suppress(OSError, StorageError):
        read = _input_digests(path, annotator, inputs)
        entry |= {"read": read, "written": {file.name: sha256(file) for file in files}}
    return {**entry, "done": dict(result)}


def _digest(file: Path) -> str:
    """Return the SHA-256 of an output file; raises OSError for a pipe, a device, or an oversized file."""
    with open_regular(file) as stream:
        if os.fstat(stream.fileno()).st_size > _MAX_FILE_BYTES:
            raise OSError(0, "it is larger than any file of predictions", str(file))
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


def _has_warnings(result: Mapping[str, Any]) -> bool:
    """Whether the texts and codes shown in tables and summaries are present."""
    severe, warnings = result.get("grave_warnings"), result.get("warnings")
    if not (isinstance(severe, list) and all(isinstance(code, str) and code in CODES for code in severe)):
        return False
    if not (isinstance(warnings, list) and all(isinstance(warning, dict) for warning in warnings)):
        return False
    texts = [warning.get(name) for warning in warnings for name in ("code", "text")]
    texts += [result.get(name) for name in ("lead", "intended_use")]
    return all(isinstance(text, str) for text in texts) and type(result.get("duration_s")) in (int, float)


def _input_digests(path: Path, annotator: str, files: Iterable[Path]) -> dict[str, str | None]:
    """Return the SHA-256 of each file that determines a recording's predictions, None for a missing file."""
    inputs = list(files)  # and the annotation always: it may say that the rhythm is paced
    for suffix in dict.fromkeys((annotator, "atr")):
        with suppress(RecordError):
            inputs.append(annotation_file(path, suffix))
    return {relpath(file, path.parent): sha256(file) if file.is_file() else None for file in sorted(set(inputs))}


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _brief(value: object) -> str:
    return "none" if value in (None, []) else f"{json.dumps(value):.60}"
