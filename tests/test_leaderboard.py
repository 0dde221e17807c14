"""The leaderboard: entries are scored by ecgfed, checked field by field, and ours are what the results files have."""

import argparse
import copy
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest
import wfdb
from loaded_scripts import load_script

import ecgfed
from ecgfed.base.errors import EcgfedError, RunError
from ecgfed.domain.cohort.databases import MITBIH, package_sha256

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks" / "leaderboard"
FILES = sorted((FOLDER / "entries").rglob("*.json"))


@pytest.fixture(scope="module")
def entries() -> ModuleType:
    return load_script(FOLDER / "entries.py")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return load_script(FOLDER / "check.py")


@pytest.fixture(scope="module")
def entry() -> ModuleType:
    return load_script(FOLDER / "entry.py")


@pytest.fixture(scope="module")
def scoring() -> ModuleType:
    return load_script(FOLDER / "scoring.py")


def valid(entries: ModuleType, track: str = "qrs") -> dict[str, Any]:
    """An entry without a fault."""
    about = entries.tracks()[track]
    return {
        "schema_version": 1,
        "track": track,
        "kind": about["kind"],
        "name": "My own",
        "authors": ["A. Author"],
        "link": "https://example.org/x",
        "version": "1.0",
        "licence": "MIT",
        "trained_on": "other databases",
        "data_sha256": about["data_sha256"],
        "split_sha256": about["split_sha256"],
        "seeds": [0] if about["kind"] == "method" else [],
        "scores": {name: {"value": 0.5, "low": 0.4, "high": 0.6} for name in about["scores"]},
        "command": "my-detector mitdb",
        "machine": "x86_64",
        "scored_from": {"kind": "annotations", "sha256": "0" * 64},
    }


def test_every_committed_entry_passes(check: ModuleType) -> None:
    assert len(check.checked(FILES)) == len(FILES) >= 60


def test_the_schema_is_a_schema(entries: ModuleType) -> None:
    jsonschema.Draft202012Validator.check_schema(entries.schema())
    assert entries.schema()["properties"]["track"]["enum"] == list(entries.tracks())
    assert set(entries.schema()["required"]) == set(entries.schema()["properties"])
    for name in entries.tracks():
        made = valid(entries, name)
        assert entries.check(made, Path("x.json")) == made


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """Return what sets a field of an entry."""

    def change(entry: Any) -> None:
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = value

    return change


#: A spoiled entry, and the field that the line names.
SPOILED: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda entry: entry.pop("authors"), "authors"),
    (lambda entry: entry.pop("scored_from"), "scored_from"),
    (put("authors", value=[]), "authors"),
    (put("authors", value=["A", 3]), "authors.1"),
    (put("link", value="http://example.org"), "link"),
    (put("name", value="a | b"), "name"),
    (put("licence", value="my own words"), "licence"),
    (put("track", value="cifar"), "track"),
    (put("kind", value="method"), "kind"),
    (put("seeds", value=[0, 0]), "seeds"),
    (put("rank", value=1), "rank"),
    (put("data_sha256", value="0" * 64), "data_sha256"),
    (put("data_sha256", value=None), "data_sha256"),
    (put("split_sha256", value="no"), "split_sha256"),
    (put("scores", "qrs_f1", "value", value="99"), "scores.qrs_f1.value"),
    (put("scores", "qrs_f1", "value", value=100.5), "scores.qrs_f1.value"),
    (put("scores", "qrs_f1", "low", value=None), "scores.qrs_f1"),
    (put("scores", "qrs_f1", "high", value=0.1), "scores.qrs_f1"),
    (lambda entry: entry["scores"].pop("qrs_se"), "scores"),
    (lambda entry: entry["scores"]["qrs_se"].pop("low"), "scores.qrs_se.low"),
    (put("scored_from", value={"kind": "annotations"}), "scored_from.sha256"),
    (put("scored_from", "sha256", value="abc"), "scored_from.sha256"),
]


