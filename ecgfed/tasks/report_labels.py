"""The labels of a report's beats, by a model or from a file, and those of a second reader."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import Message, joined_message, message, messages, tr_later, uncapitalized
from ecgfed.domain.beats.intervals import unmarked_spans
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.events.kinds import Kind, kind_of, meaning_of, rhythm_name
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.labels.user_labels import column_names
from ecgfed.domain.record.annotations import end_note, read_csv_annotation
from ecgfed.domain.record.checks import check_heart_rate
from ecgfed.domain.record.reader import FORMATS, named_errors
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.confirm import second_look
from ecgfed.domain.signal.flutter import FLUTTER, flutter_text
from ecgfed.domain.signal.pacing import Pacing
from ecgfed.domain.signal.quality import LeadQuality
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.labelled import Labelled, Second
from ecgfed.tasks.labels_checked import SPREAD, confirmed_labels, detected_peaks, mismatched_recording, model_labels
from ecgfed.tasks.predict import PACED_SYMBOL, RecordingPredictions
from ecgfed.tasks.prediction_warnings import model_warnings
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.rhythms import END_NOTE, signal_rhythms, sure_episodes, without_supraventricular

#: Classes that a file of labels is taken to assess even where it has none of them.
_ALWAYS_ASSESSED = ("N", "V", "A")
#: Why ectopy is not counted in a paced record.
PACED_WITHHELD = tr_later("The rhythm is paced: the model was not trained to tell ectopic beats from paced ones.")
#: Why ectopy is not counted where more than this share of the waves taken for beats is of possible flutter.
_MUCH_FLUTTER = 0.1
FLUTTER_WITHHELD = tr_later(
    "More than 10% of the beats lie in possible ventricular flutter or fibrillation: read the rhythm first."
)
#: Symbols in the order of a legend.
_ORDER = "NLRBV/AaJSFfEejnrQ?"


class OnThePage(ProgressReporter):
    """Forwards progress and notes but no warnings: the page shows them.

    Args:
        reporter: where to forward them.
    """

    def __init__(self, reporter: ProgressReporter) -> None:
        self.reporter = reporter

    def update(self, *values: Any, **more: Any) -> None:
        """Forward the progress."""
        self.reporter.update(*values, **more)

    def note(self, text: str) -> None:
        """Forward the note."""
        self.reporter.note(text)

    def warn(self, text: str) -> None:
        """Ignore the warning: it is among the report's warnings."""


def by_model(predictions: RecordingPredictions, bundle: Bundle) -> Labelled:
    """Return the beats with a model's labels and their warnings."""
    symbols: dict[str, list[str]] = {name: [] for name in predictions.classes}
    for symbol, name in predictions.labels.symbols.items():
        symbols[name].append(symbol)
    codes = tuple(predictions.labels.symbol_of(name) for name in predictions.classes)
    calibrated = isinstance(bundle.manifest.get("certainty"), dict)  # without it, confidence is not assessed
    labelled = Labelled(
        _model_text(predictions.metadata["patient"]),
        tr_later("own") if predictions.metadata["patient"] else tr_later("global"),
        predictions.sample,
        np.asarray(predictions.label, dtype=np.int64),
        predictions.classes,
        codes,
        tuple(_meaning(name, code, symbols[name]) for name, code in zip(predictions.classes, codes, strict=True)),
        tuple(kind_of(symbols[name]) for name in predictions.classes),
        predictions.confidence,
        predictions.low_confidence if calibrated else None,
        tuple((warning.code, warning.text) for warning in predictions.warnings),
        probability=predictions.probability,
        out_of_distribution=predictions.out_of_distribution,
        no_signal=~predictions.classified,
        pulses=predictions.cut.pulses,
        end_noise=predictions.cut.end_noise,
        pacing=predictions.pacing,
    )
    for mark in sorted(set(predictions.override.tolist()) - {""}):
        if mark not in labelled.codes:
            labelled = _with_class(labelled, mark)
        label = np.where(predictions.override == mark, labelled.codes.index(mark), labelled.label)
        labelled = replace(labelled, label=label)
    labelled = _with_signal_rhythms(labelled, predictions.cut)
    labelled = _with_paced(labelled, predictions.pacing) if predictions.pacing else labelled
    return _with_flutter(labelled, predictions.cut.flutter, predictions.fs_hz) if predictions.cut.flutter else labelled


