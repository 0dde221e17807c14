"""Writing a cohort client by client: memory holds one at a time, and a kill leaves nothing; or a cohort in memory."""

import contextlib
import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.files import write_json
from ecgfed.domain.cohort.arrays import DIGEST, document_digest, fingerprint_of
from ecgfed.domain.cohort.cohort import FILE_NAME, SCHEMA_VERSION, Cohort, cohort_in_memory
from ecgfed.domain.cohort.layout import DRAWN_ARRAYS, Layout, layout_of


class _ArrayWriter:
    """Appends rows of one array, and hashes them."""

    def __init__(self, dtype: str, tail: tuple[int, ...]) -> None:
        self.dtype, self.tail, self.rows = np.dtype(dtype), tail, 0
        self.digest = hashlib.sha256()

    def append(self, rows: NDArray[Any]) -> None:
        """Append (n, *tail) rows."""
        block = np.ascontiguousarray(rows, dtype=self.dtype)
        if block.shape[1:] != self.tail:
            raise ValueError(f"rows of shape {block.shape[1:]}, expected {self.tail}")
        self._put(block)
        self.digest.update(block.data if block.size else b"")
        self.rows += len(block)

    def _put(self, block: NDArray[Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End the array."""

    def discard(self) -> None:
        """Close an array that is not finished."""


class _FileWriter(_ArrayWriter):
    """Into one ``.npy`` file; numpy leaves room in the header for the first axis to grow."""

    def __init__(self, dtype: str, tail: tuple[int, ...], path: Path) -> None:
        super().__init__(dtype, tail)
        self.stream: BinaryIO = path.open("wb+")
        self._write_header()

    def _write_header(self) -> None:
        descr, shape = np.lib.format.dtype_to_descr(self.dtype), (self.rows, *self.tail)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.stream, header)

    def _put(self, block: NDArray[Any]) -> None:
        self.stream.write(block.data if block.size else b"")

    def close(self) -> None:
        """Write the final length into the header."""
        end = self.stream.tell()
        self.stream.seek(0)
        self._write_header()
        self.stream.seek(end)
        self.stream.close()

    def discard(self) -> None:
        self.stream.close()


class _MemoryWriter(_ArrayWriter):
    """Into memory."""

    def __init__(self, dtype: str, tail: tuple[int, ...]) -> None:
        super().__init__(dtype, tail)
        self.blocks = [np.empty((0, *tail), self.dtype)]

    def _put(self, block: NDArray[Any]) -> None:
        self.blocks.append(block.copy() if block.base is not None else block)

    def array(self) -> NDArray[Any]:
        """Return all rows, read-only."""
        joined = np.concatenate(self.blocks)
        joined.flags.writeable = False
        return joined


class CohortWriter:
    """Writes a cohort into an existing empty folder, or into memory; a context manager.

    Call ``append`` for one client after the other, then ``finish`` with what ``cohort.json`` shall say.

    Args:
        folder: where to; None for memory.
        modality: ``ecg``, ``image`` or ``array``; the latter two take the common test pool first, if there is one, as
            client ``NOBODY``, and ``draw``.
        rr_version: of the RR features of beats; ``finish`` has to say it too.
        example: dtype and shape of an example of a cohort of arrays; ``finish`` has to say it too.
    """

    def __init__(
        self,
        folder: Path | None,
        modality: str = "ecg",
        rr_version: int = 1,
        example: tuple[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.folder, self.modality = folder, modality
        self.arrays = self._open(layout_of(modality, rr_version, example))
        self.drawn = {} if modality == "ecg" else self._open(DRAWN_ARRAYS)

    def _open(self, layout: Layout) -> dict[str, _ArrayWriter]:
        if self.folder is None:
            return {name: _MemoryWriter(*kind) for name, kind in layout.items()}
        return {name: _FileWriter(*kind, self.folder / f"{name}.npy") for name, kind in layout.items()}

    def __enter__(self) -> "CohortWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in (*self.arrays.values(), *self.drawn.values()):
            if error is None:
                writer.discard()
            else:  # a full disk refuses what is still buffered, too: what went wrong first is what to report
                with contextlib.suppress(OSError):
                    writer.discard()

    @property
    def beats(self) -> int:
        """Beats written so far."""
        return self.arrays["label"].rows

    def append(self, **rows: NDArray[Any]) -> None:
        """Append the beats of one client: every array of the modality by name, all of the same length."""
        self._append(self.arrays, rows)

    def draw(self, **rows: NDArray[Any]) -> None:
        """Append one client's rows of the common test pool: ``test_client`` and ``test_row``, of one length."""
        self._append(self.drawn, rows)

    @staticmethod
    def _append(arrays: dict[str, _ArrayWriter], rows: dict[str, NDArray[Any]]) -> None:
        if set(rows) != set(arrays) or len({len(part) for part in rows.values()}) != 1:
            raise ValueError(f"append needs {sorted(arrays)} of one length")
        for name, part in rows.items():
            arrays[name].append(part)

    def finish(self, meta: dict[str, Any]) -> Cohort | None:
        """Close the arrays and write ``cohort.json`` with ``meta``, the counts, the fingerprint and a digest.

        Returns:
            The cohort, if it is in memory.
        """
        every = {**self.arrays, **self.drawn}
        for writer in every.values():
            writer.close()
        hashes = {name: writer.digest.hexdigest() for name, writer in every.items()}
        counts = {next(iter(self.arrays)): self.beats}
        if self.drawn:
            counts["drawn"] = self.drawn["test_row"].rows
        stated = {"schema_version": SCHEMA_VERSION, "modality": self.modality, **meta, **counts}
        document = {**stated, "sha256": hashes, "fingerprint": fingerprint_of(hashes)}
        if self.folder is None:
            arrays = {name: writer.array() for name, writer in every.items() if isinstance(writer, _MemoryWriter)}
            return cohort_in_memory(document, arrays)
        write_json(self.folder / FILE_NAME, {**document, DIGEST: document_digest(document)})
        return None
