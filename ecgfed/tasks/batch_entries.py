"""The entries of a batch's summary, on the disk: each takes 8 bytes of memory."""

import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from ecgfed.base.errors import StorageError

Entry = dict[str, Any]
#: An entry is about 1.5 kB; up to this size all of them stay in memory.
_IN_MEMORY_BYTES = 4 << 20


class StoredEntries(Sequence[Entry]):
    """JSON objects in a temporary file without a name; each access parses one.

    Args:
        entries: the first entries, JSON-ready.

    Raises:
        StorageError: the temporary folder cannot be written.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self._starts = array("Q", [0])
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        """Store an entry; raises StorageError."""
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        try:
            self._file.seek(self._starts[-1])
            self._file.write(text)
        except OSError as problem:
            reason = f"cannot be written ({problem.strerror})"
            raise StorageError(tempfile.gettempdir(), reason, action="set TMPDIR to another folder") from None
        self._starts.append(self._starts[-1] + len(text))

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...

    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(index, slice):
            return tuple(self._read(number) for number in range(*index.indices(len(self))))
        return self._read(range(len(self))[index])

    def __iter__(self) -> Iterator[Entry]:
        return (self._read(number) for number in range(len(self)))

    def __reduce__(self) -> tuple[type["StoredEntries"], tuple[list[Entry]]]:
        return type(self), (list(self),)

    def _read(self, number: int) -> Entry:
        start, stop = self._starts[number : number + 2]
        self._file.seek(start)
        entry: Entry = json.loads(self._file.read(stop - start))
        return entry