def _with_signal_rhythms(labelled: Labelled, cut: RecordingBeats) -> Labelled:
    return replace(labelled, rhythms=signal_rhythms(cut) or None, fibrillation_from_s=cut.fibrillation_from_s)


def _model_text(patient: str | None) -> Message:
    """Return a model as part of a sentence."""
    return message("the model of patient {patient}", patient=patient) if patient else message("the global model")


def _with_class(labelled: Labelled, symbol: str) -> Labelled:
    classes, meanings = (*labelled.classes, symbol), (*labelled.meanings, meaning_of(symbol))
    kinds = (*labelled.kinds, kind_of([symbol]))
    return replace(labelled, classes=classes, codes=(*labelled.codes, symbol), meanings=meanings, kinds=kinds)


def _with_paced(labelled: Labelled, pacing: Pacing) -> Labelled:
    """Give paced beats the class ``/``; withhold counts of ectopy where the record is paced."""
    if PACED_SYMBOL not in labelled.codes:
        labelled = _with_class(labelled, PACED_SYMBOL)
    rhythms = RhythmEpisodes("paced", tuple((episode.start_s, episode.stop_s) for episode in pacing.episodes))
    return replace(
        labelled,
        label=np.where(pacing.beats, labelled.codes.index(PACED_SYMBOL), labelled.label),
        rhythms=(rhythms, *(labelled.rhythms or ())),
        withheld=dict.fromkeys((Kind.VENTRICULAR, Kind.SUPRA), PACED_WITHHELD) if pacing.paced else {},
    )


def _with_flutter(labelled: Labelled, spans: tuple[tuple[int, int], ...], fs_hz: float) -> Labelled:
    """Add possible ventricular flutter or fibrillation as a rhythm; withhold ectopy above ``_MUCH_FLUTTER``."""
    episodes = tuple((start / fs_hz, stop / fs_hz) for start, stop in spans)
    rhythms = (*(labelled.rhythms or ()), RhythmEpisodes(FLUTTER, episodes))
    inside = sum(int(np.diff(np.searchsorted(labelled.sample, span))[0]) for span in spans)
    reason = dict.fromkeys((Kind.VENTRICULAR, Kind.SUPRA), FLUTTER_WITHHELD)
    withheld = reason if inside > _MUCH_FLUTTER * len(labelled.sample) else {}
    return replace(labelled, flutter=spans, rhythms=rhythms, withheld={**withheld, **labelled.withheld})


def _meaning(name: str, code: str, symbols: Sequence[str]) -> str:
    """Return the description of a class; AAMI's five classes, of several symbols each, have fixed ones."""
    aami = {
        "N": tr_later("normal, bundle branch block and escape beats"),
        "S": tr_later("supraventricular ectopic beat"),
        "V": tr_later("ventricular ectopic beat"),
        "Q": tr_later("paced or unclassifiable beat"),
    }
    if len(symbols) > 1 and name in aami and set(symbols) - {name}:
        return aami[name]
    if name == code:
        return meaning_of(code)
    return joined_message([message(meaning_of(symbol)) for symbol in symbols], message(" or "))


def read_labels(path: Path, recording: Recording, *, complete: bool = True) -> Annotation:
    """Read a file of labels: a WFDB annotation, or a table with ``sample`` or ``time_s``, and ``symbol``.

    Args:
        path: the file.
        recording: the recording that it labels.
        complete: the file labels all beats: implausible heart rates are refused.

    Raises:
        RecordError: the file cannot be read, reaches past the recording, or marks no beat.
    """
    if not path.is_file():
        problem = "is no file" if path.exists() else "does not exist"
        raise RecordError(path, problem, "a file of labels", f"name one with {param('labels')}")
    with named_errors(path):
        if path.suffix.casefold() in FORMATS["csv"]:
            names = column_names(path)
            if "label" in names and "symbol" not in names:
                expected = "a label for every beat, in a column symbol"
                action = "'ecgfed personalize RECORD --labels' takes these, and writes every beat's"
                raise RecordError(path, "holds labels of some beats, as 'ecgfed label' saves them", expected, action)
            annotation = read_csv_annotation(path, recording.fs_hz, samples=recording.samples)
        else:
            annotation = read_annotation_file(path, fs_hz=recording.fs_hz, samples=recording.samples)
    beats = annotation.beats()
    if not len(beats.sample):
        advice = f"leave {param('labels')} out for a model's"
        raise RecordError(path, "marks no beat", "labels of beats", advice, code="no-beats")
    if complete:
        check_heart_rate(beats.sample, recording.fs_hz, path)
    return annotation


