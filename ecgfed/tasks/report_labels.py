"""Who says what each beat of a report is: a model, or a file of labels; and what a second reader says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError, RecordError
from ecgfed.base.files import read_json
from ecgfed.domain.beats.intervals import unmarked_spans
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.events.kinds import Kind, kind_of, meaning_of, rhythm_name
from ecgfed.domain.events.rhythm import LeadSegment, RhythmEpisodes
from ecgfed.domain.labels.user_labels import column_names
from ecgfed.domain.record.annotations import end_note, read_csv_annotation
from ecgfed.domain.record.checks import check_heart_rate
from ecgfed.domain.record.reader import FORMATS, named_errors
from ecgfed.domain.record.recording import Annotation, AnyRecording
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.signal.flutter import FLUTTER
from ecgfed.domain.signal.pacing import Pacing
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import CARD, CARD_DATA, MODEL, SHIPPED, name_of
from ecgfed.tasks.doubts import doubts_of
from ecgfed.tasks.labels_checked import SPREAD, model_labels
from ecgfed.tasks.predict import PACED_SYMBOL, RecordingPredictions, whose
from ecgfed.tasks.watch import Watch

#: Classes that whoever labels beats has looked for, whether or not there was one.
_LOOKED_FOR = ("N", "V", "A")
#: Why ectopy is not counted in a paced record.
PACED_WITHHELD = "The rhythm is paced: the model was not trained to tell ectopic beats from paced ones."
#: Why ectopy is not counted where more than this share of the waves taken for beats is of possible flutter.
_MUCH_FLUTTER = 0.1
FLUTTER_WITHHELD = (
    "More than 10% of the beats lie in possible ventricular flutter or fibrillation: read the rhythm first."
)
#: Symbols in the order of a legend.
_ORDER = "NLRBV/AaJSFfEejnrQ?"


@dataclass(frozen=True, eq=False)
class Labelled:
    """The beats of a recording with their labels.

    Attributes:
        by: who says so, as a part of a sentence.
        short: the same in a word, for the edge of a strip.
        sample: (beats,) int64 R peaks.
        label: (beats,) int64 class numbers.
        classes: class names.
        codes: what is written on a strip for each class.
        meanings: each class in words.
        kinds: the kind of each class.
        confidence: (beats,) the probability of each beat's class; None for a file's labels.
        uncertain: (beats,) bool; None where nobody looked.
        warnings: (code, sentence) that speak against the labels.
        rhythms: where a file marks any, and pacing that was detected in the signal.
        provisional: nobody has read them over.
        unmarked: (start, stop) in samples of stretches in which whoever labelled the beats marked none: flutter.
        withheld: kind -> why its counts would mislead, in one sentence.
        flutter: (start, stop) in samples of what is like ventricular flutter or fibrillation: nothing is counted there.
        confirmed: (beats - 1,) bool, False for an interval that a second analysis of the signal could not confirm;
            None where none was made.
        doubted: (beats,) bool, those that it takes for no beat; None likewise.
        lead_segments: which leads had a say in what is a beat; none where nobody looked.
        probability: (beats, classes) a model's; None for a file's labels.
        far: (beats,) bool, unlike the beats of training; None where that was not assessed.
        no_signal: (beats,) bool, those without class, since their lead shows no signal; None for a file's labels.
        end_noise: detected peaks that are noise at an end of the recording and none of these beats.
    """

    by: str
    short: str
    sample: NDArray[np.int64]
    label: NDArray[np.int64]
    classes: tuple[str, ...]
    codes: tuple[str, ...]
    meanings: tuple[str, ...]
    kinds: tuple[Kind, ...]
    confidence: NDArray[np.floating] | None = None
    uncertain: NDArray[np.bool_] | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    rhythms: tuple[RhythmEpisodes, ...] | None = None
    provisional: bool = True
    unmarked: tuple[tuple[int, int], ...] = ()
    withheld: Mapping[Kind, str] = field(default_factory=dict)
    confirmed: NDArray[np.bool_] | None = None
    doubted: NDArray[np.bool_] | None = None
    flutter: tuple[tuple[int, int], ...] = ()
    lead_segments: tuple[LeadSegment, ...] = ()
    probability: NDArray[np.floating] | None = None
    far: NDArray[np.bool_] | None = None
    no_signal: NDArray[np.bool_] | None = None
    end_noise: int = 0

    @property
    def names(self) -> NDArray[np.str_]:
        """(beats,) what is written above each beat."""
        return np.array(self.codes, dtype=np.str_)[self.label]


class OnThePage(Watch):
    """Passes on what it is told but the warnings: the page says them.

    Args:
        watch: who is told.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def progress(
        self, what: str, done: int, total: int | None, about: str = "", *, rate: str = "", left_s: float | None = None
    ) -> None:
        """Pass it on."""
        self.watch.progress(what, done, total, about, rate=rate, left_s=left_s)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.watch.note(text)

    def warn(self, text: str) -> None:
        """Keep still: it is among the report's warnings."""


