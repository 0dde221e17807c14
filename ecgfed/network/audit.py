"""A site's audit log: one line for each question of the server, signed and chained, written before the answer leaves.

audit.jsonl holds JSON objects, one per line: ``n`` (from 1), ``time`` (UTC), ``question`` (registration, round, scores,
end or unknown; in secure aggregation keys, shares, unmasking), ``run``, ``round``, ``patients`` (how many), ``steps``
(of the patient with most), ``weights`` (SHA-256 of all arrays of the question), ``answer``, ``seconds``, ``previous``
(SHA-256 of the line before, zeros in the first) and ``signature``, the site's ECDSA signature (base64) over the line
without it. ``audit.pub`` is the public key.

The chain shows changed, removed and exchanged lines, and the signature that the holder of the site's key wrote them.
Lines cut off at the end show only beside a digest that was written down elsewhere (``check_log``).
"""

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.safe_io import parse_json, read_bounded
from ecgfed.base.text import safe_text
from ecgfed.network.certificates import is_signed, make_site_key, signed
from ecgfed.network.errors import SiteError
from ecgfed.network.private import write_private
from ecgfed.network.programs import SITE_KEY

if TYPE_CHECKING:  # a site's run is tested without Flower
    from flwr.app import RecordDict

#: Files in a site's folder.
AUDIT, AUDIT_KEY = "audit.jsonl", "audit.pub"
#: File in a site's folder: how many questions of each kind the log has answers to, and its last line.
COUNTS = "audit-counts.json"
#: Kinds of answers to a round; a stored one was given before, to the same question.
UPDATE, NOISED, STORED = "update", "noised update", "stored update"
#: Size of the log beyond which the site answers nothing, so that no question goes unrecorded. More than 50,000 lines.
MAX_BYTES = 64 << 20
#: ``previous`` of the first line.
START = "0" * 64
#: Flower's message types -> the question.
QUESTIONS = {
    **{"_register": "registration", "_round": "round", "_finish": "end"},
    **{"_keys": "keys", "_shares": "shares", "_unmask": "unmasking"},
}
#: Any other question, which is refused.
UNKNOWN = "unknown"
_MAX_LINE = 1 << 16


@dataclass(frozen=True)
class AuditLog:
    """A verified log.

    Attributes:
        lines: its entries, without signatures.
        last: SHA-256 of its last line.
        key: SHA-256 of the public key that signed it.
    """

    lines: list[dict[str, Any]]
    last: str
    key: str


def site_key(folder: Path) -> Path:
    """Return the file of a site's private key; made if it does not exist. Raises OptionError, StorageError."""
    private = Path(os.environ.get(SITE_KEY) or folder / "key")
    make_site_key(private)
    return private


def describe(question: str, content: "RecordDict") -> dict[str, Any]:
    """Return what the log says of a question before it is answered; a malformed one has fewer fields."""
    fields: Mapping[str, Any] = dict(content.config_records.get("say", {}))
    try:
        run = str(json.loads(str(fields.get("order", "{}"))).get("run", ""))[:64]
    except (ValueError, AttributeError, RecursionError):
        run = ""
    clients, round_number = fields.get("clients"), fields.get("round", fields.get("last"))
    sha256 = hashlib.sha256()
    for name, record in sorted(content.array_records.items()):
        for path, array in record.items():
            sha256.update(f"{name}/{path} {array.dtype} {array.shape}\n".encode(errors="backslashreplace"))
            sha256.update(array.data)
    return {
        "question": "scores" if question == "end" and fields.get("split") == "valid" else question,
        "run": safe_text(run),
        "round": round_number if type(round_number) is int else None,
        "patients": len(clients) if isinstance(clients, list) else None,
        "steps": None,
        "weights": sha256.hexdigest() if content.array_records else None,
    }


