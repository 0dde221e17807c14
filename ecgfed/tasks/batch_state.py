"""What a batch of predictions has finished, line by line, so that one that was killed can be gone on with.

The first line says what was asked, each other one what became of a recording: what was read for it and what was
written, by SHA-256. What is not whole, or not true any more, counts as not done.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from os.path import relpath
from pathlib import Path
from typing import Any

from ecgfed import __version__
from ecgfed.base.errors import OptionError, RecordError, StorageError
from ecgfed.base.files import append_line, remove, sha256, write_together
from ecgfed.base.safe_io import check_links, open_regular, parse_json, read_bounded
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.record.reader import annotation_file
from ecgfed.domain.signal.detectors import Detector
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.model_warnings import CODES
from ecgfed.exports.device.shipped import name_of
from ecgfed.tasks.predict import RecordingPredictions

#: The file; it is gone when the batch has ended.
STATE = "predictions.unfinished.jsonl"
#: Three kilobytes for each of 100,000 recordings.
_MOST_BYTES = 300 << 20
#: A file of predictions: 200 bytes for each of 10,000,000 beats, two months.
_MOST_WRITTEN_BYTES = 2 << 30
_BEGIN_AGAIN = "pass --overwrite to begin again"
#: What is counted of every recording, by class or in all.
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
    """Return all that decides a recording's predictions but the recording, JSON-ready, by the words of an error."""
    qrs_detector, how = options.qrs_detector, asdict(options.how)
    said: dict[str, Any] = {
        "ecgfed": __version__,
        "bundle": name_of(bundle.path),
        "manifest": hashlib.sha256(json.dumps(bundle.manifest, sort_keys=True).encode()).hexdigest(),
        "signature": None if bundle.signature is None else bundle.signature.as_json(),
        "--patient": patient,
        **({"--int8": True} if int8 else {}),
        "--lead": list(options.leads),
        "--peaks": options.peaks,
        "--detector": [qrs_detector.name, _code_of(qrs_detector)] if options.peaks == "detected" else None,
        "--mains": options.mains_hz,
        "--annotator": options.annotator,
        **{f"--{name.removesuffix('_hz')}": value for name, value in how.items()},
        "--force": force,
        "--strip": strip,
        "--strip-at": strip_at_s,
    }
    call: dict[str, Any] = json.loads(json.dumps(said))
    return call


def _code_of(detector: Detector) -> str:
    """Return the digest of the file that holds a detector's code, "" where that is in none."""
    code = getattr(detector.find, "__code__", None)
    file = Path(getattr(code, "co_filename", ""))
    return sha256(file) if file.is_file() else ""


