"""A disk that may lose what was not forced to it: every state a power cut may leave, from the calls a program made.

After ALICE (Pillai et al., OSDI 2014). The names in a folder and the bytes of a file are on the disk when they were
forced to it (``fsync``); of the rest any part may be there. A rename or an exchange happens whole or not at all.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: (folder, name, what stands there now or None): folders, files by number
Change = tuple[int, str, int | None]
Names = dict[int, dict[str, int]]
#: What may be left of bytes that were not forced to the disk.
TORN = ("all", "none", "half", "zeros")
_ROOT = 0


@dataclass
class Moment:
    """One moment at which the power may go: what is on the disk, what may be, and what was promised by then."""

    before: str
    promise: Any
    names: Names
    pending: list[list[Change]]
    folders: set[int]
    durable: dict[int, bytes]
    live: dict[int, bytes]

    def lost(self, rng: random.Random, some: int) -> Iterator[set[int]]:
        """Yield which of the pending changes reached the disk: each beginning, each but one, and some at random."""
        every = range(len(self.pending))
        sets = [frozenset(range(n)) for n in range(len(self.pending) + 1)]
        sets += [frozenset(every) - {one} for one in every]
        sets += [frozenset(i for i in every if rng.random() < 0.5) for _ in range(some)]
        yield from map(set, dict.fromkeys(sets))

    def put(self, there: set[int], torn: str, target: Path) -> None:
        """Make the folder a power cut leaves."""
        names = {folder: dict(entries) for folder, entries in self.names.items()}
        for number, group in enumerate(self.pending):
            if number in there:
                for folder, name, what in group:
                    entries = names.setdefault(folder, {})
                    if what is None:
                        entries.pop(name, None)
                    else:
                        entries[name] = what
        self._put(names, _ROOT, torn, target)

    def _put(self, names: Names, folder: int, torn: str, target: Path) -> None:
        target.mkdir()
        for name, what in names.get(folder, {}).items():
            if what in self.folders:
                self._put(names, what, torn, target / name)
            else:
                (target / name).write_bytes(self._bytes(what, torn))

    def _bytes(self, what: int, torn: str) -> bytes:
        safe, live = self.durable.get(what, b""), self.live.get(what, b"")
        if safe == live or torn == "all":
            return live
        if torn == "none":
            return safe
        if live.startswith(safe):  # appended to
            more = live[len(safe) :]
            return safe + (more[: len(more) // 2] if torn == "half" else b"\0" * len(more))
        return live[: len(live) // 2] if torn == "half" else b"\0" * len(live)


@dataclass
class CrashDisk:
    """Watches a folder and the calls that change it.

    Attributes:
        root: the folder.
        promise: what must be there after a power cut from now on; the test says it.
        moments: one before every call, and one at the end (``finish``).
        violations: files that took a name before their bytes were on the disk, or were removed before what replaces
            them was.
    """

    root: Path
    promise: Any = None
    moments: list[Moment] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers: dict[int, int] = {self.root.stat().st_ino: _ROOT}
        self._next = 1
        self._names: Names = {}
        self._live_names: Names = {}
        self._pending: list[list[Change]] = []
        self._folders: set[int] = {_ROOT}
        self._durable: dict[int, bytes] = {}
        self._live: dict[int, bytes] = {}
        self._observe()
        self._names = {folder: dict(names) for folder, names in self._live_names.items()}
        self._pending, self._durable = [], dict(self._live)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Stand between the program and the system until ``patch`` is undone."""
        for name in ("rename", "replace", "unlink", "remove", "rmdir", "mkdir"):
            patch.setattr(os, name, self._changing(name, getattr(os, name)))
        patch.setattr("ecgfed.base.fsync._renameat2", self._changing("exchange", _renameat2()))
        real = os.fsync

        def fsync(handle: int) -> None:
            with self._lock:
                self._moment("fsync")
                real(handle)
                self._synced(handle)

        patch.setattr(os, "fsync", fsync)

    def finish(self) -> list[Moment]:
        """Return every moment, the one after the last call too."""
        with self._lock:
            self._moment("the end")
        return self.moments

    def _changing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            with self._lock:
                self._moment(f"{name} {args[0]!r}")
                self._check(name, args, more)
                result = real(*args, **more)
                self._observe(together=True)
                return result

        return call

    def _check(self, call: str, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        """Note what must never happen, whatever comes of it."""
        if more.get("dir_fd") is not None:  # rmtree, of a folder that has lost its name
            return
        path = Path(os.fsdecode(args[0]))
        temporary = [part for part in path.parts if part.startswith(".")]
        if call in ("rename", "replace") and path.is_file() and len(temporary) < 2:
            number = self._numbers.get(path.stat().st_ino)
            if number is not None and self._durable.get(number) != path.read_bytes():
                self.violations.append(f"{call} {path.name} before its bytes were on the disk")
        if call in ("unlink", "remove") and not temporary and path.is_file():
            here = self._numbers.get(path.parent.stat().st_ino)
            new = [(name, what) for group in self._pending for at, name, what in group if at == here]
            waiting = [name for name, what in new if what is not None and name[0] != "."]
            if waiting:
                self.violations.append(f"{path.name} removed before {', '.join(waiting)} was on the disk")

    def _moment(self, before: str) -> None:
        self._observe()
        names = {folder: dict(entries) for folder, entries in self._names.items()}
        self.moments.append(
            Moment(
                before,
                self.promise,
                names,
                list(self._pending),
                set(self._folders),
                dict(self._durable),
                dict(self._live),
            )
        )

    def _observe(self, *, together: bool = False) -> None:
        """Compare the folder with what it was; what is new is pending."""
        before, self._live_names = self._live_names, {}
        seen: dict[int, int] = {self.root.stat().st_ino: _ROOT}
        self._scan(self.root, _ROOT, seen)
        self._numbers = seen
        changes: list[Change] = []
        for folder in before.keys() | self._live_names.keys():
            old, new = before.get(folder, {}), self._live_names.get(folder, {})
            changes += [
                (folder, name, new.get(name)) for name in old.keys() | new.keys() if old.get(name) != new.get(name)
            ]
        if together and changes:
            self._pending.append(changes)
        else:
            self._pending += [[change] for change in changes]

    def _scan(self, path: Path, folder: int, seen: dict[int, int]) -> None:
        names = self._live_names.setdefault(folder, {})
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            inode = entry.stat(follow_symlinks=False).st_ino
            if inode not in self._numbers and inode not in seen:
                seen[inode], self._next = self._next, self._next + 1
            number = seen.setdefault(inode, self._numbers.get(inode, -1))
            names[entry.name] = number
            if entry.is_dir(follow_symlinks=False):
                self._folders.add(number)
                self._scan(Path(entry.path), number, seen)
            else:
                self._live[number] = Path(entry.path).read_bytes()

    def _synced(self, handle: int) -> None:
        number = self._numbers.get(os.fstat(handle).st_ino)
        if number is None:
            return
        if number not in self._folders:
            self._durable[number] = self._live[number]
            return
        left = []
        for group in self._pending:
            if all(folder != number for folder, _, _ in group):
                left.append(group)
                continue
            for folder, name, what in group:
                entries = self._names.setdefault(folder, {})
                if what is None:
                    entries.pop(name, None)
                else:
                    entries[name] = what
        self._pending = left


def _renameat2() -> Callable[[bytes, bytes], int]:
    from ecgfed.base import fsync

    return fsync._renameat2


def states(moments: list[Moment], folder: Path, *, some: int = 2, seed: int = 0) -> Iterator[tuple[Moment, Path, str]]:
    """Make every state that a power cut may leave, one after the other, each in a folder of its own.

    Args:
        moments: of a ``CrashDisk``.
        folder: where to put them; equal ones are made once.
        some: how many random choices of what was lost, beside the systematic ones.
        seed: of those.
    """
    rng, seen = random.Random(seed), set[tuple[Any, ...]]()
    for number, moment in enumerate(moments):
        for there in moment.lost(rng, some):
            for torn in TORN:
                target = folder / f"{number}-{len(seen)}"
                moment.put(there, torn, target)
                key = (repr(moment.promise), *_contents(target))
                if key not in seen:
                    seen.add(key)
                    yield moment, target, f"before {moment.before}, {sorted(there)} of {len(moment.pending)}, {torn}"
                _clear(target)


def _contents(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    for path in sorted(folder.rglob("*")):
        yield str(path.relative_to(folder)), path.read_bytes() if path.is_file() else None


def _clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()