def by_model(found: RecordingPredictions, bundle: Bundle) -> Labelled:
    """Return the beats as a model labels them, with what speaks against that."""
    symbols: dict[str, list[str]] = {name: [] for name in found.classes}
    for symbol, name in found.labels.symbols.items():
        symbols[name].append(symbol)
    codes = tuple(found.labels.symbol_of(name) for name in found.classes)
    calibrated = isinstance(bundle.manifest.get("certainty"), dict)  # else nobody has looked which are uncertain
    labelled = Labelled(
        f"the {whose(found.about['patient'])}",
        "own" if found.about["patient"] else "global",
        found.sample,
        np.asarray(found.label, dtype=np.int64),
        found.classes,
        codes,
        tuple(_meaning(name, code, symbols[name]) for name, code in zip(found.classes, codes, strict=True)),
        tuple(kind_of(symbols[name]) for name in found.classes),
        found.confidence,
        found.low_confidence if calibrated else None,
        tuple((one.code, one.text) for one in found.warnings),
        probability=found.probability,
        far=found.out_of_distribution,
        no_signal=~found.classified,
        end_noise=found.cut.end_noise,
    )
    labelled = _with_unclassified(labelled, found.override)
    labelled = _with_paced(labelled, found.pacing) if found.pacing else labelled
    return _with_flutter(labelled, found.cut.flutter, found.fs_hz) if found.cut.flutter else labelled


def _with_unclassified(labelled: Labelled, override: NDArray[np.str_]) -> Labelled:
    """Give the beats that a symbol overrides, because their lead shows no signal, the class of that symbol."""
    for symbol in sorted(set(override.tolist()) - {""}):
        if symbol not in labelled.codes:
            labelled = _with_class(labelled, symbol)
        label = np.where(override == symbol, labelled.codes.index(symbol), labelled.label)
        labelled = replace(labelled, label=label)
    return labelled


def _with_class(labelled: Labelled, symbol: str) -> Labelled:
    return replace(
        labelled,
        classes=(*labelled.classes, symbol),
        codes=(*labelled.codes, symbol),
        meanings=(*labelled.meanings, meaning_of(symbol)),
        kinds=(*labelled.kinds, kind_of([symbol])),
    )


def _with_paced(labelled: Labelled, pacing: Pacing) -> Labelled:
    """Give the beats that are paced their own class ``/``; withhold counts of ectopy where the record is paced."""
    if PACED_SYMBOL not in labelled.codes:
        labelled = _with_class(labelled, PACED_SYMBOL)
    rhythms = RhythmEpisodes("paced", tuple((one.start_s, one.stop_s) for one in pacing.episodes))
    return replace(
        labelled,
        label=np.where(pacing.beats, labelled.codes.index(PACED_SYMBOL), labelled.label),
        rhythms=(rhythms, *(labelled.rhythms or ())),
        withheld=dict.fromkeys((Kind.VENTRICULAR, Kind.SUPRA), PACED_WITHHELD) if pacing.paced else {},
    )


def _with_flutter(labelled: Labelled, spans: tuple[tuple[int, int], ...], fs_hz: float) -> Labelled:
    """Name what is like ventricular flutter or fibrillation as a possible rhythm; withhold ectopy where it is much."""
    episodes = tuple((start / fs_hz, stop / fs_hz) for start, stop in spans)
    rhythms = (*(labelled.rhythms or ()), RhythmEpisodes(FLUTTER, episodes))
    inside = sum(int(np.diff(np.searchsorted(labelled.sample, span))[0]) for span in spans)
    reason = dict.fromkeys((Kind.VENTRICULAR, Kind.SUPRA), FLUTTER_WITHHELD)
    withheld = reason if inside > _MUCH_FLUTTER * len(labelled.sample) else {}
    return replace(labelled, flutter=spans, rhythms=rhythms, withheld={**withheld, **labelled.withheld})


def _meaning(name: str, code: str, symbols: Sequence[str]) -> str:
    """Return what a class means; of AAMI's five, each of which holds several symbols, its own words."""
    own = {
        "N": "normal, bundle branch block and escape beats",
        "S": "supraventricular ectopic beat",
        "V": "ventricular ectopic beat",
        "Q": "paced or unclassifiable beat",
    }
    if len(symbols) > 1 and name in own and set(symbols) - {name}:
        return own[name]
    return " or ".join(meaning_of(symbol) for symbol in symbols) if name != code else meaning_of(code)


