"""Entries of the leaderboard: one JSON file each, below ``entries/TRACK``, and the checks that every one passes.

``entry.schema.json`` has the form of an entry, ``tracks.json`` the data, split, records and scores of each track.
"""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS2, ROOT

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json
from ecgfed.domain.cohort.databases import MITBIH, package_sha256

HERE = Path(__file__).resolve().parent
ENTRIES = HERE / "entries"
#: The arrays of a cohort that say which beat of whom is in which split; windows and RR features may differ.
SPLIT_ARRAYS = ("client", "label", "record", "sample", "split")
#: Records that a track is scored on, by the name that ``tracks.json`` has for them.
RECORDS = {"all": tuple(sorted({Path(name).stem for name in package_sha256(MITBIH)})), "DS2": DS2}


class Track(TypedDict):
    """What every entry of a track has in common.

    ``cohort`` and ``cohorts`` (fingerprints of cohorts with these beats and this split) are of tracks that score runs;
    ``records``, ``start_s`` and ``suffix`` of those that score annotations.
    """

    title: str
    about: str
    kind: str
    unit: str
    maximum: float
    data_sha256: str
    split_sha256: str
    scores: dict[str, str]
    sort: str
    cohort: NotRequired[str]
    cohorts: NotRequired[list[str]]
    records: NotRequired[str]
    start_s: NotRequired[float]
    suffix: NotRequired[str]


@cache
def tracks() -> dict[str, Track]:
    """Return the tracks by name."""
    return dict(read_json(HERE / "tracks.json", RunError))


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of an entry."""
    return dict(read_json(HERE / "entry.schema.json", RunError))


def listing_digest(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of the lines that ``sha256sum`` writes for some files, in order of their names."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def records_digest(records: Sequence[str]) -> str:
    """Return the SHA-256 of record names, one a line in order: the split of a track that scores whole records."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(records)).encode()).hexdigest()


def file_of(entry: Mapping[str, Any]) -> Path:
    """Return the file of an entry: its name in lower case, with hyphens, in the folder of its track."""
    words = re.sub(r"[^a-z0-9]+", "-", entry["name"].lower().replace("'", "")).strip("-")
    return ENTRIES / str(entry["track"]) / f"{words}.json"


def as_text(entry: Mapping[str, Any]) -> str:
    """Return an entry as the text of its file."""
    return json.dumps(entry, indent=1, ensure_ascii=False) + "\n"


def check(entry: object, file: Path) -> dict[str, Any]:
    """Return an entry that has the form of the schema and agrees with its track.

    Args:
        entry: what its file contains.
        file: named in the message.

    Raises:
        RunError: it does not; the line names the field.
    """
    if problem := best_match(Draft202012Validator(schema()).iter_errors(entry)):
        raise _malformed(problem, file)
    assert isinstance(entry, dict)
    track = tracks()[entry["track"]]
    ours = entry["scored_from"]["kind"] == "results"
    for field in ("data_sha256", "split_sha256"):
        if entry[field] != track[field] and not (ours and entry[field] is None):  # type: ignore[literal-required]
            expected = f"{track[field]}, the track's"  # type: ignore[literal-required]
            raise RunError(file, f"{field}: {entry[field]!r}", expected, "score with the data and split of the track")
    if entry["kind"] != track["kind"]:
        raise RunError(file, f"kind: {entry['kind']!r}", f"{track['kind']}, as in every entry of {entry['track']}")
    if entry["kind"] == "method" and not entry["seeds"]:
        raise RunError(file, "seeds: none", "the seed of each run")
    if entry["scores"].keys() != track["scores"].keys():
        raise RunError(file, f"scores: {', '.join(entry['scores'])}", ", ".join(track["scores"]))
    for name, score in entry["scores"].items():
        _check_score(name, score, track["maximum"], file, ours=ours)
    return entry


def _check_score(name: str, score: Mapping[str, float | None], maximum: float, file: Path, *, ours: bool) -> None:
    value, low, high = score["value"], score["low"], score["high"]
    assert value is not None
    if not 0 <= value <= maximum:
        raise RunError(file, f"scores.{name}.value: {value:g}", f"0 to {maximum:g}")
    if (low is None or high is None) and not (ours and low is high):
        raise RunError(file, f"scores.{name}: without an interval", "low and high", "write the entry with entry.py")
    if low is not None and high is not None and not 0 <= low <= high <= maximum:
        raise RunError(file, f"scores.{name}: from {low:g} to {high:g}", f"low up to high, within 0 to {maximum:g}")


def _malformed(problem: ValidationError, file: Path) -> RunError:
    """Name the field, what is there, and what the schema's description asks for."""
    where, found = list(problem.absolute_path), f"{json.dumps(problem.instance, ensure_ascii=False):.100}"
    known = _rules(where).get("properties", {})
    if problem.validator == "required":
        where.append(next(name for name in problem.validator_value if name not in problem.instance))
        found = "missing"
    elif problem.validator == "additionalProperties":
        where.append(next(name for name in problem.instance if name not in known))
        return RunError(file, f"{'.'.join(map(str, where))}: unknown", ", ".join(known))
    field = ".".join(map(str, where)) or "the file"
    return RunError(file, f"{field}: {found}", _rules(where).get("description", problem.message))


def _rules(where: Sequence[str | int]) -> dict[str, Any]:
    """Return the part of the schema for a field."""
    rules = schema()
    for key in where:
        rules = rules["items"] if isinstance(key, int) else rules.get("properties", {}).get(key)
        rules = rules or schema()["$defs"]["score"]  # by the track's names
        if "$ref" in rules:
            rules = {**schema()["$defs"][rules["$ref"].rpartition("/")[2]], **rules}
    return rules


def read_entry(file: Path) -> dict[str, Any]:
    """Return the entry in a file of the leaderboard.

    Raises:
        RunError: no JSON, a fault (``check``), or a file that has another place or name than ``file_of`` gives.
    """
    entry = check(read_json(file, RunError), file)
    if file.resolve() != file_of(entry):
        problem = f"track and name: {entry['track']}, {entry['name']!r}"
        raise RunError(file, problem, f"the file {file_of(entry).relative_to(ROOT)}", "move it")
    results = entry["scored_from"].get("file")
    if results is not None and not (ROOT / results).is_file():
        raise RunError(file, f"scored_from.file: {results!r} is not there", "a results file of the repository")
    return entry