def by_file(path: Path, marks: Annotation, recording: Recording) -> Labelled:
    """Return the beats with a file's labels; of several labels at one sample the first counts.

    A file that ``predict`` wrote holds a model's labels: they stay provisional, with their low-confidence beats.
    """
    beats = marks.beats()
    sample, first = np.unique(beats.sample, return_index=True)
    symbol = beats.symbol[first]
    known = {*symbol.tolist(), *_ALWAYS_ASSESSED}
    codes = tuple(code for code in _ORDER if code in known)
    number = {code: at for at, code in enumerate(codes)}
    label = np.array([number[code] for code in symbol.tolist()], np.int64)
    unmarked = tuple(unmarked_spans(marks, recording.samples))
    doubtful, warnings = model_labels(path, marks) or (None, ())
    provisional = bool(warnings)
    by = message("the file {file}", file=path.name)
    if provisional and warnings[0][0] != SPREAD:
        by = message("the file {file}, a model wrote", file=path.name)
    if unmarked:
        seconds = sum(stop - start for start, stop in unmarked) / recording.fs_hz
        text = messages(
            "{file} marks no beats in {n} stretch of {seconds:.1f} s in all: ventricular flutter, or leads that could "
            "not be read. Nothing there is counted.",
            "{file} marks no beats in {n} stretches of {seconds:.1f} s in all: ventricular flutter, or leads that "
            "could not be read. Nothing there is counted.",
            len(unmarked),
            file=path.name,
            seconds=seconds,
        )
        warnings = (*warnings, ("unmarked", text))
    if beyond := end_note(marks):
        warnings = (*warnings, ("beyond-end", message("Of {file}: {text}.", file=path.name, text=beyond)))
    return Labelled(
        by,
        tr_later("file"),
        sample,
        label,
        codes,
        codes,
        tuple(map(meaning_of, codes)),
        tuple(map(kind_of, codes)),
        uncertain=None if doubtful is None else doubtful[first],
        warnings=warnings,
        rhythms=_rhythms(marks, recording),
        provisional=provisional,
        unmarked=unmarked,
    )


def _rhythms(marks: Annotation, recording: Recording) -> tuple[RhythmEpisodes, ...] | None:
    """Return the marked rhythms (``+`` with ``(AFIB``), the longest first; None without any."""
    if not marks.note:
        return None
    rhythm_changes = [
        (int(at), note.strip("\0 "))
        for at, symbol, note in zip(marks.sample, marks.symbol, marks.note, strict=True)
        if symbol == "+" and note.startswith("(")
    ]
    if not rhythm_changes:
        return None
    stops = [at for at, _ in rhythm_changes[1:]] + [recording.samples]
    episodes: dict[str, list[tuple[float, float]]] = {}
    for (start, note), stop in zip(rhythm_changes, stops, strict=True):
        if note != END_NOTE:
            episodes.setdefault(rhythm_name(note), []).append((start / recording.fs_hz, stop / recording.fs_hz))
    rows = [RhythmEpisodes(name, tuple(when), "labels") for name, when in episodes.items()]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def second_reader(bundle: Bundle, patient: str | None, cut: RecordingBeats) -> Second:
    """Return a bundle's model as second reader of extracted beats."""
    predictions = bundle.classifier(patient).classify_recording(cut.blocks())
    inside = sure_episodes(cut.fibrillation).inside(cut.r_samples / cut.recording.fs_hz)
    predictions, _ = without_supraventricular(predictions, bundle.labels, inside)
    codes = np.array([bundle.labels.symbol_of(name) for name in predictions.classes], dtype=np.str_)
    of_model = model_warnings(bundle, cut, predictions, patient)
    by, short = _model_text(patient), tr_later("own") if patient else tr_later("global")
    warnings = tuple(
        (warning.code, message("Of {reader}: {text}", reader=by, text=uncapitalized(warning.text)))
        for warning in of_model
    )
    names = np.where(predictions.classified, codes[predictions.label], predictions.override)
    confidence = predictions.confidence
    if cut.pacing:
        paced = cut.pacing.beats & predictions.classified
        names[paced] = PACED_SYMBOL
        confidence = np.where(paced, cut.pacing.score, confidence).astype(np.float32)
    return Second(by, short, names, confidence, warnings)


