"""Fetching published files, databases from PhysioNet: resumable, and kept only when the published digest agrees."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ecgfed.base.errors import CohortError, StorageError
from ecgfed.base.files import create_folder, md5, sha256
from ecgfed.base.fsync import sync_file, sync_folder
from ecgfed.base.locks import locked
from ecgfed.domain.cohort.databases import SUMS, Database, listed_sha256, package_sha256

TIMEOUT_S = 60.0
_BLOCK = 1 << 16
_DIGESTS = {"SHA-256": sha256, "MD5": md5}
#: Called with a file's name, bytes fetched and bytes of all (0 where the server does not say).
ByteProgress = Callable[[str, int, int], None]


def download_database(
    database: Database,
    folder: Path,
    *,
    base_url: str | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> int:
    """Fetch a database's records into ``folder``; files that are there and right are left alone.

    A download that broke off goes on where it stopped (``NAME.part``). A file whose SHA-256 is not the published one
    is thrown away. Where the package does not have the digest of every file, PhysioNet's ``SHA256SUMS.txt`` is fetched
    first; for files of which the package has one, that of the package is decisive.

    Args:
        database: it.
        folder: where to put the files; made when absent.
        base_url: the database's folder on a mirror; default PhysioNet.
        on_progress: called after each file with its name, the number done and the number of all.

    Returns:
        The number of files fetched now.

    Raises:
        StorageError: no connection, no such file, a wrong checksum, or a disk that refuses to write.
        CohortError: the list of digests is none, or names no record.
    """
    create_folder(folder)
    base, published = (base_url or database.url).rstrip("/"), package_sha256(database)
    expected = dict(published)
    if not database.complete:
        fetch(f"{base}/{SUMS}", folder / SUMS, None)
        listed = listed_sha256(folder / SUMS, database)
        if not listed:
            raise CohortError(f"{base}/{SUMS}", f"lists no record of the {database.title}", action="check the address")
        expected = {name: published.get(PurePosixPath(name).name, digest) for name, digest in listed.items()}
    fetched = 0
    for number, (path, digest) in enumerate(sorted(expected.items()), start=1):
        target = folder / PurePosixPath(path).name
        if not target.is_file() or sha256(target) != digest:
            fetch(f"{base}/{path}", target, digest)
            fetched += 1
        if on_progress:
            on_progress(target.name, number, len(expected))
    return fetched


def fetch(
    url: str, target: Path, digest: str | None, *, kind: str = "SHA-256", on_progress: ByteProgress | None = None
) -> None:
    """Fetch one file by way of ``NAME.part``, going on where a part is there; kept only when its digest agrees.

    Args:
        url: where it is.
        target: where it shall be.
        digest: the published one, hexadecimal; None for a file that none is published of, fetched anew every time.
        kind: ``SHA-256`` or ``MD5``.
        on_progress: called while bytes come.

    Raises:
        StorageError: no connection, no such file, another digest, or a disk that refuses to write.
    """
    with locked(target):  # two that add to one part would spoil it
        _fetch(url, target, digest, kind, on_progress)


def _fetch(url: str, target: Path, digest: str | None, kind: str, on_progress: ByteProgress | None) -> None:
    part, of = target.with_name(target.name + ".part"), _DIGESTS[kind]
    try:
        if digest is None:
            part.unlink(missing_ok=True)
        resumed = _transfer(url, part, on_progress)
        if resumed and of(part) != digest:
            # A stale part may have been continued from another file: once more from the start.
            part.unlink()
            _transfer(url, part, on_progress)
        if digest is not None and of(part) != digest:
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
