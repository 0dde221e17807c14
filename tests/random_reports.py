"""Readings of random beats, random edits of them, and their counts as a report has them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from edits_files import SAVED
from numpy.typing import NDArray

from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.kinds import KIND_WORDS, Kind, kind_of, meaning_of
from ecgfed.domain.events.patient_event import DIARY, RECORDER, PatientEvent
from ecgfed.domain.events.rate_episodes import rate_episodes
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.edits import REFRACTORY_S
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.quality import LeadQuality, Reason, Stretch
from ecgfed.reports.conclusion import conclusion_draft
from ecgfed.reports.drawing import Reading, class_rows, lead_rows
from ecgfed.reports.event_list import event_list
from ecgfed.reports.labelled import Labelled

FS_HZ = 250.0
CODES = ("N", "S", "V", "F", "Q", "/")


def random_labelled(rng: np.random.Generator, beats: int) -> tuple[Labelled, LeadQuality]:
    """Beats with runs, pauses, unusable stretches and rhythms; every optional value is missing at times."""
    rr = np.where(rng.random(beats) < 0.2, rng.uniform(0.25, 0.5, beats), rng.uniform(0.5, 1.3, beats))
    rr[rng.random(beats) < 0.02] = rng.uniform(2.5, 9)
    sample = np.cumsum(np.rint(rr * FS_HZ)).astype(np.int64)
    samples = int(sample[-1]) + int(rng.integers(1, 5 * FS_HZ))
    paced = rng.random() < 0.3
    classes = CODES if paced else CODES[: rng.integers(3, 6)]
    share = np.array([6, 1, 3, 0.3, 0.2, 0.2])[: len(classes)] * rng.uniform(0.1, 2, len(classes))
    label = rng.choice(len(classes), beats, p=share / share.sum())
    for _ in range(beats // 20):  # runs and bigeminy
        at, length = int(rng.integers(beats)), int(rng.integers(2, 12))
        label[at : at + length : rng.integers(1, 4)] = rng.integers(1, 3)
    by_model = rng.random() < 0.8

    def some(size: int, share: float, missing: float) -> NDArray[np.bool_] | None:
        return None if rng.random() < missing else rng.random(size) < share

    probability = None
    if by_model and rng.random() < 0.9:
        columns = min(len(classes), 5)
        probability = rng.dirichlet(np.ones(columns), beats).astype(np.float32)
        likely = label < columns
        probability[likely] = 0.1 * probability[likely]
        probability[likely, label[likely]] += np.float32(0.9)
    stretches = [
        Stretch(start, start + int(rng.integers(1, 10 * FS_HZ)), Reason.NOISE if rng.random() < 0.5 else Reason.GAP)
        for start in sorted(rng.integers(0, samples, rng.integers(0, 4)).tolist())
    ]
    stretches = [Stretch(part.start, min(part.stop, samples), part.reason) for part in stretches]
    edges = np.sort(rng.uniform(0, samples / FS_HZ, 6)).reshape(3, 2)
    rhythms = (
        RhythmEpisodes(
            str(rng.choice(["AF or flutter", "sinus bradycardia"])),
            tuple(map(tuple, edges[:2].tolist())),
            "signal",
            (0.42, 0.875),
        ),
        RhythmEpisodes("possible flutter", tuple(map(tuple, edges[2:].tolist()))),
    )
    labelled = Labelled(
        "a model",
        "global",
        sample,
        label.astype(np.int64),
        classes,
        classes,
        tuple(map(meaning_of, classes)),
        tuple(kind_of([code]) for code in classes),
        uncertain=some(beats, rng.uniform(0, 0.9), 0.2) if by_model else None,
        rhythms=rhythms if rng.random() < 0.7 else None,
        provisional=by_model,
        withheld={Kind.VENTRICULAR: "A reason."} if rng.random() < 0.1 else {},
        confirmed=some(beats - 1, rng.uniform(0.7, 1), 0.3),
        doubted=some(beats, 0.05, 0.3),
        probability=probability,
        out_of_distribution=some(beats, 0.3, 0.5) if by_model else None,
        undetected=None if rng.random() < 0.3 else rng.integers(0, 4, max(beats - 1, 0)).astype(np.uint8),
        fibrillation_from_s=(None, samples / FS_HZ, 30.0)[beats % 3],
    )
    return labelled, LeadQuality(samples, FS_HZ, tuple(stretches))


def random_events(rng: np.random.Generator, duration_s: float) -> tuple[PatientEvent, ...]:
    """Events that a patient marked, some of them close to an end of the recording."""
    times = sorted(rng.uniform(0, duration_s, rng.integers(0, 4)).tolist())
    return tuple(
        PatientEvent(time_s, str(rng.choice(["", "dizzy"])), str(rng.choice([RECORDER, DIARY]))) for time_s in times
    )


def recording_of(quality: LeadQuality) -> Recording:
    return Recording("random", Path("random"), "II", ("II",), FS_HZ, np.zeros((1, quality.samples)), ())


def random_rules(rng: np.random.Generator) -> EventRules:
    if rng.random() < 0.5:
        return EventRules()
    values = {"pause_s": 2.0, "rate_intervals": 4, "run_beats": 4, "cycles": 2, "svt_beats": 3, "hrv_intervals": 3}
    return EventRules(**{name: value for name, value in values.items() if rng.random() < 0.5})


def random_edits(rng: np.random.Generator, labelled: Labelled) -> list[dict[str, Any]]:
    """Edits of every kind: some beats several times, some intervals that other edits remove."""
    edits: list[dict[str, Any]] = []
    beats = labelled.sample.tolist()
    for _ in range(rng.integers(0, 12)):
        start = int(rng.integers(len(beats)))
        samples = beats[start : start + int(rng.integers(1, 10))]
        choice = rng.random()
        if choice < 0.5:
            edits.append({"edit": "label", "samples": samples, "label": str(rng.choice(list("NVSAE|||FL")))})
        elif choice < 0.75:
            edits.append({"edit": "accept", "samples": samples})
        elif start + 1 < len(beats):
            edits.append(
                {"edit": "interval", "samples": beats[start : start + 2], "accepted": bool(rng.random() < 0.5)}
            )
    for at in rng.integers(0, beats[-1] + 200, rng.integers(0, 6)).tolist():
        if np.abs(labelled.sample - at).min() < REFRACTORY_S * FS_HZ:
            continue
        if any(edit["edit"] == "add" and abs(edit["samples"][0] - at) < REFRACTORY_S * FS_HZ for edit in edits):
            continue
        edits.append({"edit": "add", "samples": [at], "label": str(rng.choice(list("NVSAEFL")))})
        if rng.random() < 0.4:
            edits.append({"edit": "label", "samples": [at], "label": str(rng.choice(list("V||N")))})
    for rhythm in labelled.rhythms or ():
        for start_s, stop_s in rhythm.episodes:
            if rng.random() < 0.5:
                label = str(rng.choice([rhythm.rhythm, "", "AF"]))
                samples = [round(start_s * FS_HZ), round(stop_s * FS_HZ)]
                edits.append({"edit": "rhythm", "rhythm": rhythm.rhythm, "samples": samples, "label": label})
    return [{"at": SAVED, **edit} for edit in edits]


def counts_of(reading: Reading) -> dict[str, Any]:
    """The counts of a reading under their names in a report's JSON, without first and last beats of events."""
    beats, events = reading.beats, reading.events
    rhythms = (*(reading.labelled.rhythms or ()), *rate_episodes(beats, events.rules))
    pauses = asdict(events.pauses)
    pauses["found"] = [{**interval, "review": False} for interval in pauses.pop("intervals")]
    pauses["not_confirmed"] = [{**interval, "review": True} for interval in pauses["not_confirmed"]]
    listed = [asdict(event) for event in event_list(beats, events, rhythms, (), reading.patient_events)]
    return {
        "beats": events.total,
        "counted": events.counted,
        "by_class": events.by_class,
        "uncertain_by_class": {row.name: row.uncertain for row in class_rows(reading)},
        "rates": asdict(events.rates),
        "pauses": pauses,
        "variability": asdict(events.variability),
        "ventricular": _ectopy(events.ventricular),
        "supraventricular": _ectopy(events.supra),
        "to_review": {KIND_WORDS[kind]: _ectopy(counts) for kind, counts in events.to_review.items()},
        "withheld": {KIND_WORDS[kind]: reason for kind, reason in events.withheld.items()},
        "rhythms": [(one.rhythm, one.source, one.seconds, one.episodes, one.certainty) for one in rhythms],
        "events": [{name: value for name, value in event.items() if name != "strip"} for event in listed],
        "hours": [asdict(hour) for hour in events.hours],
    }


def draft_of(reading: Reading) -> list[str]:
    """The draft of a reading's conclusion."""
    beats, events, lead = reading.beats, reading.events, lead_rows(reading)[0]
    rhythms = (*(reading.labelled.rhythms or ()), *rate_episodes(beats, events.rules))
    from_s, duration_s = reading.labelled.fibrillation_from_s, reading.recording.duration_s
    return list(conclusion_draft(events, rhythms, duration_s, lead.name, from_s))


def _ectopy(counts: Ectopy | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    review = sum(run.review for run in counts.runs)
    values = {"percent": counts.percent, "certain_runs": len(counts.runs) - review, "runs_to_review": review}
    return {**asdict(counts), **values, "kind": counts.kind.name.lower()}


def of_page(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts of the page's script in the same form."""
    rhythms = [
        (one["rhythm"], one["source"], one["seconds"], one["episodes"], one["certainty"]) for one in counts["rhythms"]
    ]
    own = ("first", "last", "source", "context_text")
    events = [{name: value for name, value in event.items() if name not in own} for event in counts["events"]]
    same = {name: value for name, value in counts.items() if name != "withheld_text"}  # of the page alone
    return {**same, "rhythms": rhythms, "events": events}
