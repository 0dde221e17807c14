"""The draft of a conclusion says no more than the figures, and a person's conclusion stays as it is."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal, write_record
from edits_files import document_of, label, written
from random_reports import draft_of, random_labelled, random_rules, recording_of

import ecgfed
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm_episodes import REVIEWER, RhythmEpisodes
from ecgfed.reports.conclusion import conclusion_draft
from ecgfed.reports.drawing import reading_of
from ecgfed.reports.recording_report import RecordingReport

SYMBOLS = "N" * 40 + "VVVV" + "N" * 30 + "VV" + "N" * 20 + "A" + "N" * 40
HUNDRED_S = 100.0


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("conclusion"), "rec", SYMBOLS)


@pytest.fixture(scope="module")
def report(record: Path) -> RecordingReport:
    return ecgfed.report(record, labels=record.with_suffix(".atr"))


def test_figures_by_hand(report: RecordingReport) -> None:
    """Counted in the string of symbols, and the rate from the written R peaks."""
    at = synthetic_signal(SYMBOLS)[1]
    mean = 60 * (len(at) - 1) / ((at[-1] - at[0]) / report.recording.fs_hz)
    rate, ectopy, _ = report.parts.draft
    assert f"Mean heart rate {mean:.0f}/min" in rate
    ventricular, supraventricular = ectopy.split("Supraventricular")
    assert ventricular.startswith(f"Ventricular ectopic beats: 6 ({100 * 6 / len(SYMBOLS):.1f}%).")
    assert "Runs: 1" in ventricular
    assert "longest 4 beats" in ventricular
    assert "Couplets: 1." in ventricular
    assert supraventricular.startswith(" ectopic beats: 1 (")


@pytest.mark.parametrize("seed", range(40))
def test_it_is_never_surer_than_the_figures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labelled, quality = random_labelled(rng, int(rng.integers(2, 400)))
    reading = reading_of(recording_of(quality), {"II": quality}, labelled, random_rules(rng))
    lines = draft_of(reading)
    events, (rhythm, ectopy, limits) = reading.events, lines
    assert len(lines) == 3
    assert not any("\n" in line for line in lines)
    marked = " ".join(rhythm.rhythm for rhythm in labelled.rhythms or ())
    assert ("sinus" in " ".join(lines).lower()) == ("sinus" in marked)
    for kind, word in ((Kind.VENTRICULAR, "Ventricular"), (Kind.SUPRA, "Supraventricular")):
        assert (f"{word} ectopic beats: count withheld" in ectopy) == (kind in events.withheld)
    if events.rates.lowest is not None and not events.rates.lowest.confirmed:
        assert ", lowest" not in rhythm
    if events.pauses.not_confirmed or events.pauses.not_assessed or events.pauses.ends:
        assert "No pause of" not in limits
    if "is not usable" in limits:
        assert not re.search(r"No (confirmed )?pause of [\d.]+ s or more\.", limits)
    certain = [run for kind in events.ectopic.values() if kind is not None for run in kind.runs if not run.review]
    assert ("Runs: " in ectopy) == bool(certain)
    assert ("is not usable" in limits) == (quality.usable_s < 0.9995 * quality.samples / quality.fs_hz)


@pytest.mark.parametrize(
    ("rhythm", "first", "third"),
    [
        (RhythmEpisodes("sinus rhythm", ((0.0, 80.0),), "labels"), "Sinus rhythm for 80.0% of the recording.", ""),
        (RhythmEpisodes("sinus rhythm", ((0.0, 20.0),), "labels"), "not classified", "Sinus rhythm: 20.0%"),
        (
            RhythmEpisodes("AF or flutter", ((0.0, 60.0),), "signal", (0.9,)),
            "60.0% of the recording, to be reviewed",
            "",
        ),
        (RhythmEpisodes("AF or flutter", ((0.0, 60.0),), REVIEWER), "AF or flutter for 60.0% of the recording.", ""),
        (
            RhythmEpisodes("AF or flutter", ((0.0, 60.0),), "signal", (0.39,)),
            "not classified",
            "Possible AF or flutter: 60.0% of the recording, longest episode 1:00, to be reviewed.",
        ),
        (RhythmEpisodes("possible AV block", ((0.0, 70.0),)), "not classified", "Possible AV block: 70.0%"),
        (RhythmEpisodes("tachycardia", ((0.0, 70.0),), "rates"), "not classified", "Tachycardia: 70.0%"),
        (RhythmEpisodes("no beats", ((0.0, 70.0),)), "not classified", "No beats: 70.0%"),
    ],
)
def test_the_underlying_rhythm(report: RecordingReport, rhythm: RhythmEpisodes, first: str, third: str) -> None:
    lines = conclusion_draft(report.parts.events, [rhythm], HUNDRED_S, "II", 30.0)
    assert first in lines[0]
    assert third in lines[2]
    assert ("No atrial fibrillation" in lines[2]) == (not rhythm.rhythm.startswith("AF"))


@pytest.mark.parametrize(("percent", "stated"), [(100.0, ""), (99.97, ""), (91.7, "91.7%"), (62.3, "62.3%")])
def test_no_pause_is_stated_of_the_counted_share_alone(report: RecordingReport, percent: float, stated: str) -> None:
    events = report.parts.events
    (hour,) = events.hours
    counted = replace(hour, usable_s=percent / 100 * hour.stop_s)
    limits = conclusion_draft(replace(events, hours=(counted,)), [], HUNDRED_S, "II", 30.0)[2]
    (sentence,) = (part for part in limits.split(". ") if part.startswith("No pause of 3 s or more"))
    assert ("%" in sentence) == bool(stated)
    assert stated in sentence


def test_nothing_is_known_of_fibrillation_in_a_paced_recording_or_where_it_is_not_detected(
    report: RecordingReport,
) -> None:
    paced = RhythmEpisodes("paced", ((0.0, 10.0),))
    for rhythms, from_s in (([paced], 30.0), ([], None)):
        limits = conclusion_draft(report.parts.events, rhythms, HUNDRED_S, "II", from_s)[2]
        assert "No atrial fibrillation" not in limits
        assert "Atrial fibrillation not assessed" in limits


def edited(record: Path, base: RecordingReport, folder: Path, **more: object) -> RecordingReport:
    edits = more.pop("edits", ())
    file = written(folder, document_of(base, *edits, **more))  # type: ignore[misc]
    return ecgfed.report(record, labels=record.with_suffix(".atr"), edits=file)


def test_a_draft_is_nobodys_conclusion(record: Path, report: RecordingReport, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    ecgfed.report(record, labels=record.with_suffix(".atr"), out=out, formats="fhir")
    assert "conclusion" not in diagnostic_report(out)
    assert 'class="draft"' in report.html
    told = report.to_dict()["conclusion"]
    assert told == {"draft": list(report.parts.draft), "text": None, "older_than_figures": False}


def diagnostic_report(page: Path) -> dict[str, object]:
    bundle = json.loads(page.with_suffix(".fhir.json").read_text())
    (found,) = (
        entry["resource"] for entry in bundle["entry"] if entry["resource"]["resourceType"] == "DiagnosticReport"
    )
    return dict(found)


def test_an_accepted_conclusion_stays_and_says_when_figures_changed(
    record: Path, report: RecordingReport, tmp_path: Path
) -> None:
    draft = "\n".join(report.parts.draft)
    same = edited(record, report, tmp_path, conclusion=draft, conclusion_draft=draft)
    assert (same.parts.conclusion, same.parts.conclusion_is_older) == (draft, False)
    sample = int(synthetic_signal(SYMBOLS)[1][5])
    changed = edited(record, report, tmp_path, edits=(label("V", sample),), conclusion=draft, conclusion_draft=draft)
    assert (changed.parts.conclusion, changed.parts.conclusion_is_older) == (draft, True)
    assert "Ventricular ectopic beats: 7" in changed.parts.draft[1]
    for line in (*draft.splitlines(), *changed.parts.draft):
        assert line in changed.html


def test_files_without_a_draft_are_read(record: Path, report: RecordingReport, tmp_path: Path) -> None:
    """Earlier pages saved none: what has changed since is not known."""
    sample = int(synthetic_signal(SYMBOLS)[1][5])
    old = edited(record, report, tmp_path, edits=(label("V", sample),), conclusion="SR")
    assert (old.parts.conclusion, old.parts.conclusion_is_older) == ("SR", False)


def test_fhir_has_the_readers_conclusion(record: Path, report: RecordingReport, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    file = written(tmp_path, document_of(report, conclusion="Runs of <VT>", conclusion_draft="other"))
    ecgfed.report(record, labels=record.with_suffix(".atr"), edits=file, out=out, formats="fhir")
    resource = diagnostic_report(out)
    assert resource["conclusion"] == "Runs of <VT>"
    assert "figures have changed" in str(resource["text"])


def test_events_of_the_patient_are_listed_without_their_texts(record: Path, tmp_path: Path) -> None:
    """Beats within 30 s are counted in the symbols; the text is a stranger's, and only shown on request."""
    at = synthetic_signal(SYMBOLS)[1] / 360
    time_s = float(at[42])
    diary = tmp_path / "diary.csv"
    diary.write_text(f"time_s,text\n{time_s:.3f},Quix <b>fell</b>\n")
    how = {"labels": record.with_suffix(".atr"), "diary": diary, "formats": "fhir,table", "overwrite": True}
    out = tmp_path / "page.html"
    hidden = ecgfed.report(record, out=out, **how)
    assert not any("Quix" in path.read_text() for path in hidden.files)
    (event,) = (event for event in hidden.parts.event_list if event.kind == "patient event")
    near = [symbol for symbol, when in zip(SYMBOLS, at, strict=True) if abs(when - time_s) <= 30]
    assert f"{near.count('V')} ventricular" in event.context
    assert event.strip is not None
    shown = ecgfed.report(record, out=out, show="notes", **how)
    assert "Quix &lt;b&gt;fell&lt;/b&gt;" in shown.html
    assert "<b>fell" not in shown.html.split('id="page-data"')[0]
    (told,) = shown.to_dict()["patient_events"]
    assert told["time_s"] == pytest.approx(time_s, abs=1e-3)


def test_a_drafted_sentence_has_no_placeholder_left() -> None:
    rng = np.random.default_rng(3)
    labelled, quality = random_labelled(rng, 300)
    reading = reading_of(recording_of(quality), {"II": quality}, replace(labelled, rhythms=None), random_rules(rng))
    assert not any(mark in line for line in draft_of(reading) for mark in "{}")
