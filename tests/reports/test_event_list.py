"""The list of events, by hand: beats at stated times with stated labels."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import ecgfed
from ecgfed.domain.events.beats import SOON_AFTER, SOON_BEFORE, Beats, merged
from ecgfed.domain.events.find import Events, find_events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.patient_event import PatientEvent
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.reports.event_list import event_list, event_rows, not_listed
from ecgfed.reports.recording_parts import Drawn, ListedEvent
from ecgfed.reports.recording_report import RecordingReport

TIMES_S = [1.0, 2.0, 3.0, 3.4, 3.8, 4.2, 5.2, 9.2, 10.2]
LABELS = "NNNVVVNNN"
AF = RhythmEpisodes("AF", ((0.0, 5.5),), certainty=(0.9,))


def counted(unusable: tuple[tuple[int, int], ...] = (), kinds: str = "NVA") -> tuple[Beats, Events]:
    """Nine beats at 100 Hz: three ventricular ones 0.4 s apart, and an interval of 4 s after the first normal one."""
    sample = np.rint(100 * np.array(TIMES_S)).astype(np.int64)
    label = np.array([kinds.index(one) for one in LABELS], np.int64)
    of = tuple({"N": Kind.NORMAL, "V": Kind.VENTRICULAR, "A": Kind.SUPRA}[one] for one in kinds)
    beats = Beats(sample, label, tuple(kinds), of, 100.0, 1120, merged(unusable))
    return beats, find_events(beats)


def test_runs_pauses_and_episodes_in_order_of_time() -> None:
    beats, events = counted()
    strips = [Drawn("Average", "", 0), Drawn("First", "", 1, 0.0), Drawn("Later", "", 2, 1.2)]
    rhythm, run, pause = event_list(beats, events, [AF], strips)
    assert (rhythm.kind, rhythm.name, rhythm.start_s, rhythm.stop_s) == ("rhythm", "AF", 0.0, 5.5)
    assert (rhythm.beats, rhythm.confidence, rhythm.review, rhythm.strip) == (7, 0.9, True, 1)
    assert rhythm.per_min == pytest.approx(60 * 6 / 4.2)  # six intervals between 1 and 5.2 s
    assert (run.kind, run.name, run.beats, run.start_s, run.stop_s) == ("ventricular run", "VT", 3, 3.4, 4.2)
    assert run.per_min == pytest.approx(60 * 2 / 0.8)
    assert (run.confidence, run.uncertain, run.review, run.strip) == (None, None, False, 1)  # a person's labels
    assert (pause.kind, pause.start_s, pause.stop_s, pause.beats, pause.strip) == ("pause", 5.2, 9.2, None, 1)
    assert not_listed(events) == ()
    assert {event.strip for event in event_list(beats, events, [AF], [Drawn("Late", "", 5, 5.0)])} == {None, 5}


def test_what_is_not_listed_is_stated() -> None:
    _, events = counted(unusable=((700, 720),), kinds="NV")
    supra, interval = not_listed(events)
    assert "supraventricular" in supra
    assert interval.startswith("1 interval ")


def test_probabilities_of_a_run_are_averaged() -> None:
    beats, _ = counted()
    probability = np.zeros((9, 3), np.float32)
    probability[:, 0] = 1
    probability[3:6] = [(0.5, 0.5, 0), (0, 1, 0), (0.25, 0.75, 0)]
    fields = {field: getattr(beats, field) for field in ("sample", "label", "classes", "kinds", "fs_hz", "samples")}
    uncertain = np.arange(9) == 3
    beats = Beats(**fields, unusable=beats.unusable, probability=probability, uncertain=uncertain, provisional=True)
    runs = [row for row in event_list(beats, find_events(beats), (), ()) if row.kind == "ventricular run"]
    assert [(row.confidence, row.uncertain) for row in runs] == [(0.75, 1)]


def test_page_and_json_hold_every_event(records: Path) -> None:
    report = ecgfed.report(records / "p1")
    assert isinstance(report, RecordingReport)
    listed = report.to_dict()["events"]
    events = report.parts.events
    runs = sum(len(counts.runs) for counts in {**events.ectopic, **events.to_review}.values() if counts is not None)
    intervals = [*events.pauses.intervals, *events.pauses.not_confirmed, *events.pauses.ends]
    episodes = sum(len(rhythm.episodes) for rhythm in report.parts.rhythms)
    assert len(listed) == runs + len(intervals) + episodes == len(event_rows(report.parts))
    assert all(set(row) == set(asdict(report.parts.event_list[0])) for row in listed)
    for event in report.parts.event_list:
        assert f'data-at="{event.start_s:.3f}"' in report.html
        if event.strip is not None:
            assert f'id="strip-{event.strip}"' in report.html


def test_a_pause_is_as_long_in_the_list_as_in_the_headline(records: Path) -> None:
    """Differences of times have other last digits: a pause of 1,359 samples at 360 Hz was 3.77 s and 3.78 s."""
    parts = ecgfed.report(records / "p1", labels=records / "p1.atr").parts
    starts = [start / 360 for start in range(0, 700_000, 7_001)]
    pauses = tuple(ListedEvent("pause", "pause", at, (round(360 * at) + 1359) / 360) for at in starts)
    assert {row[2] for row in event_rows(replace(parts, event_list=pauses))} == {f"{1359 / 360:.2f} s"}


def test_a_run_with_a_wave_that_may_be_a_beat_says_so() -> None:
    """A couplet and the wave half-way: two labelled beats, three of the run."""
    beats, _ = counted()
    couplet = replace(
        beats,
        label=np.array([0, 0, 0, 1, 0, 1, 0, 0, 0])[[0, 1, 2, 3, 5, 6, 7, 8]],
        sample=beats.sample[[0, 1, 2, 3, 5, 6, 7, 8]],
        undetected=np.array([0, 0, 0, SOON_AFTER + SOON_BEFORE, 0, 0, 0], np.uint8),
    )
    for of, undetected in ((couplet, 1), (beats, 0)):
        (run,) = (event for event in event_list(of, find_events(of), [], []) if "run" in event.kind)
        assert (run.beats, run.undetected, run.to_dict()["undetected"]) == (3, undetected, undetected)
        assert run.review == bool(undetected)


@pytest.mark.parametrize(("low", "assessed"), [(8, False), (7, False), (5, True), (0, True)])
def test_no_ectopic_beat_around_a_patient_event_is_stated_of_confident_beats_alone(low: int, assessed: bool) -> None:
    """Nine beats in the minute around it; more than 70% of low confidence rule nothing out (6 of 9 are 67%)."""
    beats, _ = counted()
    sample = np.concatenate([beats.sample, 6000 + 80 * np.arange(100)])  # the rest of the recording is certain
    label, uncertain = np.zeros(109, np.int64), np.arange(109) < low
    of = replace(beats, sample=sample, label=label, uncertain=uncertain, samples=15_000)
    rows = event_list(of, find_events(of), [], [], [PatientEvent(5.0)])
    (event,) = (row for row in rows if row.kind == "patient event")
    assert event.context == ("no ectopic beat" if assessed else "ectopic beats not assessed")
