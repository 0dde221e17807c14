"""Which of the paths a person gave is the bundle, and which are recordings: a bundle may be left out."""

from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.domain.record.reader import FORMATS, format_of
from ecgfed.domain.record.recording import AnyRecording
from ecgfed.domain.record.wfdb_header import record_base
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import CARD, MODEL, SHIPPED, is_bundle

#: A bundle, a recording, or where one of them lies.
Given = Bundle | AnyRecording | Path | str


def bundle_and_records(given: Sequence[Path], bundle: Path | None) -> tuple[Path | None, list[Path]]:
    """Return the bundle that ``predict [BUNDLE] RECORDS`` names, None for the model in the package, and the recordings.

    Args:
        given: the arguments; the first one is the bundle where it is a folder with a manifest.
        bundle: what ``--bundle`` names; then every argument is a recording, or a folder of them.

    Raises:
        OptionError: two bundles, none of recordings, or a folder that may be meant as either.
    """
    first, *rest = given
    if is_bundle(first):
        if bundle is not None:
            raise OptionError("BUNDLE", f"{first} is a bundle, and --bundle names {bundle}", "one of them")
        if first.is_dir() and (holds := _recording_in(first)):
            found = f"{first} holds a bundle and recordings ({holds})"
            raise OptionError("BUNDLE", found, "a folder of one of them", f"say --bundle {first}, or name its records")
        if not rest:
            raise OptionError("RECORD", "is missing", "a recording, or a folder of them", f"{first} is a bundle")
        return first, rest
    if bundle is None and len(given) > 1 and not _may_be_read(first):
        expected = "a bundle made by 'ecgfed export', or a recording's file"
        raise OptionError("BUNDLE", f"{first} is neither a bundle nor a recording", expected, "check the path")
    return bundle, list(given)


def is_batch(records: Sequence[Path]) -> bool:
    """Say whether what a person named is more than one recording, or a folder of them."""
    return len(records) > 1 or records[0].is_dir()


def _recording_in(folder: Path) -> str:
    """Return the name of a WFDB record or an EDF file that lies beside a manifest, or ``""``."""
    found = (path.name for path in folder.iterdir() if path.suffix.casefold() in (".hea", ".edf"))
    return min(found, default="")


def _may_be_read(path: Path) -> bool:
    """Say whether a path is there as a recording, or as a folder that holds one."""
    if path.is_dir():
        known = {".hea", *(suffix for kind in FORMATS.values() for suffix in kind)}
        return any(file.suffix.casefold() in known for file in path.rglob("*"))
    return path.exists() or (format_of(path) == "wfdb" and Path(f"{record_base(path)}.hea").exists())


def bundle_and_recording(
    given: Sequence[Given], bundle: Bundle | Path | str | None, recording: AnyRecording | Path | str | None
) -> tuple[Bundle | Path | str | None, AnyRecording | Path | str]:
    """Return the bundle and the recording that ``predict([bundle], recording)`` was called with.

    Args:
        given: by place: the recording, or the bundle and the recording.
        bundle: by name.
        recording: by name.

    Raises:
        OptionError: one of them twice, no recording, or something of another type.
    """
    left = list(given)
    if recording is None and left:
        last = left.pop()
        if not isinstance(last, AnyRecording | Path | str):
            raise _of_no_use("recording", last)
        recording = last
    if bundle is None and left:
        first = left.pop(0)
        if not isinstance(first, Bundle | Path | str):
            raise _of_no_use("bundle", first)
        bundle = first
    if left:
        raise OptionError("predict", f"{len(given)} arguments by place", "a recording, or a bundle and a recording")
    if recording is None or (bundle is None and isinstance(recording, Path | str) and is_bundle(Path(recording))):
        raise OptionError("recording", "is missing", "a recording or its file", "a bundle comes before it")
    return bundle, recording


def _of_no_use(name: str, given: object) -> OptionError:
    return OptionError(name, f"of type {type(given).__name__}", f"a path, or a {name} that was opened")


def card_of(bundle: str) -> Path | None:
    """Return the page that says what the model in the package can do, where that is the bundle of this name."""
    return MODEL / CARD if bundle == SHIPPED else None
