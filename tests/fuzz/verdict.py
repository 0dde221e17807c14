"""What became of a case: refused, the same, another result where that may be; all else is a failure."""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .cases import Prepared, Tree
from .child import Ended
from .jobs import Artefact, Job, why_unsealed

#: Verdicts in the order of the table; what each counts.
GOOD = {
    "refused": "clean refusals: exit 2, one line, nothing written",
    "same": "same results as of the untouched artefact",
    "changed": "other results, where nothing carries a checksum",
}
BAD = {
    "silent": "silent changes of what carries a checksum",
    "traceback": "tracebacks",
    "crash": "ended by a signal",
    "hang": "hangs",
    "memory": "over 2 GB of memory",
    "outside": "wrote or read outside the case's folder, or left files",
    "code": "ran code that a file named",
    "unclear": "refused, and not in one clean line",
    "exit": "another exit code",
}
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LEFT = re.compile(r"(^|/)\.[^/]*(\.partial|\.old|\.replaced|\.tmp)")
#: Times, of which no two are the same; and digests of recordings, which a cohort repeats.
_VARYING = re.compile(rb"\d+(?:\.\d+)? (?:s|ms|minutes|rounds/s|samples/s|s a round)\b"
                    rb'|"(?:seconds|saved|seconds_a_round|samples_per_s)": [^,\n}]+'
                    rb'|"[^"\n]*\.(?:npz|npy|csv|tsv|edf|bdf|dat|hea|atr|ecg|scp|dcm|xml)": "[0-9a-f]{64}"'
                    rb'|"digest": "[0-9a-f]{64}"'  # of a cohort, over these; its arrays are compared themselves
                    rb"|\b\d\d-\d\d \d\d:\d\d\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z]*")  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a command gave: its output and the files it may write, times and the case's own path masked."""

    out: bytes
    files: Mapping[str, tuple[str, bytes]]

    def differs(self, other: "Result") -> str:
        """Return what is another, or ""."""
        if self.out != other.out:
            ours, theirs = self.out.splitlines(), other.out.splitlines()
            lines = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b] or [(ours[-1:], theirs[-1:])]
            return f"output: {lines[0][0]!r}, not {lines[0][1]!r}"
        names = sorted({*self.files, *other.files})
        return next((name for name in names if self.files.get(name) != other.files.get(name)), "")


@dataclass(frozen=True)
class Outcome:
    """A case and its verdict.

    Attributes:
        verdict: one of ``GOOD`` or ``BAD``.
        why: in words.
        stderr: what was said, cut.
    """

    number: int
    artefact: str
    victim: str
    command: str
    mutation: str
    what: str
    resealed: bool
    verdict: str
    why: str
    seconds: float
    peak_mb: int
    stderr: str = field(repr=False, default="")


def masked(data: bytes, folder: Path) -> bytes:
    """Return bytes without what is never the same twice."""
    return _VARYING.sub(b"TIME", data.replace(str(folder).encode(), b"CASE"))


def result_of(ended: Ended, before: Tree, after: Tree, folder: Path) -> Result:
    """Return what a command gave: output, and files that are new or changed."""
    files = {
        name: (kind, masked(data, folder)) for name, (kind, data) in after.items() if before.get(name) != (kind, data)
    }
    return Result(masked(ended.out, folder), {name: of for name, of in files.items() if of[0] != "folder"})


def judge(
    prepared: Prepared, ended: Ended, after: Tree, strays: Iterable[str], wanted: Callable[[], Result]
) -> Outcome:
    """Say what became of a case.

    Args:
        prepared: the case as it was run.
        ended: how its process ended.
        after: what lies in its folder now.
        strays: what lies around its folder now and did not before.
        wanted: tells what the untouched artefact gives; a refusal need not know.
    """
    verdict, why = _verdict(prepared, ended, after, list(strays), wanted)
    case = prepared.case
    return Outcome(
        case.number,
        case.artefact.name,
        case.victim,
        case.job.line,
        prepared.mutation,
        prepared.what,
        prepared.resealed,
        verdict,
        why,
        round(ended.seconds, 2),
        ended.peak >> 20,
        ended.err.decode(errors="replace")[-3000:],
    )


def _verdict(
    prepared: Prepared, ended: Ended, after: Tree, strays: list[str], wanted: Callable[[], Result]
) -> tuple[str, str]:
    err, out = (data.decode(errors="replace") for data in (ended.err, ended.out))
    if any(name.rpartition("/")[2] in ("ran-code", "fuzzed-code") for name in [*after, *strays]):
        return "code", "the code that a file named has run"
    told = forbidden(ended, prepared.case.artefact, prepared.case.job)
    if told or strays:
        return "outside", "; ".join([*told, *strays])[:300]
    if ended.killed:
        return ended.killed, f"after {ended.seconds:.0f} s, {ended.peak >> 20:,} MB"
    if ended.code < 0:
        return "crash", f"signal {-ended.code}"
    if "Traceback (most recent call last)" in err:
        return "traceback", err.strip().splitlines()[-1][:300]
    if found := _CONTROLS.search(err) or _CONTROLS.search(out):
        return "unclear", f"{found[0]!r} in what is printed"
    goes_on = ended.code == 1 and prepared.case.job.lists_failures
    if ended.code not in (0, 2) and not goes_on:
        return "exit", f"exit code {ended.code}"
    changed = sorted(name for name in {*prepared.before, *after} if prepared.before.get(name) != after.get(name))
    if goes_on:
        return _failed(prepared, err, changed, after)
    return _refused(prepared, err, out, changed) if ended.code else _done(prepared, ended, after, changed, wanted)


