"""The working folder of ``serve``: uploaded files, and of each recording what was stated of it and what was made.

Everything lies below one folder that only its owner may read. Names from a browser are file names or refused, and
nothing is overwritten: every upload and every recording has a folder of its own.
"""

import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.base.errors import CohortError, OptionError, RecordError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.language import message, tr_later
from ecgfed.base.safe_io import MAX_NAME_BYTES, name_problem
from ecgfed.base.text import safe_text
from ecgfed.domain.cohort.folder import recordings_below
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.domain.record.reader import FORMATS, record_path

#: Limits of an upload: files, bytes of a file (days of twelve leads), and bytes of all of them.
MAX_FILES, MAX_FILE_BYTES, MAX_UPLOAD_BYTES = 256, 2 << 30, 8 << 30
#: Seconds without a byte after which an upload is abandoned: its page is gone.
UPLOAD_IDLE_S = 120.0
#: The end of the name of an upload's folder until all of its files have arrived.
PART = ".part"
#: The file by which a folder is known for one of ``serve``; that of a recording.
MARKER, RECORDING = "ecgfed-serve.json", "recording.json"
_VERSION = 1
_NOT_IN_NAMES = re.compile(r'[\\<>:"|?*\x00-\x1f]')
_UPLOAD = re.compile(rf"(\d{{4,9}})({re.escape(PART)})?")
_RECORDING_ID = re.compile(r"\d{4,9}-[A-Za-z0-9._-]{1,80}")


def file_name(sent: object) -> str:
    """Return a file name for one that a browser sent: its last part, without what no file's name may hold.

    Raises:
        OptionError: nothing remains that could be a name.
    """
    last = re.split(r"[/\\]", sent)[-1] if isinstance(sent, str) else ""
    name = _NOT_IN_NAMES.sub("_", safe_text(last)).strip(". ")
    name = name.encode("utf-8", "ignore")[-MAX_NAME_BYTES:].decode("utf-8", "ignore")
    if fault := name_problem(name):
        reason = message("the name {name} {fault}", name=f"{str(sent)!r:.80}", fault=fault)
        raise OptionError("files", reason, tr_later("a file name"), tr_later("rename the file"))
    return name


@dataclass
class Upload:
    """Files that a browser sends together.

    Attributes:
        folder: where they are written.
        names: of the files, in order.
        sizes: of each, in bytes.
        complete: the files that are there.
        used: when a part of a file last arrived (``time.monotonic``).
    """

    folder: Path
    names: list[str]
    sizes: list[int]
    complete: set[int] = field(default_factory=set)
    used: float = field(default_factory=time.monotonic)

    def write(self, number: int, parts: Iterable[bytes]) -> None:
        """Write one file; raises StorageError, and OptionError for one that is there. A file cut short is removed."""
        path = self.folder / self.names[number]
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            reason = message("{file} is there already", file=path.name)
            raise OptionError("files", reason, tr_later("each file once"), code="exists") from None
        except OSError as problem:
            raise StorageError(path, message("cannot be written ({why})", why=problem.strerror)) from problem
        try:
            with os.fdopen(handle, "wb") as stream:
                for part in parts:
                    stream.write(part)
                    self.used = time.monotonic()
        except BaseException as problem:
            with suppress(OSError):
                path.unlink()
            if isinstance(problem, OSError) and not isinstance(problem, TimeoutError | ConnectionError):
                reason = message("cannot be written ({why})", why=problem.strerror)
                raise StorageError(path, reason, action=tr_later("free some space")) from problem
            raise
        self.complete.add(number)