@pytest.mark.parametrize(("spoil", "field"), SPOILED, ids=[f"{i}-{field}" for i, (_, field) in enumerate(SPOILED)])
def test_a_bad_entry_is_refused_by_file_and_field(
    entries: ModuleType, spoil: Callable[[dict[str, Any]], object], field: str
) -> None:
    made = valid(entries)
    spoil(made)
    with pytest.raises(EcgfedError) as refused:
        entries.check(made, Path("entries/qrs/my-own.json"))
    line = str(refused.value)
    assert line.startswith(f"entries/qrs/my-own.json: {field}: "), line
    assert "\n" not in line


def test_nobody_types_an_entry_of_a_results_file(check: ModuleType, entries: ModuleType) -> None:
    made = valid(entries)
    made["scored_from"] = {"kind": "results", "file": "benchmarks/qrs/results.json"}
    file = entries.file_of(made)
    assert file == FOLDER / "entries" / "qrs" / "my-own.json"
    assert not file.exists()
    try:
        file.write_text(entries.as_text(made))
        with pytest.raises(RunError, match=r"my-own\.json: scored_from\.kind"):
            check.checked([file])
    finally:
        file.unlink()


def test_an_entry_in_another_place_and_a_file_that_is_no_json(check: ModuleType, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "check.py", shutil.copy(FILES[0], tmp_path / "other.json")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "other.json: track and name" in line
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RunError, match=r"broken\.json"):
        check.checked([tmp_path / "broken.json"])


def test_digests_of_the_tracks_are_those_of_the_published_files(entries: ModuleType) -> None:
    """By sha256sum's own listing; the split of whole records is the list of their names."""
    published = package_sha256(MITBIH)
    for track in entries.tracks().values():
        if "records" in track:
            names = entries.RECORDS[track["records"]]
            files = {name: digest for name, digest in published.items() if Path(name).stem in names}
        else:
            names, files = (), {name: d for name, d in published.items() if Path(name).stem not in ("102", "104")}
        assert track["data_sha256"] == entries.listing_digest(files)
        assert not names or track["split_sha256"] == entries.records_digest(names)
    found = subprocess.run(["sha256sum"], input="100\n103\n", capture_output=True, text=True, check=True).stdout
    assert entries.records_digest(["103", "100"]) == found.split()[0]


def test_our_flagships_row_by_hand(entries: ModuleType) -> None:
    runs = json.loads((ROOT / "benchmarks/flagship/results.json").read_text())["methods"]["GRP-FED"]
    made = json.loads((FOLDER / "entries/personalization-random/grp-fed.json").read_text())
    for name in ("T_g", "T_p", "T_r", "T_l"):
        assert made["scores"][name]["value"] == pytest.approx(np.mean([run["test"][name] for run in runs]))
    worst = np.mean([run["test_worst_tenth"] for run in runs])
    assert made["scores"]["T_p_worst_tenth"]["value"] == pytest.approx(worst)
    assert made["seeds"] == [0, 1, 2]
    assert made["scores"]["T_g"]["low"] is None
    assert made["scores"]["T_p"]["low"] < made["scores"]["T_p"]["value"] < made["scores"]["T_p"]["high"]


def given(**options: Any) -> argparse.Namespace:
    about = {"name": "My own", "author": ["A"], "link": "https://example.org", "version": "1", "licence": "MIT"}
    rest = dict.fromkeys(("cohort", "personal", "method", "net", "source", "suffix", "files"))
    return argparse.Namespace(**{**about, "trained_on": "x", "command": "y", **rest, "seeds": (), **options})