def append(folder: Path, entry: Mapping[str, Any]) -> None:
    """Append a signed line, durably; an incomplete last line, of a process that was killed, is removed first.

    Raises:
        StorageError: the log is too large or cannot be written, so nothing may be answered.
        OptionError: the site's key cannot be used.
    """
    private = site_key(folder)
    try:
        with (folder / AUDIT).open("a+b") as stream:
            if stream.seek(0, os.SEEK_END) > MAX_BYTES:
                reason = f"has more than {MAX_BYTES >> 20} MiB"
                raise StorageError(folder / AUDIT, reason, action="verify it, move it away, and start the site again")
            number, previous = _last(stream.fileno())
            line = {"n": number + 1, "time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}
            line["previous"] = previous
            signature, public = signed(private, _canonical(line))
            if not (folder / AUDIT_KEY).is_file() or (folder / AUDIT_KEY).read_bytes() != public:
                write_private(folder / AUDIT_KEY, public, mode=0o644)
            counts = _counts(folder)
            text = _canonical({**line, "signature": base64.b64encode(signature).decode()})
            stream.write(text + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        if kind := count_of_answers(line):
            counts[kind] = counts.get(kind, 0) + 1
        stored = {"n": number + 1, "last": hashlib.sha256(text).hexdigest(), "counts": dict(counts)}
        with suppress(StorageError):  # counted again from the log
            write_json(folder / COUNTS, stored)
    except OSError as problem:
        reason = f"could not be written ({problem.strerror})"
        raise StorageError(folder / AUDIT, reason, action="free some space") from problem


def _last(handle: int) -> tuple[int, str]:
    """Return the number and SHA-256 of the last complete line of an open log, and cut off what follows it."""
    size = os.fstat(handle).st_size
    start = max(0, size - _MAX_LINE)
    tail = os.pread(handle, size - start, start)
    complete = tail[: tail.rfind(b"\n") + 1]
    if len(complete) < len(tail):
        os.ftruncate(handle, start + len(complete))
    if not complete:
        return 0, START
    last = complete[:-1].rpartition(b"\n")[2]
    try:
        return int(parse_json(last)["n"]), hashlib.sha256(last).hexdigest()
    except (ValueError, KeyError, TypeError) as problem:
        raise OSError(0, "its last line is not one of its own; move it away") from problem


def _canonical(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode()


def answered(folder: Path, accepts: Callable[[Mapping[str, Any]], bool]) -> int:
    """Return how many lines of a log are accepted; lines that cannot be read count as none. Raises StorageError."""
    count = 0
    for text in read_bounded(folder / AUDIT, 2 * MAX_BYTES, StorageError).splitlines():
        with suppress(ValueError, KeyError, TypeError):
            count += bool(accepts(parse_json(text)))
    return count


def count_of_answers(line: Mapping[str, Any]) -> str:
    """Return what an answered question counts towards: a round of a run, or a run's scores; "" for any other."""
    if line["question"] == "round" and line["answer"] in (UPDATE, NOISED):
        return f"{line['run']} round {line['round']}"
    return f"{line['run']} scores" if line["answer"] == "scores" else ""


def _counts(folder: Path) -> dict[str, int]:
    """Return how many questions of each kind were answered, from ``COUNTS`` if it is as old as the log."""
    if not (folder / AUDIT).is_file():
        return {}
    with (folder / AUDIT).open("r+b") as stream:
        number, last = _last(stream.fileno())
    with suppress(StorageError, KeyError, TypeError, AttributeError):
        stored = read_json(folder / COUNTS, StorageError)
        if (stored["n"], stored["last"]) == (number, last):
            return {str(kind): int(count) for kind, count in stored["counts"].items()}
    counts = Counter[str]()  # the process was killed between the two, or the log is of an older version

    def counted(line: Mapping[str, Any]) -> bool:
        counts.update(filter(None, [count_of_answers(line)]))
        return True

    answered(folder, counted)
    write_json(folder / COUNTS, {"n": number, "last": last, "counts": dict(counts)})
    return dict(counts)


def check_questions(folder: Path, most: int, what: str, kind: str) -> None:
    """Refuse a question beyond the site's bound on its kind.

    Args:
        most: how many may be answered.
        what: such as ``answers in round 3``.
        kind: as of ``count_of_answers``.

    Raises:
        SiteError: as many have been answered.
        StorageError: the log cannot be read.
    """
    if (count := _counts(folder).get(kind, 0)) >= most:
        reason, expected = f"asks again after {count} {what}", f"at most {most} (this site's limit)"
        raise SiteError("bound", "the server", reason, expected, "raise the limit if the server has a reason")


def check_at_start(folder: Path) -> str:
    """Verify the log before the site connects, and count its answers; returns what is wrong with it, "" if nothing."""
    try:
        (folder / COUNTS).unlink(missing_ok=True)
        _counts(folder)
        if (folder / AUDIT).is_file() and (folder / AUDIT).stat().st_size:
            check_log(folder)
    except StorageError as problem:
        return problem.line
    except OSError as problem:
        return f"{folder / AUDIT}: cannot be read ({problem.strerror})"
    return ""


def check_log(folder: Path, digest: str | None = None) -> AuditLog:
    """Verify a site's audit log.

    Args:
        folder: the site's folder.
        digest: SHA-256 of a line, as written down earlier; the log must hold it.

    Raises:
        OptionError: no such line.
        StorageError: no log, or naming the first line that is not what was written.
    """
    file = folder / AUDIT
    if not file.is_file():
        raise StorageError(file, "does not exist", "the log of a site that was asked something")
    public = folder / AUDIT_KEY
    lines, previous, digests = list[dict[str, Any]](), START, set[str]()
    for number, text in enumerate(read_bounded(file, 2 * MAX_BYTES, StorageError).splitlines(), start=1):
        where = f"{file} line {number}"
        try:
            line = parse_json(text)
            signature = base64.b64decode(line.pop("signature"))
            if line["n"] != number or line["previous"] != previous:
                raise StorageError(where, "does not follow the line before it", f"line {number} of the chain")
            if not is_signed(public, signature, _canonical(line)):
                raise StorageError(where, "does not bear the site's signature", f"one by {public}")
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StorageError(where, f"cannot be read ({problem!s:.100})", "a line as the site writes it") from problem
        previous = hashlib.sha256(text).hexdigest()
        digests.add(previous)
        lines.append(line)
    if digest is not None and digest.lower() not in digests:
        raise OptionError("holds", f"{digest:.80}", f"the SHA-256 of one of the {len(lines)} lines of {file}")
    key = b" ".join(read_bounded(public, _MAX_LINE, StorageError).split()[:2])
    return AuditLog(lines, previous, hashlib.sha256(key).hexdigest())