@dataclass
class Entry:
    """A recording of the working folder.

    Attributes:
        id: its name in addresses and its folder's name.
        folder: where its results lie.
        path: the recording, of its format.
        how: what was stated beside the file.
        lead: the lead that was chosen, or ``""``.
        facts: what the file states, JSON-ready; empty before it was read.
        problem: why it could not be read, a line.
        revision: how often it was read in another way in this session; a page states the one that it shows.
        lock: held while it is read, and while a job of it is added.
    """

    id: str
    folder: Path
    path: Path
    how: ReadOptions = field(default_factory=ReadOptions)
    lead: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    revision: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @property
    def leads(self) -> tuple[str, ...] | None:
        """The lead as the tasks take it, None for their own choice."""
        return (self.lead,) if self.lead else None

    @property
    def is_stated(self) -> bool:
        """Whether everything that the file leaves open was stated."""
        return bool(self.facts) and not self.facts["missing"]

    def results(self) -> dict[str, Path]:
        """Return the files that were made, by their path below the folder with ``/``."""
        files = [*self.folder.glob("*"), *self.folder.glob("*/*")]
        names = {file.relative_to(self.folder).as_posix(): file for file in sorted(files) if file.is_file()}
        return {name: file for name, file in names.items() if name != RECORDING and not file.name.startswith(".")}

    def next_number(self) -> int:
        """Return the number of the next personal model; a job that was killed may have left a part of one."""
        made = [*self.folder.glob("model-*"), *self.folder.glob("beats-*")]
        numbers = [int(path.stem.rpartition("-")[2]) for path in made if path.stem.rpartition("-")[2].isdecimal()]
        return 1 + max(numbers, default=0)

    def models(self) -> list[Path]:
        """Return the personal models that are complete, the newest last; the file with their patient comes last."""
        files = [file for file in self.folder.glob("model-*.zip") if file.with_suffix(".json").is_file()]
        files = [file for file in files if file.stem.rpartition("-")[2].isdecimal()]
        return sorted(files, key=lambda file: int(file.stem.rpartition("-")[2]))