class BatchState:
    """The finished recordings of one call.

    Args:
        out: the folder the batch writes into.
        call: what was asked (``call_of``).
        classes: the bundle's.
    """

    def __init__(self, out: Path, call: Mapping[str, Any], classes: Sequence[str]) -> None:
        self.out, self.call, self.classes = out, dict(call), list(classes)
        self.path = out / STATE
        self.finished: dict[str, dict[str, Any]] = {}

    def refuse_unfinished(self) -> None:
        """Raise OptionError where a batch lies here that was begun and did not end."""
        if self.path.exists():
            found = f"{self.out} holds a batch that did not end ({STATE})"
            raise OptionError("--out", found, action="go on with it by --resume, or begin again by --overwrite")

    def begin(self) -> None:
        """Write down what was asked, and what is finished of it; raises OptionError, StorageError."""
        check_links(self.out, [STATE], OptionError)
        lines = [_line(one) for one in [{"call": self.call}, *self.finished.values()]]
        write_together({self.path: "".join(f"{line}\n" for line in lines).encode()})

    def resume(self) -> None:
        """Read what was finished.

        Raises:
            OptionError: nothing was begun, it was by another call, or the file is a link out of the folder.
        """
        check_links(self.out, [STATE], OptionError)
        if not self.path.is_file():
            found = f"{self.out} holds no batch that was begun and did not end"
            raise OptionError("--resume", found, STATE, "leave --resume out")
        first, *others = self._lines()
        begun = first.get("call")
        if not isinstance(begun, dict):
            raise OptionError("--resume", f"{self.path} is damaged", "what was asked", _BEGIN_AGAIN)
        for name in [*self.call, *begun]:
            if begun.get(name) != self.call.get(name):
                raise OptionError("--resume", self._other(name, begun), "the very same call", _BEGIN_AGAIN)
        self.finished = {str(one["file"]): one for one in others if self._is_sound(one)}

    def _lines(self) -> list[dict[str, Any]]:
        """Return the lines up to the first that is not whole; at least one, maybe empty."""
        found: list[dict[str, Any]] = []
        for line in read_bounded(self.path, _MOST_BYTES, OptionError).split(b"\n"):
            try:
                value = parse_json(line)
            except ValueError:
                break
            if not isinstance(value, dict):
                break
            found.append(value)
        return found or [{}]

    def _other(self, name: str, begun: Mapping[str, Any]) -> str:
        if name == "manifest":
            return f"{self.out} was begun with another bundle of this name"
        if name == "ecgfed":
            return f"{self.out} was begun by ecgfed {begun.get(name)!s:.40}, this is {__version__}"
        return f"{self.out} was begun with {name} {_shown(begun.get(name))}, not {_shown(self.call.get(name))}"

    def _is_sound(self, one: Mapping[str, Any]) -> bool:
        """Say whether a line holds what a summary is made of."""
        done = one.get("done")
        if not (isinstance(one.get("file"), str) and isinstance(one.get("read"), dict)):
            return False
        if not (isinstance(done, dict) and isinstance(one.get("written"), dict)):
            return False
        by_class = [done.get(name) for name in _BY_CLASS]
        if not all(isinstance(counts, dict) and list(counts) == self.classes for counts in by_class):
            return False
        numbers = [done.get(name) for name in _COUNTED] + [number for part in by_class for number in part.values()]  # type: ignore[union-attr]
        return all(type(number) is int for number in numbers) and _says_its_doubts(done)

    def done(self, name: str, path: Path, targets: Sequence[Path]) -> dict[str, Any] | None:
        """Return what the summary says of a recording that is finished, None of any other.

        Args:
            name: what the summary calls it.
            path: the recording.
            targets: the files of its predictions.
        """
        one = self.finished.get(name)
        if one is None or set(one["written"]) != {file.name for file in targets}:
            return None
        if any(file.is_symlink() for file in targets):  # no file of ours, whatever it leads to
            return None
        with suppress(OSError, ValueError):
            read = _read_of(path, self.call["--annotator"], [path.parent / file for file in one["read"]])
            if read == one["read"] and all(_digest(file) == one["written"][file.name] for file in targets):
                return dict(one["done"])
        return None

    def add(self, name: str, path: Path, found: RecordingPredictions, files: Sequence[Path]) -> dict[str, Any]:
        """Write down that a recording is finished, where that can be done; return what the summary says of it."""
        said = {key: value for key, value in found.summary([]).items() if key != "files"}
        with suppress(OSError, StorageError):  # what cannot be written down is done again, no more than that
            read = _read_of(path, self.call["--annotator"], found.recording.files)
            written = {file.name: sha256(file) for file in files}
            append_line(self.path, _line({"file": name, "read": read, "written": written, "done": said}))
        return said

    def end(self) -> None:
        """Take the file away: the summary is written."""
        remove(self.path)


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file of predictions; OSError where it is a pipe, a device or larger than any of ours."""
    with open_regular(file) as stream:
        if os.fstat(stream.fileno()).st_size > _MOST_WRITTEN_BYTES:
            raise OSError(0, "it is larger than any file of predictions", str(file))
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


def _says_its_doubts(done: Mapping[str, Any]) -> bool:
    """Say whether the words and codes that tables and summaries show are there."""
    grave, warnings = done.get("grave_warnings"), done.get("warnings")
    if not (isinstance(grave, list) and all(isinstance(code, str) and code in CODES for code in grave)):
        return False
    if not (isinstance(warnings, list) and all(isinstance(one, dict) for one in warnings)):
        return False
    words = [one.get(name) for one in warnings for name in ("code", "text")]
    words += [done.get(name) for name in ("lead", "intended_use")]
    return all(isinstance(word, str) for word in words) and type(done.get("duration_s")) in (int, float)


def _read_of(path: Path, annotator: str, files: Iterable[Path]) -> dict[str, str | None]:
    """Return the digest of each file that decides a recording's predictions, None of one that is not there.

    The annotation is one of them whatever the peaks are: it may say that the rhythm is paced.
    """
    every = list(files)
    for suffix in dict.fromkeys((annotator, "atr")):
        with suppress(RecordError):
            every.append(annotation_file(path, suffix))
    return {relpath(file, path.parent): sha256(file) if file.is_file() else None for file in sorted(set(every))}


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _shown(value: object) -> str:
    return "none" if value in (None, []) else f"{json.dumps(value):.60}"