def read_labels(path: Path, recording: AnyRecording, *, whole: bool = True) -> Annotation:
    """Read a file of labels: a WFDB annotation, or a table with ``sample`` or ``time_s``, and ``symbol``.

    Args:
        path: the file.
        recording: the recording it is of.
        whole: it is to mark about every beat, so that marks too few or too many for a heart are refused.

    Raises:
        RecordError: it cannot be read, reaches past the recording, or marks no beat.
    """
    if not path.is_file():
        wrong = "is no file" if path.exists() else "does not exist"
        raise RecordError(path, wrong, "a file of labels", "name one with --labels")
    with named_errors(path):
        if path.suffix.casefold() in FORMATS["csv"]:
            _refuse_answers(path)
            found = read_csv_annotation(path, recording.fs_hz, samples=recording.samples)
        else:
            found = read_annotation_file(path, fs_hz=recording.fs_hz, samples=recording.samples)
    beats = found.beats()
    if not len(beats.sample):
        raise RecordError(path, "marks no beat", "labels of beats", "leave --labels out for a model's")
    if whole:
        check_heart_rate(beats.sample, recording.fs_hz, path)
    return found


def _refuse_answers(path: Path) -> None:
    """Refuse the table that the labelling page saves, which is of some beats: nothing is known of the others."""
    names = column_names(path)
    if "label" in names and "symbol" not in names:
        expected = "a label for every beat, in a column symbol"
        action = "'ecgfed personalize RECORD --labels' takes these, and writes every beat's"
        raise RecordError(path, "holds labels of some beats, as 'ecgfed label' saves them", expected, action)


