"""Fetching published files, MIT-BIH from PhysioNet: resumable, and kept only when the published digest agrees."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ecgfed.base.errors import StorageError
from ecgfed.base.files import create_folder, md5, sha256
from ecgfed.base.fsync import sync_file, sync_folder
from ecgfed.base.locks import locked
from ecgfed.domain.cohort.mitbih import published_sha256

PHYSIONET = "https://physionet.org/files/mitdb/1.0.0/"
TIMEOUT_S = 60.0
_BLOCK = 1 << 16
_DIGESTS = {"SHA-256": sha256, "MD5": md5}
#: Called with a file's name, bytes fetched and bytes of all (0 where the server does not say).
ByteProgress = Callable[[str, int, int], None]


def download_mitbih(
    folder: Path, *, base_url: str = PHYSIONET, on_progress: Callable[[str, int, int], None] | None = None
) -> int:
    """Fetch the 48 records into ``folder``; files that are there and right are left alone.

    A download that broke off goes on where it stopped (``NAME.part``). A file whose SHA-256 is not the published one
    is thrown away.

    Args:
        folder: where to put the files; made when absent.
        base_url: the database's folder on PhysioNet or on a mirror.
        on_progress: called after each file with its name, the number done and the number of all.

    Returns:
        The number of files fetched now.

    Raises:
        StorageError: no connection, no such file, a wrong checksum, or a disk that refuses to write.
    """
    create_folder(folder)
    expected = published_sha256()
    fetched = 0
    for number, (name, digest) in enumerate(sorted(expected.items()), start=1):
        target = folder / name
        if not target.is_file() or sha256(target) != digest:
            fetch(base_url.rstrip("/") + "/" + name, target, digest)
            fetched += 1
        if on_progress:
            on_progress(name, number, len(expected))
    return fetched


def fetch(
    url: str, target: Path, digest: str, *, kind: str = "SHA-256", on_progress: ByteProgress | None = None
) -> None:
    """Fetch one file by way of ``NAME.part``, going on where a part is there; kept only when its digest agrees.

    Args:
        url: where it is.
        target: where it shall be.
        digest: the published one, hexadecimal.
        kind: ``SHA-256`` or ``MD5``.
        on_progress: called while bytes come.

    Raises:
        StorageError: no connection, no such file, another digest, or a disk that refuses to write.
    """
    with locked(target):  # two that add to one part would spoil it
        _fetch(url, target, digest, kind, on_progress)


def _fetch(url: str, target: Path, digest: str, kind: str, on_progress: ByteProgress | None) -> None:
    part, of = target.with_name(target.name + ".part"), _DIGESTS[kind]
    try:
        resumed = _transfer(url, part, on_progress)
        if resumed and of(part) != digest:
            # A stale part may have been continued from another file: once more from the start.
            part.unlink()
            _transfer(url, part, on_progress)
        if of(part) != digest:
            part.unlink()
            raise StorageError(url, f"is not the published file ({kind} differs)", action="try again or use a mirror")
        sync_file(part)
        part.replace(target)
        sync_folder(target.parent)
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ValueError) as error:
        reason = getattr(error, "reason", error)  # ValueError: an address that is none
        action = "check the connection and the address, then run the same command again: it goes on"
        raise StorageError(url, f"cannot be fetched ({reason})", action=action) from error
    except OSError as error:
        raise StorageError(target, f"cannot be fetched ({error.strerror or error})", action="run it again") from error


def _transfer(url: str, part: Path, on_progress: ByteProgress | None) -> bool:
    """Fetch ``url`` into ``part``, the rest only where some of it is there; return whether some was."""
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the part already holds every byte
            raise
        return start > 0
    resumed = bool(response.status == 206)
    promised, received = response.headers.get("Content-Length"), 0
    before = start if resumed else 0
    with response, part.open("ab" if resumed else "wb") as stream:
        while block := response.read(_BLOCK):
            stream.write(block)
            received += len(block)
            if on_progress:
                on_progress(part.stem, before + received, before + int(promised or 0))
    if promised is not None and received < int(promised):  # http.client reads a broken connection as an end
        raise ConnectionError(f"the connection closed after {received} of {promised} bytes")
    return resumed