def read_by_model(
    read: Callable[[], RecordingPredictions], bundle: Bundle, recording: Recording, patient: str | None
) -> tuple[Labelled, LeadQuality, Second | None]:
    """Return the model's labels, the lead's quality, and for a personal model the global model as second reader.

    A recording without detected beats has a report too, which says so.
    """
    try:
        predictions = read()
    except RecordError as error:
        if not error.where.startswith(f"{recording.path} lead "):  # how detectors name the signal
            raise
        return _without_beats(bundle, recording, patient, error), quality_of(recording, recording.lead), None
    second = None if patient is None else second_reader(bundle, None, predictions.cut)
    labelled = by_model(predictions, bundle)
    if predictions.cut.detected:
        paced = None if predictions.pacing is None else predictions.pacing.beats
        second_analysis = second_look(recording, predictions.sample, paced)
        labelled = replace(
            labelled,
            confirmed=second_analysis.confirmed,
            doubted=second_analysis.doubted,
            undetected=second_analysis.undetected,
            lead_segments=second_analysis.segments,
        )
    return labelled, predictions.cut.quality, second


def _without_beats(bundle: Bundle, recording: Recording, patient: str | None, error: RecordError) -> Labelled:
    """Return empty labels, with the reason as a warning."""
    classifier = bundle.classifier(patient)
    nothing = np.empty(0, np.int64)
    cut = RecordingBeats(recording, LeadQuality(recording.samples, recording.fs_hz, ()), None, nothing, detected=True)
    empty = RecordingPredictions(
        label=nothing,
        probability=np.empty((0, len(classifier.classes)), np.float32),
        flags=np.empty(0, np.uint8),
        classes=classifier.classes,
        sample=nothing,
        fs_hz=recording.fs_hz,
        recording=recording,
        labels=bundle.labels,
        poor=(),
        cut=cut,
        metadata={"patient": patient},
    )
    text = message(
        "No beat was found in {lead} ({reason}): is it an ECG, and is the electrode connected?",
        lead=recording.lead,
        reason=error.reason,
    )
    warnings: tuple[tuple[str, str], ...] = (("no-beats", text),)
    if cut.flutter:
        flutter = message("{sentence}. Look at it first.", sentence=flutter_text(cut.flutter, recording.fs_hz))
        warnings = (("flutter", flutter), *warnings)
    return replace(by_model(empty, bundle), confidence=None, uncertain=None, warnings=warnings)


def read_by_file(
    path: Path,
    marks: Annotation,
    recording: Recording,
    quality: LeadQuality,
    bundle: Bundle | None,
    patient: str | None,
    rules: EventRules,
) -> tuple[Labelled, Second | None]:
    """Return a file's labels, and a bundle's model as second reader of the same beats."""
    labelled = by_file(path, marks, recording)
    peaks = detected_peaks(recording, quality)
    mismatch = tuple(mismatched_recording(path, labelled.sample, peaks, recording, quality))
    confirmed, unlike = confirmed_labels(
        path, labelled.sample, peaks, recording, pause_s=rules.pause_s, unmarked=labelled.unmarked
    )
    labelled = replace(labelled, confirmed=confirmed, warnings=(*mismatch, *unlike, *labelled.warnings))
    rr_version = 1 if bundle is None else bundle.rr_version or 1
    cut = RecordingBeats(recording, quality, marks, labelled.sample, detected=False, rr_version=rr_version)
    if labelled.rhythms is None:
        labelled = _with_signal_rhythms(labelled, cut)
    elif cut.no_beats.episodes:  # no file of labels marks a standstill
        labelled = replace(labelled, rhythms=(*labelled.rhythms, cut.no_beats))
    if bundle is None:
        return labelled, None
    second = second_reader(bundle, patient, cut)
    return replace(labelled, warnings=(*labelled.warnings, *second.warnings)), second