class WorkFolder:
    """The working folder.

    Args:
        path: a folder to create, or one of an earlier ``serve``.

    Raises:
        OptionError: it is another folder, or cannot be created.
        StorageError: what it holds cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = threading.Lock()
        self._uploads: dict[str, Upload] = {}
        marker = path / MARKER
        if path.exists() and not (path.is_dir() and (marker.is_file() or not any(path.iterdir()))):
            expected = "a folder to create, or one that 'ecgfed serve' created"
            raise OptionError("work", f"{path} is there already, and not of serve", expected, "choose another")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not marker.exists():  # first, so that a folder that is not complete is known as one of serve
                write_json(marker, {"version": _VERSION})
            elif read_json(marker, StorageError) != {"version": _VERSION}:
                raise StorageError(marker, "is of another version of ecgfed", action="choose another folder")
            for folder in (path, path / "uploads", path / "recordings"):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # whatever the process's mask is
        except OSError as problem:
            raise OptionError("work", f"{path} cannot be created ({problem.strerror})", "another folder") from problem
        self.entries = {entry.id: entry for entry in self._earlier()}

    def resume(self) -> None:
        """Go on from an earlier session: remove what arrived of its unfinished uploads, and read its recordings.

        Only for the holder of the folder's lock: the uploads of another server would be removed.
        """
        for folder in (self.path / "uploads").iterdir():
            if folder.name.endswith(PART) and _UPLOAD.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        self.entries = {entry.id: entry for entry in self._earlier()}

    def _earlier(self) -> Iterator[Entry]:
        """Yield the recordings of earlier sessions; what cannot be read is passed over."""
        uploads = self.path / "uploads"
        for folder in sorted((self.path / "recordings").iterdir()):
            if not _RECORDING_ID.fullmatch(folder.name) or not (folder / RECORDING).is_file():
                continue
            with suppress(StorageError, KeyError, TypeError, AttributeError, OptionError):
                stored = read_json(folder / RECORDING, StorageError)
                how = stored["how"]
                options = ReadOptions(how["fs_hz"], how["units"], tuple(how["columns"]), bool(how["repair"]))
                path = Path(os.path.realpath(uploads / stored["file"]))
                facts, problem = dict(stored["facts"]), str(stored.get("problem", ""))
                if path.is_relative_to(os.path.realpath(uploads)) and (not facts or isinstance(facts["missing"], list)):
                    yield Entry(folder.name, folder, path, options, str(stored["lead"]), facts, problem)

    def begin(self, files: object) -> str:
        """Create a folder for files that a browser announces, ``[{name, size}, ...]``; return its number.

        Raises:
            OptionError: no list of files, too many or too large ones, one name twice.
        """
        if not isinstance(files, list) or not 1 <= len(files) <= MAX_FILES:
            raise OptionError(
                "files", tr_later("are none, or too many"), message("1 to {n} files at once", n=MAX_FILES)
            )
        names, sizes = [], []
        for file in files:
            size = file.get("size") if isinstance(file, Mapping) else None
            if not isinstance(file, Mapping) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise OptionError("files", tr_later("have no name or no size"), tr_later("files"))
            names.append(file_name(file.get("name")))
            sizes.append(size)
            if size > MAX_FILE_BYTES:
                expected = message("at most {n:,} bytes", n=MAX_FILE_BYTES)
                reason = message("{file} has {n:,} bytes", file=names[-1], n=size)
                raise OptionError("files", reason, expected, tr_later("cut it into parts"))
        if len({name.casefold() for name in names}) < len(names):
            raise OptionError("files", tr_later("have one name twice"), tr_later("each file once"), code="exists")
        if sum(sizes) > MAX_UPLOAD_BYTES:
            expected = message("at most {n:,} at once", n=MAX_UPLOAD_BYTES)
            raise OptionError("files", message("have {n:,} bytes", n=sum(sizes)), expected)
        with self._lock:
            there = [_UPLOAD.fullmatch(folder.name) for folder in (self.path / "uploads").iterdir()]
            number = f"{max((int(match[1]) for match in there if match), default=0) + 1:04d}"
            self._uploads[number] = Upload(_created(self.path / "uploads" / f"{number}{PART}"), names, sizes)
        return number

    def upload(self, number: str) -> Upload | None:
        """Return an upload that is not finished, or None."""
        return self._uploads.get(number)

    def discard(self, number: str) -> None:
        """Remove an upload that is not finished, with its files."""
        if upload := self._uploads.pop(number, None):
            shutil.rmtree(upload.folder, ignore_errors=True)  # what remains is removed when the folder is served again

    def discard_abandoned(self) -> None:
        """Remove the uploads of which nothing has arrived for ``UPLOAD_IDLE_S``."""
        before = time.monotonic() - UPLOAD_IDLE_S
        for number in [number for number, upload in list(self._uploads.items()) if upload.used < before]:
            self.discard(number)

    def finish(self, number: str) -> list[Entry]:
        """Return the recordings among the files of an upload, as new entries.

        Raises:
            OptionError: a file is missing.
            RecordError: none of the files is a recording; they are removed.
            StorageError: a folder cannot be created or renamed.
        """
        upload = self._uploads[number]
        if len(upload.complete) < len(upload.names):
            reason, expected = tr_later("have not all arrived"), tr_later("every file that was announced")
            raise OptionError("files", reason, expected, tr_later("send them again"))
        try:
            names = [path.relative_to(upload.folder) for path in _recordings(upload)]
        except RecordError:
            self.discard(number)
            raise
        entries = []
        with self._lock:
            self._uploads.pop(number, None)
            folder = self.path / "uploads" / number
            try:
                upload.folder.rename(folder)
            except OSError as problem:
                raise StorageError(folder, message("cannot be created ({why})", why=problem.strerror)) from problem
            for path in (folder / name for name in names):
                there = [folder.name for folder in (self.path / "recordings").iterdir()]  # some may be unreadable
                last = max((int(id.partition("-")[0]) for id in there if _RECORDING_ID.fullmatch(id)), default=0)
                id = f"{last + 1:04d}-{re.sub(r'[^A-Za-z0-9._-]', '_', record_path(path).name)[:60]}"
                self.entries[id] = Entry(id, _created(self.path / "recordings" / id), path)
                entries.append(self.entries[id])
                with suppress(StorageError):  # it is stored again when it has been read, which may take minutes
                    self.save(self.entries[id])
        return entries

    def save(self, entry: Entry) -> None:
        """Write what was stated of a recording; raises StorageError."""
        how = {"fs_hz": entry.how.fs_hz, "units": entry.how.units, "columns": list(entry.how.columns)}
        file = entry.path.relative_to(self.path / "uploads").as_posix()
        stored = {"file": file, "how": {**how, "repair": entry.how.repair}, "lead": entry.lead, "facts": entry.facts}
        write_json(entry.folder / RECORDING, {"version": _VERSION, **stored, "problem": entry.problem})


def _created(folder: Path) -> Path:
    """Create a folder for its owner alone, and return it; raises StorageError, also where it exists."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as problem:
        raise StorageError(folder, message("cannot be created ({why})", why=problem.strerror)) from problem
    return folder


def _recordings(upload: Upload) -> list[Path]:
    """Return the recordings among the files; a text file is one if nothing else is. Raises RecordError for none."""
    try:
        return recordings_below(upload.folder)
    except CohortError:
        if texts := [upload.folder / name for name in upload.names if name.casefold().endswith(".txt")]:
            return texts
    names = ", ".join(upload.names)
    alone = [name for name in upload.names if name.casefold().endswith(".dat")]
    if alone:
        expected = message("{header} beside it", header=f"{alone[0][:-4]}.hea")
        raise RecordError(alone[0], tr_later("is without its header"), expected, tr_later("choose both files together"))
    suffixes = ", ".join(dict.fromkeys(suffix for kind in FORMATS.values() for suffix in kind))
    action = tr_later("choose a recording's files together")
    raise RecordError(names, tr_later("no recording is among them"), suffixes, action)
