"""Tell the bundle from the recordings among the arguments of ``predict``; the bundle is optional."""

from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.errors import OptionError, param
from ecgfed.domain.record.reader import FORMATS, format_of
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.wfdb_header import record_base
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import CARD, MODEL, SHIPPED, is_bundle

#: A bundle, a recording, or the path of either.
PredictInput = Bundle | Recording | Path | str


def bundle_and_records(paths: Sequence[Path], bundle: Path | None) -> tuple[Path | None, list[Path]]:
    """Return the bundle of ``predict [BUNDLE] RECORDS``, None for the packaged model, and the recordings.

    Args:
        paths: the arguments; the first is the bundle if it is a folder with a manifest.
        bundle: the value of ``--bundle``; if set, all arguments are recordings or folders of recordings.

    Raises:
        OptionError: two bundles, no recording, or a folder that holds both.
    """
    first, *rest = paths
    if is_bundle(first):
        if bundle is not None:
            problem = f"{first} is a bundle, and {param('bundle')} names {bundle}"
            raise OptionError("bundle", problem, "one of them", code="conflict")
        if first.is_dir() and (holds := _recording_in(first)):
            problem = f"{first} holds a bundle and recordings ({holds})"
            expected = "a folder of one of them"
            raise OptionError("bundle", problem, expected, f"pass {param('bundle')} {first}, or name its records")
        if not rest:
            expected = "a recording, or a folder of them"
            raise OptionError("recording", "is missing", expected, f"{first} is a bundle", code="missing")
        return first, rest
    looks_like_bundle = (
        first.suffix.casefold() == ".zip"
    )  # one that cannot be opened must not become the packaged model
    if bundle is None and len(paths) > 1 and (looks_like_bundle or not _is_readable(first)):
        expected = "a bundle made by 'ecgfed export', or a recording's file"
        raise OptionError("bundle", f"{first} is neither a bundle nor a recording", expected, "check the path")
    return bundle, list(paths)


def is_batch(records: Sequence[Path]) -> bool:
    """Whether the arguments are several recordings, or a folder of recordings."""
    return len(records) > 1 or records[0].is_dir()


def _recording_in(folder: Path) -> str:
    """Return the name of a WFDB record or an EDF file in a folder, or ``""``."""
    names = (path.name for path in folder.iterdir() if path.suffix.casefold() in (".hea", ".edf"))
    return min(names, default="")


def _is_readable(path: Path) -> bool:
    """Whether a path is a recording, or a folder with at least one recording."""
    if path.is_dir():
        known = {".hea", *(suffix for kind in FORMATS.values() for suffix in kind)}
        return any(file.suffix.casefold() in known for file in path.rglob("*"))
    return path.exists() or (format_of(path) == "wfdb" and Path(f"{record_base(path)}.hea").exists())


def bundle_and_recording(
    args: Sequence[PredictInput], bundle: Bundle | Path | str | None, recording: Recording | Path | str | None
) -> tuple[Bundle | Path | str | None, Recording | Path | str]:
    """Return the bundle and the recording of a call ``predict([bundle], recording)``.

    Args:
        args: positional arguments: the recording, or the bundle and the recording.
        bundle: keyword argument.
        recording: keyword argument.

    Raises:
        OptionError: one of them twice, no recording, or an argument of another type.
    """
    remaining = list(args)
    if recording is None and remaining:
        last = remaining.pop()
        if not isinstance(last, Recording | Path | str):
            raise _wrong_type("recording", last)
        recording = last
    if bundle is None and remaining:
        first = remaining.pop(0)
        if not isinstance(first, Bundle | Path | str):
            raise _wrong_type("bundle", first)
        bundle = first
    if remaining:
        raise OptionError("predict", f"{len(args)} positional arguments", "a recording, or a bundle and a recording")
    if recording is None or (bundle is None and isinstance(recording, Path | str) and is_bundle(Path(recording))):
        expected = "a recording or its file"
        raise OptionError("recording", "is missing", expected, "a bundle comes before it", code="missing")
    return bundle, recording


def _wrong_type(name: str, value: object) -> OptionError:
    return OptionError(name, f"of type {type(value).__name__}", f"a path, or a {name} that was opened")


def card_of(bundle: str) -> Path | None:
    """Return the model card of the packaged model; None for any other bundle."""
    return MODEL / CARD if bundle == SHIPPED else None
