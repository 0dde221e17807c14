"""What the rhythm of a recording means for its beats and files."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import Message, joined_message, message, messages
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.kinds import Kind, kind_of
from ecgfed.domain.events.rate_episodes import rate_episodes
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.flutter import FLUTTER
from ecgfed.domain.signal.rhythm import NOTE
from ecgfed.exports.device.predictions import Predictions

#: Episodes of this certainty and more are written into annotation files, and no beat in them is supraventricular.
SURE = 0.5
#: The note that ends an episode in an annotation file: the rhythm after it is not assessed.
END_NOTE = "(U"
#: Columns of the table of episodes.
COLUMNS = ("rhythm", "start_s", "stop_s", "certainty", "source")


def signal_rhythms(beats: RecordingBeats) -> tuple[RhythmEpisodes, ...]:
    """Return atrial fibrillation, possible AV block, and stretches without beats, where there are any."""
    return tuple(rhythm for rhythm in (beats.fibrillation, beats.av_block, beats.no_beats) if rhythm.episodes)


def every_rhythm(beats: RecordingBeats) -> tuple[RhythmEpisodes, ...]:
    """Return all rhythms that have episodes: those in the signal, and by the default rules those of the heart rate."""
    fs_hz = beats.recording.fs_hz
    flutter = [RhythmEpisodes(FLUTTER, tuple((start / fs_hz, stop / fs_hz) for start, stop in beats.flutter))]
    number = np.zeros(len(beats.r_samples), np.int64)
    unusable = merged([*beats.quality.spans(), *beats.flutter])
    measured = Beats(beats.r_samples, number, ("beat",), (Kind.OTHER,), fs_hz, beats.recording.samples, unusable)
    return (*signal_rhythms(beats), *(flutter if beats.flutter else ()), *rate_episodes(measured, EventRules()))


def sure_episodes(rhythm: RhythmEpisodes) -> RhythmEpisodes:
    """Return the episodes of a certainty of ``SURE`` and more."""
    pairs = zip(rhythm.episodes, rhythm.certainty, strict=True)
    sure = [(episode, certainty) for episode, certainty in pairs if certainty >= SURE]
    return replace(
        rhythm, episodes=tuple(episode for episode, _ in sure), certainty=tuple(certainty for _, certainty in sure)
    )


def without_supraventricular(
    predictions: Predictions, labels: LabelMap, inside: NDArray[np.bool_]
) -> tuple[Predictions, int]:
    """Return predictions without supraventricular ectopic beats among those in atrial fibrillation, and their number.

    No beat is premature in a rhythm without an order. Such a beat has the most probable of the other classes, and its
    probabilities are those on the condition that it is none of the supraventricular ones.

    Args:
        predictions: of all beats.
        labels: the bundle's classes and their symbols.
        inside: (beats,) bool, beats in episodes of atrial fibrillation.
    """
    symbols = {name: [mark for mark, of in labels.symbols.items() if of == name] for name in predictions.classes}
    supra = np.array([kind_of(symbols[name]) is Kind.SUPRA for name in predictions.classes])
    affected = np.flatnonzero(inside & predictions.classified & supra[predictions.label])
    if not len(affected) or supra.all():
        return predictions, 0
    others = np.where(supra, 0, np.maximum(predictions.probability[affected], np.finfo(np.float32).tiny))
    probability, label = predictions.probability.copy(), predictions.label.copy()
    probability[affected] = others / others.sum(axis=1, keepdims=True)
    label[affected] = others.argmax(axis=1)
    return replace(predictions, probability=probability, label=label), len(affected)


def fibrillation_text(rhythm: RhythmEpisodes, duration_s: float, relabelled: int) -> Message:
    """Return a sentence about episodes of atrial fibrillation, and the beats whose class they changed."""
    low, high = min(rhythm.certainty), max(rhythm.certainty)
    certainty = message("{high:.0%}", high=high)
    if f"{low:.0%}" != f"{high:.0%}":
        certainty = message("{low:.0%} to {high:.0%}", low=low, high=high)
    text = messages(
        "Atrial fibrillation or flutter: {n} episode, {seconds:.0f} s in all ({share:.0%}), certainty {certainty}.",
        "Atrial fibrillation or flutter: {n} episodes, {seconds:.0f} s in all ({share:.0%}), certainty {certainty}.",
        len(rhythm.episodes),
        seconds=rhythm.seconds,
        share=rhythm.seconds / duration_s,
        certainty=certainty,
    )
    if not relabelled:
        return text
    beats = messages(
        "{n} beat that the model calls supraventricular there has the next most probable class.",
        "{n} beats that the model calls supraventricular there have the next most probable class.",
        relabelled,
    )
    return joined_message([text, beats], " ")


def with_rhythms(
    annotation: Annotation, fibrillation: RhythmEpisodes, flutter: Sequence[tuple[int, int]], fs_hz: float, samples: int
) -> Annotation:
    """Return an annotation of beats with the rhythms that are sure enough for other programs.

    Atrial fibrillation or flutter is a rhythm change ``+`` to ``(AFIB``, its end one to ``END_NOTE``; possible
    ventricular flutter lies between ``[`` and ``]``.
    """
    marks = [(start, "[", "") for start, _ in flutter] + [(min(stop, samples - 1), "]", "") for _, stop in flutter]
    for start_s, stop_s in sure_episodes(fibrillation).episodes:
        marks.append((round(start_s * fs_hz), "+", NOTE))
        if (stop := round(stop_s * fs_hz)) < samples:
            marks.append((stop, "+", END_NOTE))
    if not marks:
        return annotation
    at, symbol, note = zip(*marks, strict=True)
    sample = np.concatenate([np.array(at, np.int64), annotation.sample])
    order = np.argsort(sample, kind="stable")
    notes = (*note, *annotation.note)
    return Annotation(
        sample[order],
        np.concatenate([np.array(symbol, np.str_), annotation.symbol])[order],
        tuple(notes[number] for number in order.tolist()),
        np.concatenate([np.zeros(len(at), np.int64), annotation.subtype])[order],
    )


def rhythms_as_table(rhythms: Sequence[RhythmEpisodes]) -> bytes:
    """Return the episodes as a CSV file, in order of time."""
    rows: list[tuple[str, float, float, float | str, str]] = []
    for rhythm in rhythms:
        for number, (start_s, stop_s) in enumerate(rhythm.episodes):
            certainty = round(rhythm.certainty[number], 3) if rhythm.certainty else ""
            rows.append((rhythm.rhythm, round(start_s, 3), round(stop_s, 3), certainty, rhythm.source))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows.sort(key=lambda row: (row[1], row[2]))
    writer.writerows(rows)
    return text.getvalue().encode()