def by_file(path: Path, marks: Annotation, recording: AnyRecording) -> Labelled:
    """Return the beats as a file labels them; two marks at one sample are one beat, the first.

    A file that ``predict`` wrote holds a model's labels: they stay provisional, with what it was unsure of.
    """
    beats = marks.beats()
    sample, first = np.unique(beats.sample, return_index=True)
    symbol = beats.symbol[first]
    known = {*symbol.tolist(), *_LOOKED_FOR}
    codes = tuple(one for one in _ORDER if one in known)
    number = {code: at for at, code in enumerate(codes)}
    label = np.array([number[one] for one in symbol.tolist()], np.int64)
    unmarked = tuple(unmarked_spans(marks, recording.samples))
    doubtful, warnings = model_labels(path, marks) or (None, ())
    provisional = bool(warnings)
    wrote = ", a model wrote" if provisional and warnings[0][0] != SPREAD else ""
    if unmarked:
        seconds = sum(stop - start for start, stop in unmarked) / recording.fs_hz
        episodes = f"{len(unmarked)} stretch{'es' * (len(unmarked) != 1)} of {seconds:.1f} s in all"
        said = f"{path.name} marks no beats in {episodes}: ventricular flutter, or leads that could not be read."
        warnings = (*warnings, ("unmarked", f"{said} Nothing there is counted."))
    if beyond := end_note(marks):
        warnings = (*warnings, ("beyond-end", f"Of {path.name}: {beyond}."))
    return Labelled(
        f"the file {path.name}{wrote}",
        "file",
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


def _rhythms(marks: Annotation, recording: AnyRecording) -> tuple[RhythmEpisodes, ...] | None:
    """Return the rhythms that are marked (``+`` with ``(AFIB``), the longest first; None where none is."""
    if not marks.note:
        return None
    places = [
        (int(at), note.strip("\0 "))
        for at, symbol, note in zip(marks.sample, marks.symbol, marks.note, strict=True)
        if symbol == "+" and note.startswith("(")
    ]
    if not places:
        return None
    stops = [at for at, _ in places[1:]] + [recording.samples]
    episodes: dict[str, list[tuple[float, float]]] = {}
    for (start, note), stop in zip(places, stops, strict=True):
        episodes.setdefault(rhythm_name(note), []).append((start / recording.fs_hz, stop / recording.fs_hz))
    rows = [RhythmEpisodes(name, tuple(when), "labels") for name, when in episodes.items()]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


@dataclass(frozen=True, eq=False)
class Second:
    """Another reader of the same beats.

    Attributes:
        by: who.
        short: the same in a word.
        names: (beats,) what that reader writes above each beat.
        confidence: (beats,) the probability of that.
        warnings: (code, sentence) that speak against what it says.
    """

    by: str
    short: str
    names: NDArray[np.str_]
    confidence: NDArray[np.floating]
    warnings: tuple[tuple[str, str], ...] = ()


def second_reader(bundle: Bundle, patient: str | None, cut: RecordingBeats) -> Second:
    """Return what a model of a bundle says of beats that have been cut."""
    found = bundle.classifier(patient).classify_blocks(cut.blocks())
    codes = np.array([bundle.labels.symbol_of(name) for name in found.classes], dtype=np.str_)
    doubts = doubts_of(bundle, cut, found, patient)
    by, short = f"the {whose(patient)}", "own" if patient else "global"
    warnings = tuple((one.code, f"Of {by}: {one.text[0].lower()}{one.text[1:]}") for one in doubts)
    names, confidence = np.where(found.classified, codes[found.label], found.override), found.confidence
    if cut.pacing:
        paced = cut.pacing.beats & found.classified
        names[paced] = PACED_SYMBOL
        confidence = np.where(paced, cut.pacing.score, confidence).astype(np.float32)
    return Second(by, short, names, confidence, warnings)


def model_facts(bundle: Bundle, patient: str | None, about: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return names and values about a bundle's model, and what it scored where the manifest says."""
    manifest = bundle.manifest
    cohort = manifest.get("cohort")
    trained = str(cohort.get("kind", "")) if isinstance(cohort, dict) else ""
    split = f", {cohort['split']} split" if isinstance(cohort, dict) and cohort.get("split") else ""
    window = f"{manifest['window_samples']} samples at {manifest['fs_hz']:g} Hz"
    rows = [
        ("Model", f"{whose(patient)}, in the bundle called {about['bundle']}"),
        (
            "Method",
            f"{manifest['method']}, {manifest['rounds']} rounds" if "rounds" in manifest else manifest["method"],
        ),
        ("Trained on", f"{trained or 'not said'}{split}; lead {' or '.join(bundle.leads)}"),
        ("Personal models in it", f"{len(bundle.patients):,}"),
        ("Classes", " ".join(bundle.classes)),
        ("It sees", f"one beat at a time: {window}; {manifest['filter']}"),
        ("RR features", f"version {bundle.rr_version}" if bundle.rr_version else "none"),
    ]
    rows += _scores(manifest, patient)
    rows += _unseen(bundle)
    rows += _certainty(manifest, patient)
    signature = bundle.signature
    if signature is None:
        signed = "nobody"
    else:
        signed = f"{signature.as_json()['key']}, {'verified' if signature.as_json()['verified'] else 'not checked'}"
    return (*rows, ("Signed by", signed))


def _scores(manifest: Mapping[str, object], patient: str | None) -> list[tuple[str, str]]:
    """Return what the model scored: on this patient, on all of its cohort's test beats."""
    rows = []
    run, patients = manifest.get("scores"), manifest.get("patients")
    if patient is not None and isinstance(patients, dict):
        own = patients.get(patient, {}).get("scores")
        said = "not scored"
        if isinstance(own, dict) and "macro_f1" in own:
            said = f"macro-F1 {own['macro_f1']:.3f} on {own['beats']:,} {own['split']} beats of this patient"
        rows.append((f"Scored on patient {patient}", said))
    if isinstance(run, dict):
        names = {
            "T_g": "the global model on every patient's test beats",
            "T_p": "the personal models, each on its own patient's",
        }
        parts = [f"{name} {run[name]:.3f} ({what})" for name, what in names.items() if isinstance(run.get(name), float)]
        rows.append(("Scored on its cohort", "; ".join(parts) or "not scored"))
    if patient is None:
        rows.append(("Scored on this patient", "not scored: it is nobody's own model"))
    return rows


def _unseen(bundle: Bundle) -> list[tuple[str, str]]:
    """Return how the model in the package reads patients it has not seen, as its card says; of another nobody knows."""
    if name_of(bundle.path) != SHIPPED:
        return [("On patients it has not seen", "not assessed: its bundle does not say")]
    card = read_json(MODEL / CARD_DATA, BundleError)
    rows = [
        f"{one['what']}: QRS {one['QRS']}, ventricular {one['VEB']}, supraventricular {one['SVEB']}"
        for one in card["unseen"]
    ]
    said = "sensitivity / positive predictivity in percent, by models made the same way without them"
    return [("On patients it has not seen", f"{said}; {'; '.join(rows)} ({SHIPPED}/{CARD})")]


def _certainty(manifest: Mapping[str, object], patient: str | None) -> list[tuple[str, str]]:
    """Return what a model's probabilities are worth, where the manifest says so."""
    overview, models = manifest.get("certainty"), manifest.get("patients")
    entry = manifest.get("global") if patient is None else models.get(patient) if isinstance(models, dict) else None
    own = entry.get("certainty") if isinstance(entry, dict) else None
    if not isinstance(overview, dict) or not isinstance(own, dict):
        return [("Calibration", "not assessed: probabilities are the model's own, and no beat is called uncertain")]
    said = f"uncertain below p {own['threshold']:.3f}, at a temperature of {own['temperature']:.2f}"
    if isinstance(overview.get("accuracy"), float):
        said += f"; of surer ones {overview['accuracy']:.0%} were right on validation beats of patients it learned from"
    before, after = overview.get("ece_before"), overview.get("ece_after")
    if isinstance(before, float) and isinstance(after, float):
        said += f"; expected calibration error {before:.3f} before, {after:.3f} after"
    return [("Calibration", said)]
