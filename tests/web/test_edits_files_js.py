"""A report's page and ``report --edits`` refuse the same files of edits."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edits_files import SAVED, accept, add, interval, label, rhythm
from node_runtime import node_path
from random_reports import random_labelled, recording_of

import ecgfed.web
from ecgfed.base.errors import RecordError
from ecgfed.base.text import visible_text
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.edits import read_edits
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.editing import editing_data

WEB = Path(ecgfed.web.__file__).parent
DRIVER = Path(__file__).parents[1] / "browser" / "edits_files.mjs"
RECORDING, BEATS = "0" * 16, "1" * 16
LABELLED, QUALITY = random_labelled(np.random.default_rng(3), 60)
LABELLED = replace(LABELLED, rhythms=(RhythmEpisodes("AF or flutter", ((10.0, 20.0),), "signal", (0.62,)),))
PEAK = LABELLED.sample.tolist()
#: A place without a beat: the middle of the longest interval.
LONGEST = int(np.diff(LABELLED.sample).argmax())
GAP = (PEAK[LONGEST] + PEAK[LONGEST + 1]) // 2
END = QUALITY.samples
AF = ("AF or flutter", 2500, 5000)

pytestmark = pytest.mark.browser

GOOD: list[list[dict[str, Any]]] = [
    [],
    [label("V", *PEAK[:5]), accept(PEAK[7]), interval(PEAK[2], PEAK[3], accepted=False)],
    [rhythm(*AF, "AF or flutter")],
    [rhythm(*AF, "")],
    [rhythm(*AF, "atrial flutter")],
    [add("V", GAP), label("N", GAP), accept(GAP), interval(PEAK[LONGEST], GAP, accepted=True)],
    [add("V", GAP), label("|", GAP)],
    [label("|", PEAK[LONGEST]), add("N", PEAK[LONGEST] + 3)],
]
SPOILED_EDITS: list[Any] = [
    add("V", PEAK[4]),
    add("V", PEAK[4] + 10),
    add("|", GAP),
    add("X", GAP),
    add("V", GAP, GAP + 200),
    add("V", END),
    add("V"),
    label("X", PEAK[0]),
    label("", PEAK[0]),
    label("NV", PEAK[0]),
    label("V"),
    label("V", 7),
    label("V", -1),
    label("V", END),
    label("V", 2**53),
    {**label("V"), "samples": [float(PEAK[0]) + 0.5]},
    {**label("V"), "samples": [True]},
    {**label("V"), "samples": [None]},
    {**label("V"), "samples": str(PEAK[0])},
    {**label("V"), "samples": {"0": PEAK[0]}},
    {**label("V", PEAK[0]), "label": ["V"]},
    {**label("V", PEAK[0]), "label": None},
    {**label("V", PEAK[0]), "more": 1},
    {**accept(PEAK[0]), "label": "V"},
    {"edit": "accept"},
    {**accept(PEAK[0]), "edit": "toString"},
    {**accept(PEAK[0]), "edit": ["accept"]},
    interval(PEAK[3], PEAK[2], accepted=True),
    interval(PEAK[3], PEAK[3], accepted=True),
    interval(PEAK[3], 7, accepted=True),
    {**interval(PEAK[2], PEAK[3], accepted=True), "accepted": 1},
    {**interval(PEAK[2], PEAK[3], accepted=True), "accepted": None},
    {**interval(PEAK[2], PEAK[3], accepted=True), "samples": PEAK[2:5]},
    rhythm("AF or flutter", 2500, 5001, ""),
    rhythm("AF", 2500, 5000, ""),
    rhythm(*AF, "torsades"),
    rhythm(*AF, "af"),
    rhythm(*AF, " "),
    {**rhythm(*AF, ""), "label": None},
    {**rhythm(*AF, ""), "label": 0},
    {**rhythm(*AF, ""), "rhythm": ""},
    {**rhythm(*AF, ""), "rhythm": None},
    None,
    [],
    "accept",
    3,
]
TIMES = [
    "",
    "yesterday",
    "2026-03-04",
    "2026-03-04T09:15:00",
    "2026-03-04T09:15:00Z",
    "2026-03-04 09:15:00+01:00",
    "2026-02-29T09:15:00+01:00",
    "2026-13-04T09:15:00+01:00",
    "2026-03-04T24:00:00+01:00",
    "2026-03-04T09:15:60+01:00",
    "2026-03-04T09:15:00+24:00",
    "2026-03-04T09:15:00+0100",
    "0000-03-04T09:15:00+01:00",
    "2026-03-04T09:15:00+01:00 ",
    "2026-03-04T09:15:00+01:00\n",
    "2026-03-04T09:15:00.5+01:00",
    "2026-W10-3T09:15:00+01:00",
    "٢026-03-04T09:15:00+01:00",
    None,
    0,
]
GOOD_TIMES = ["2024-02-29T23:59:59-11:30", "0001-01-02T00:00:00+00:00"]
NAMES = ["", " ", "a\nb", "a\tb", "x" * 201, "a\u200bb", "a\u00a0b", "\ud800", "\u2028", None, 3, ["x"]]
GOOD_NAMES = ["x" * 200, "\U0001f642" * 200, "Dr Å. Überß", " x "]
TEXTS = ["x" * 10_001, "\U0001f642" * 10_001, "\ud800", None, 1, ["x"]]
GOOD_TEXTS = ["", "\U0001f642" * 10_000, "a\nb\u2028\x00"]


def document(*edits: Any, **more: Any) -> dict[str, Any]:
    timed = [{"at": SAVED, **edit} if isinstance(edit, dict) else edit for edit in edits]
    texts = dict.fromkeys(("indication", "comments", "conclusion"), "")
    ids = {"format": "ecgfed-edits", "version": 1, "recording": RECORDING, "beats": BEATS, "author": "x"}
    return {**ids, "saved_at": SAVED, "reviewed": None, **texts, "strips": [], "edits": timed, **more}


def good() -> list[Any]:
    documents = [document(*edits) for edits in GOOD]
    documents += [document(saved_at=at, reviewed={"by": "y", "at": at}) for at in GOOD_TIMES]
    documents += [document(author=name, reviewed={"by": name, "at": SAVED}) for name in GOOD_NAMES]
    documents += [document(comments=text, strips=[{"sample": 5, "comment": text}]) for text in GOOD_TEXTS]
    whole = document(label("V", PEAK[0]))
    whole["edits"][0]["samples"] = [float(PEAK[0])]  # JavaScript does not tell it from a whole number
    return [*documents, whole, document(version=1.0)]


def spoiled() -> list[Any]:
    documents: list[Any] = [document(edit) for edit in SPOILED_EDITS]
    documents += [document(add("V", GAP), add("V", GAP)), document(add("V", GAP), add("V", GAP + 10))]
    documents += [document({**accept(PEAK[0]), "at": at}) for at in TIMES]
    documents += [document(saved_at=at) for at in TIMES]
    documents += [document(reviewed={"by": "y", "at": at}) for at in TIMES[:4]]
    documents += [document(author=name) for name in NAMES]
    documents += [document(reviewed={"by": name, "at": SAVED}) for name in NAMES]
    documents += [document(reviewed=review) for review in ({}, [], "x", False, {"by": "x"})]
    documents += [document(**{name: text}) for name in ("indication", "conclusion") for text in TEXTS]
    documents += [document(strips=[{"sample": 5, "comment": text}]) for text in TEXTS]
    documents += [document(strips=[strip]) for strip in (None, {}, {"sample": 5}, {"sample": -1, "comment": ""})]
    documents += [document(strips=[{"sample": END, "comment": ""}]), document(strips={}), document(edits={})]
    documents += [document(recording=of) for of in ("2" * 16, "0" * 15, "g" * 16, None)]
    documents += [document(beats=of) for of in ("2" * 16, "", None)]
    documents += [document(version=of) for of in (2, True, "1", None)] + [document(format=of) for of in ("x", None)]
    documents += [document(more=1), {"format": "ecgfed-edits", "version": 1}, [], None, 1, "x"]
    for name in document():
        documents.append({key: value for key, value in document().items() if key != name})
    return documents


def refused_by_python(folder: Path, text: str) -> bool:
    path = folder / "edits.json"
    path.write_text(text)
    recording = recording_of(QUALITY)
    try:
        edits = read_edits(path)
        edits.check_recording(RECORDING, recording.samples)
        edits.check_beats(BEATS)
        reading_of(recording, {"II": QUALITY}, LABELLED, EventRules(), edits=edits)
    except RecordError:
        return True
    return False


def test_page_and_command_refuse_the_same_files(tmp_path: Path) -> None:
    reading = reading_of(recording_of(QUALITY), {"II": QUALITY}, LABELLED, EventRules())
    usable = good()
    files = [json.dumps(one) for one in [*usable, *spoiled()]]
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"editing": editing_data(reading, RECORDING, BEATS), "files": files}))
    command = [node_path(), str(DRIVER), str(WEB), str(given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    by_page = [bool(problem) for problem in json.loads(done.stdout)]
    by_command = [refused_by_python(tmp_path, text) for text in files]
    expected = [False] * len(usable) + [True] * (len(files) - len(usable))
    for text, page, command_refuses, refused in zip(files, by_page, by_command, expected, strict=True):
        assert (page, command_refuses) == (refused, refused), text[:2000]


def test_the_page_shows_hidden_characters_as_a_rebuilt_one_does(tmp_path: Path) -> None:
    """Of every character that Unicode has in its first plane and among its tags."""
    texts = ["".join(map(chr, range(at, at + 64))) for at in (*range(0, 0x10000, 64), 0xE0000, 0xE0040)]
    texts = [text for text in texts if not any("\ud800" <= character <= "\udfff" for character in text)]
    texts += ["SR 12 \u202e34\u202c \x1b[31m\r\nsecond\rthird", "א 12 ב", "\u200b" * 9_999]
    given = tmp_path / "texts.json"
    given.write_text(json.dumps(texts))
    script = (
        "const [web, file] = process.argv.slice(1); const texts = JSON.parse(require('fs').readFileSync(file, 'utf8'));"
    )
    script += "process.stdout.write(JSON.stringify(texts.map(require(web + '/edits_file.js').visible)))"
    done = subprocess.run([node_path(), "-e", script, str(WEB), str(given)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [visible_text(text)[:10_000] for text in texts]
