"""``inspect_recording``, ``detect``, ``score_ec57`` and ``convert`` in Python: recordings in hand, nothing printed."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from support import Command, snapshot

import ecgfed

LONG = "NNNNV" * 100  # 6 minutes 40 s


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write_record(folder, "r1", LONG, seed=1)
    write_record(folder, "r2", "NNANN" * 100, seed=2)
    return folder


@pytest.fixture(scope="module")
def in_hand(recorded: Path) -> ecgfed.Recording:
    return ecgfed.read_recording(recorded / "r1", "MLII", every_lead=True)


def test_detect_gives_the_peaks_and_writes_nothing(recorded: Path, in_hand: ecgfed.Recording, tmp_path: Path) -> None:
    before = snapshot(recorded)
    found = ecgfed.detect([in_hand, str(recorded / "r2"), recorded / "r2.hea"])  # r2 twice is r2 once
    assert [one.record for one in found.records] == ["r1", "r2"]
    assert [one.file for one in found.records] == [None, None]
    assert snapshot(recorded) == before
    _, truth = synthetic_signal(LONG, seed=1)
    first = found.records[0]
    assert len(first.sample) == len(truth)
    assert np.abs(first.sample - truth).max() <= 0.05 * 360
    written = ecgfed.detect(recorded, tmp_path, suffix="mine")
    assert written.records[0].file == tmp_path / "r1.mine"
    assert wfdb.rdann(str(tmp_path / "r1"), "mine").sample.tolist() == first.sample.tolist()
    assert first.annotation().symbol.tolist() == ["N"] * len(truth)
    digests = {name: hashlib.sha256((recorded / name).read_bytes()).hexdigest() for name in ("r1.hea", "r1.dat")}
    assert written.to_dict()["records"][0]["sha256"] == digests  # type: ignore[index]
    assert repr(found) == f"Detections(2 recordings: {len(truth) + len(found.records[1].sample):,} beats by ecgfed)"
    assert repr(first) == f"RecordPeaks('r1': {len(truth)} beats on MLII in {first.duration_s:.1f} s)"


def test_detect_puts_the_peaks_on_the_lead_that_is_asked_for(recorded: Path, in_hand: ecgfed.Recording) -> None:
    on_v1 = replace(in_hand, lead="V1")
    for records, leads, lead in (
        (in_hand, None, "MLII"),
        (in_hand, "V1", "V1"),
        (on_v1, None, "V1"),
        (on_v1, ("aVR", "MLII"), "MLII"),
        (recorded / "r1", ("aVR", "V1"), "V1"),
        (recorded / "r1", None, "MLII"),
    ):
        assert ecgfed.detect(records, leads=leads, detector="xqrs").records[0].lead == lead
    with pytest.raises(ecgfed.EcgfedError, match=r"r1: has no lead V9; it has MLII, V1"):
        ecgfed.detect(in_hand, leads="V9")


def test_detect_never_lies_on_its_recording(in_hand: ecgfed.Recording, tmp_path: Path) -> None:
    rows = "\n".join(",".join(f"{value:.3f}" for value in row) for row in in_hand.signals_mv.T)
    table = tmp_path / "r1.csv"
    table.write_text("MLII (mV),V1 (mV)\n" + rows)
    before, how = snapshot(tmp_path), ecgfed.ReadOptions(fs_hz=360.0)
    for overwrite in (False, True):
        with pytest.raises(ecgfed.EcgfedError, match=r"^out: "):
            ecgfed.detect(table, tmp_path, suffix="csv", how=how, overwrite=overwrite)
        assert snapshot(tmp_path) == before


def test_detect_refuses_before_it_begins(recorded: Path, in_hand: ecgfed.Recording, tmp_path: Path) -> None:
    (tmp_path / "r2.qrs").write_text("mine")
    for records, options, words in (
        ([], {}, "none given"),
        ([in_hand, replace(in_hand)], {"out": tmp_path / "new"}, "two records have the same name"),
        ([in_hand, replace(in_hand, path=Path("R1"))], {"out": tmp_path / "new"}, "two records have the same name"),
        (recorded, {"out": tmp_path}, "already has r2.qrs"),
        (recorded, {"mains_hz": 16.7}, "mains_hz: "),
        (recorded, {"detector": "magic"}, "^detector: "),
        (recorded, {"detector": "own.py:MINE"}, "names code, not a registered detector"),
        (recorded, {"suffix": "dat"}, "^suffix: "),
    ):
        with pytest.raises(ecgfed.EcgfedError, match=words):
            ecgfed.detect(records, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["r2.qrs"]


def test_inspect_a_recording_in_hand(recorded: Path, in_hand: ecgfed.Recording) -> None:
    """A gap of 3 s in V1, of 400 s of a heart at 75/min."""
    signals = in_hand.signals_mv.copy()
    signals[1, 3600:4680] = np.nan
    torn = replace(in_hand, source=signals)
    found = ecgfed.inspect_recording(torn)
    assert found.recording is torn
    assert found.heart_rate_per_min == pytest.approx(75, abs=3)
    assert found.quality["MLII"].seconds() == {}
    assert found.quality["V1"].seconds() == {"gap": 3.0}
    assert found.findings == ()
    assert found.picture is None
    assert repr(found) == f"Inspection('r1': MLII 100% usable, {found.heart_rate_per_min:.0f}/min, 0 findings)"
    assert ecgfed.inspect_recording(torn, leads=("V9", "V1")).recording.lead == "V1"
    own_lead = ecgfed.inspect_recording(replace(torn, lead="V1"))  # nobody asked for MLII: no finding
    assert (own_lead.recording.lead, own_lead.findings) == ("V1", ())
    with pytest.raises(ecgfed.EcgfedError, match="has no lead V9"):
        ecgfed.inspect_recording(torn, leads="V9")


def test_an_inspection_can_be_drawn_later(in_hand: ecgfed.Recording, tmp_path: Path) -> None:
    found = ecgfed.inspect_recording(in_hand, picture=str(tmp_path / "at.png"), at="1:00")
    assert (tmp_path / "at.png").read_bytes() == found.draw(60) == found.draw("0:01:00.0")
    assert found.draw(60) != found.draw(61)
    assert found.picture == tmp_path / "at.png"
    assert found.draw(form="svg").startswith(b"<?xml")
    for at, words in ((1e9, "less than"), (-1, "a time"), (float("nan"), "a time"), ("7:x", "a time")):
        with pytest.raises(ecgfed.EcgfedError, match=words):
            found.draw(at)
        with pytest.raises(ecgfed.EcgfedError, match=r"^at: "):
            ecgfed.inspect_recording(in_hand, at=at)
    with pytest.raises(ecgfed.EcgfedError, match="one of png, svg"):
        found.draw(form="gif")


def test_scores_of_a_perfect_annotator_and_its_table(recorded: Path) -> None:
    """Every beat right: 100% where there are beats of the kind, nothing where there are none."""
    scores = ecgfed.score_ec57([recorded / "r1", str(recorded / "r2")], "atr", start=300)
    late = {}
    for name in ("r1", "r2"):
        truth = wfdb.rdann(str(recorded / name), "atr")
        late[name] = int((truth.sample >= 300 * 360).sum())
    full, none = (100.0,) * 2, (None,) * 2
    assert scores.rows() == [
        ("r1", late["r1"], (*full, *full, *none)),
        ("r2", late["r2"], (*full, *none, *full)),
        ("gross", sum(late.values()), (100.0,) * 6),
        ("average", None, (100.0,) * 6),
    ]
    told = "Q Se 100.00, Q +P 100.00, V Se 100.00, V +P 100.00, S Se 100.00, S +P 100.00"
    assert repr(scores) == f"Ec57Scores(2 records, atr against atr, mapping aami5: {told})"
    assert ecgfed.score_ec57(recorded, "atr", start="5:00").to_dict() == scores.to_dict()
    with pytest.raises(ecgfed.EcgfedError, match="none given"):
        ecgfed.score_ec57([], "atr")


def test_a_record_that_is_named_is_scored_or_refused(recorded: Path, tmp_path: Path) -> None:
    """Named with its suffix too; only of a folder are records without annotations passed by."""
    truth = wfdb.rdann(str(recorded / "r1"), "atr")
    wfdb.wrann("r1", "test", truth.sample, truth.symbol, write_dir=str(tmp_path))
    for named in (recorded / "r2", recorded / "r2.hea"):
        with pytest.raises(ecgfed.EcgfedError, match=r"r2\.test: does not exist"):
            ecgfed.score_ec57([recorded / "r1", named], "test", test_folder=tmp_path)
    with pytest.warns(ecgfed.EcgfedWarning, match="not scored, without .test: r2"):
        scores = ecgfed.score_ec57(recorded, "test", test_folder=tmp_path)
    assert scores.not_scored == ("r2",)


def test_convert_a_recording_in_hand(in_hand: ecgfed.Recording, tmp_path: Path) -> None:
    made = ecgfed.convert(replace(in_hand, name="other name"), tmp_path / "out")
    assert made.record == "other_name"
    assert [path.name for path in made.files] == ["other_name.hea", "other_name.dat", "other_name.atr"]
    back = wfdb.rdrecord(str(tmp_path / "out" / "other_name"))
    np.testing.assert_allclose(back.p_signal.T, in_hand.signals_mv, atol=1e-9)
    assert made.annotations == len(LONG)
    assert repr(made) == f"Conversion('other_name': MLII, V1; {in_hand.duration_s:.1f} s; 500 annotations)"
    nowhere = replace(in_hand, path=tmp_path / "nowhere" / "r9", files=(), name="r9")
    with pytest.warns(ecgfed.EcgfedWarning, match="no annotation beside it"):
        assert ecgfed.convert(nowhere, tmp_path / "out").annotations is None


def told(ecgfed: Command, *arguments: object) -> dict[str, Any]:
    said = ecgfed(*arguments, "--json")
    assert (said.code, said.err) == (0, "")
    answer: dict[str, Any] = json.loads(said.out)
    return answer


@pytest.mark.parametrize("verb", ["inspect", "detect", "ec57", "convert"])
def test_the_command_line_prints_what_the_verb_says(verb: str, ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    import ecgfed as front

    record, out = recorded / "r1", tmp_path / "out"
    if verb == "inspect":
        said, own = told(ecgfed, verb, record), front.inspect_recording(record).to_dict()
    elif verb == "detect":
        said = told(ecgfed, verb, record, "--out", out, "--mains", 50)
        own = front.detect(record, out, mains_hz=50, overwrite=True).to_dict()
    elif verb == "ec57":
        said, own = told(ecgfed, verb, record, "--test", "atr"), front.score_ec57(record, "atr").to_dict()
    else:
        said = told(ecgfed, verb, record, "--out", out)
        own = front.convert(record, out, overwrite=True).to_dict()
    seconds = said.pop("seconds", 0.0)
    assert seconds >= 0
    assert said == json.loads(json.dumps(own, allow_nan=False))
    assert list(said) == list(own)  # in the same order