def _refused(prepared: Prepared, err: str, out: str, changed: list[str]) -> tuple[str, str]:
    lines = [line for line in err.splitlines() if line.strip() and not line.startswith("ecgfed: note: ")]
    lines = [line for line in lines if not re.match(r"ecgfed: \w+: \d+( of \d+)?(,|$)", line)]  # progress
    if changed:
        return "outside", f"refused, and changed {', '.join(changed)[:200]}"
    if len(lines) != 1 or not lines[0].startswith("ecgfed: "):
        return "unclear", f"{len(lines)} lines: {' | '.join(lines)[:300]}"
    if "--quiet" in prepared.case.job.arguments and out:
        return "unclear", f"refused, and printed {out[:100]!r}"
    if len(lines[0]) > 2000:
        return "unclear", f"a line of {len(lines[0]):,} characters"
    if prepared.case.job.always_ends_well and prepared.mutation not in ("place", "around"):
        return "unclear", f"one damaged run, and no list: {lines[0][:200]}"
    return "refused", lines[0][:300]


def forbidden(ended: Ended, artefact: Artefact, job: Job) -> list[str]:
    """Return what a process did that its case may not do."""
    may = ("read ",) * artefact.links + ("socket.bind ", "socket.connect ") * job.serves
    return [line for line in ended.told if not line.startswith(may)]


def _failed(prepared: Prepared, err: str, changed: list[str], after: Tree) -> tuple[str, str]:
    """Judge a batch that went on after what failed: a line for each, and a summary that names it."""
    if wild := _wild(prepared, changed, after):
        return "outside", f"changed {', '.join(wild)[:200]}"
    lines = [line for line in err.splitlines() if line.strip()]
    if not any(line.startswith("ecgfed: note: failed: ") for line in lines) or any(
        not x.startswith("ecgfed: ") for x in lines
    ):
        return "unclear", f"{len(lines)} lines: {' | '.join(lines)[:300]}"
    return "refused", " | ".join(lines)[:300]


def _wild(prepared: Prepared, changed: list[str], after: Tree) -> list[str]:
    """Return what was changed and may not be, or was left half-written."""
    may = prepared.case.job.may_change
    return [name for name in changed if name.split("/")[0] not in may or (name in after and _LEFT.search(name))]


def _done(
    prepared: Prepared, ended: Ended, after: Tree, changed: list[str], wanted: Callable[[], Result]
) -> tuple[str, str]:
    if wild := _wild(prepared, changed, after):
        return "outside", f"changed {', '.join(wild)[:200]}"
    found = result_of(ended, prepared.before, after, prepared.folder)
    if not (other := _without_restored(found, prepared, wanted()).differs(wanted())):
        return "same", ""
    if prepared.case.job.always_ends_well and prepared.case.victim.encode() in ended.out:
        return "refused", other[:300]  # a list names the damaged file and goes on
    why = why_changed(prepared)
    return ("changed", f"{other}; {why}"[:300]) if why else ("silent", other[:300])


def _without_restored(found: Result, prepared: Prepared, wanted: Result) -> Result:
    """Return a result without the spoiled file, where the command has written it again as it was."""
    victim = prepared.case.victim
    as_it_was = found.files.get(victim) == ("file", masked(prepared.pristine, prepared.folder))
    if victim in wanted.files or not as_it_was:
        return found
    return Result(found.out, {name: of for name, of in found.files.items() if name != victim})


def why_changed(prepared: Prepared) -> str | None:
    """Return why a changed result is nobody's fault, or None."""
    if why := why_unsealed(prepared.case.victim):
        return why
    if prepared.resealed:
        return "its checksum was made true again"
    path = prepared.folder / prepared.case.victim
    if path.suffix == ".dat" and path.is_file() and path.read_bytes().startswith(prepared.pristine):
        return "what follows the samples that the header states is not read, and a warning says so"
    if path.suffix == ".dat" and path.is_file() and _sums(path, path.read_bytes()) == _sums(path, prepared.pristine):
        return "the samples' 16-bit sums are as they were"
    if path.suffix in (".npz", ".pack") and path.is_file():
        return _archive_changed(path.read_bytes(), prepared.pristine, prepared.mutation)
    return None


def _sums(path: Path, data: bytes) -> list[int]:
    """Return each channel's sum modulo 2**16 of two channels in format 212 or 16, by the specification."""
    raw = np.frombuffer(data, np.uint8).astype(np.int64)
    if path.parent.name == "wfdb16":
        raw = raw[: len(raw) // 4 * 4]
        steps = (raw[0::2] | raw[1::2] << 8).reshape(-1, 2).T
    else:
        raw = raw[: len(raw) // 3 * 3]
        steps = np.stack([raw[0::3] | (raw[1::3] & 15) << 8, raw[2::3] | (raw[1::3] >> 4) << 8])
        steps = np.where(steps > 2047, steps - 4096, steps)
    return [int(channel.sum()) % 65536 for channel in steps]


def _archive_changed(data: bytes, pristine: bytes, mutation: str) -> str | None:
    """A member's checksum guards what is in it, not its name; and an archive closed again is another archive."""
    if mutation == "archive":
        return "an archive closed again has true checksums"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as now, zipfile.ZipFile(io.BytesIO(pristine)) as then:
            return "names in an archive have no checksum" if now.namelist() != then.namelist() else None
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeDecodeError):
        return None


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return how many cases came to each verdict, all verdicts named."""
    found = Counter(outcome.verdict for outcome in outcomes)
    return {name: found[name] for name in (*GOOD, *BAD)}