def test_an_entry_of_runs_has_the_scores_of_evaluate(
    entry: ModuleType, scoring: ModuleType, cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seeds; the track asks for MIT-BIH, so the entry of another cohort is refused and nothing is written."""
    plan = {"method": "fedavg", "local_steps": 1, "rounds": 1, "eval_every": 0, "workers": 1}
    runs = [ecgfed.train(cohort_path, tmp_path / f"run-{seed}", seed=seed, **plan).path for seed in (3, 5)]
    track = entry.tracks()["personalization-random"]
    found = scoring.score_runs(runs, track)
    alone = [ecgfed.evaluate(run, local_models=False) for run in runs]
    assert found.seeds == [3, 5]
    for name in ("T_g", "T_p", "T_r", "T_l"):
        assert found.scores[name]["value"] == pytest.approx(np.mean([one.mean(name) for one in alone]))
        assert found.scores[name]["low"] <= found.scores[name]["value"] <= found.scores[name]["high"]
    again = scoring.score_runs([shutil.copytree(run, tmp_path / "moved" / run.name) for run in runs], track)
    assert again == found
    out = tmp_path / "entry.json"
    asked = given(paths=runs, track="personalization-random", out=out)
    with pytest.raises(RunError, match=r"entry\.json: data_sha256"):
        entry.main(asked)
    assert not out.exists()
    ours = {**track, "data_sha256": found.data_sha256, "split_sha256": found.split_sha256}
    monkeypatch.setitem(entry.tracks(), "personalization-random", ours)
    entry.main(asked)
    made = json.loads(out.read_text())
    assert made["scores"] == found.scores
    assert made["scored_from"] == {"kind": "runs", "sha256": found.sha256}


def test_an_entry_of_annotations_by_hand(
    scoring: ModuleType, entries: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two records of 100 beats each; ten missed in one, five extra in the other: Se 190/200, +P 190/195."""
    beats = np.arange(1, 101) * 300
    for name, kept in (("100", beats[:90]), ("103", np.sort([*beats, *(beats[:5] + 150)]))):
        wfdb.wrsamp(name, 250, ["mV"], ["MLII"], np.zeros((31_000, 1)), fmt=["16"], write_dir=str(tmp_path))
        wfdb.wrann(name, "atr", beats, ["N"] * 100, write_dir=str(tmp_path))
        (tmp_path / "mine").mkdir(exist_ok=True)
        wfdb.wrann(name, "qrs", kept, ["N"] * len(kept), write_dir=str(tmp_path / "mine"))
    monkeypatch.setitem(scoring.RECORDS, "all", ("100", "103"))
    track = copy.deepcopy(entries.tracks()["qrs"]) | {"start_s": 0}
    found = scoring.score_annotations([tmp_path / "mine"], track, source=tmp_path)
    se, ppv = 100 * 190 / 200, 100 * 190 / 195
    assert found.scores["qrs_se"]["value"] == pytest.approx(se)
    assert found.scores["qrs_ppv"]["value"] == pytest.approx(ppv)
    assert found.scores["qrs_f1"]["value"] == pytest.approx(2 * se * ppv / (se + ppv))
    # drawn twice, either record is alone: 90 to 100 of 100 beats
    assert (found.scores["qrs_se"]["low"], found.scores["qrs_se"]["high"]) == (90.0, 100.0)
    two = scoring.score_annotations([tmp_path / "mine"] * 2, track, source=tmp_path, seeds=[0, 1])
    assert two.scores["qrs_f1"]["value"] == pytest.approx(found.scores["qrs_f1"]["value"])
    with pytest.raises(EcgfedError, match="seeds"):
        scoring.score_annotations([tmp_path / "mine"] * 2, track, source=tmp_path)
    (tmp_path / "mine" / "103.qrs").unlink()
    with pytest.raises(EcgfedError, match=r"103\.qrs"):
        scoring.score_annotations([tmp_path / "mine"], track, source=tmp_path)


def test_an_option_of_the_other_kind_of_track_is_refused(entry: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(EcgfedError, match="--source"):
        entry.scored(given(paths=[tmp_path], track="qrs"))
    with pytest.raises(EcgfedError, match="--method"):
        entry.scored(given(paths=[tmp_path], track="qrs", source=tmp_path, method="x.py:X"))
    with pytest.raises(EcgfedError, match="--seeds"):
        entry.scored(given(paths=[tmp_path], track="personalization-random", seeds=[1]))


def test_a_strangers_text_has_no_effect_on_the_page() -> None:
    """Cells are read back by an independent Markdown and HTML rule: no tag, no link but the row's own."""
    plain = load_script(FOLDER / "page.py")._plain
    text = plain("<script>x</script> [y](javascript:z) `code` *bold* a_b & c")
    assert "<" not in text
    assert not re.search(r"(?<!\\)[\[\]`*]", text)
    assert html.unescape(re.sub(r"\\(.)", r"\1", text)) == "<script>x</script> [y](javascript:z) `code` *bold* a_b & c"
