"""Warnings about predictions: computed once, stored with the result; severe ones are reported at once.

A warning is not an error. Some depend on a bundle's training metadata (``trained_on`` of the manifest); if an older
bundle lacks it, that is a warning too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ecgfed.base.errors import BundleError, OptionError, RecordError, param, spelled
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.exclusions import WARN_SHARE
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.leads import NameMatch, best_match, ecg_alone, position_in
from ecgfed.domain.record.reader import has_annotation, read_annotation
from ecgfed.domain.record.recording import Recording, is_synthetic
from ecgfed.domain.signal.confirm import not_confirmed_text, second_look
from ecgfed.domain.signal.findings import no_ecg, paced_rhythm
from ecgfed.domain.signal.flutter import flutter_text
from ecgfed.domain.signal.pacing import calibration_text
from ecgfed.domain.signal.rhythm import paced_seconds
from ecgfed.domain.signal.size import size_text, too_large
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.calibration import calibration_in
from ecgfed.exports.device.predictions import UNCLASSIFIED, Predictions
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.records import recording_digests

#: All codes and their meanings; they are stable.
CODES: dict[str, str] = {
    "synthetic-model": "the model was trained on made-up patients; refused on other recordings unless forced",
    "no-ecg": "the lead is no ECG by its name",
    "other-lead": "another lead than those the model was trained on",
    "modified-lead": "the trained lead with its electrodes elsewhere: II where MLII is wanted",
    "lead-not-scored": "the model's scores are of another lead than this one, which it was trained on too",
    "lead-by-place": "the model was trained on a place among a recording's channels, whatever its name",
    "units": "the QRS is higher than any electrode gives",
    "paced": "the header, the annotation or the signal says that the rhythm is paced, all of it or in episodes",
    "flutter": "possible ventricular flutter or fibrillation, in which nothing is counted",
    "fibrillation": "episodes of atrial fibrillation or flutter, and beats whose class they changed",
    "calibration": "detected waves that are calibration pulses and unclassified",
    "intervals-not-confirmed": "most intervals between beats could not be confirmed: beats may be missing",
    "no-signal": "beats have no signal around them and are unclassified",
    "unusable-seconds": "stretches that cannot be used, with their seconds",
    "resampled": "another sampling frequency than the model's",
    "took-part": "the patient, or this very recording, took part in training",
    "never-seen-classes": "classes the model was never shown, or this patient never had",
    "far-beats": "beats that look like none the model was trained on",
    "uncertain-beats": "beats whose class is not as sure as was asked for",
    "unknown-training": "what the bundle does not say of its training, and nothing is warned of",
}
#: Share of out-of-distribution or low-confidence beats without a warning; 1% of training beats are out of distribution.
RARE = 0.05
#: How much of a recording's middle a second look is taken at, in seconds.
_LOOKED_AT_S = 300.0
#: Largest number of classes named in a sentence.
_MAX_NAMED = 6
#: Warnings of recordings for which the accuracy of high-confidence beats is unknown.
_UNFAMILIAR = {"no-ecg", "other-lead", "lead-by-place", "lead-not-scored", "units", "paced", "no-signal"}


@dataclass(frozen=True)
class ModelWarning:
    """A warning about predictions.

    Attributes:
        code: one of ``CODES``.
        text: one sentence.
        severe: reported at once; other warnings are stored with the result only.
    """

    code: str
    text: str
    severe: bool = False

    def as_json(self) -> dict[str, str]:
        """Return ``code`` and ``text``."""
        return {"code": self.code, "text": self.text}


def refuse_synthetic(bundle: Bundle, recording: Recording, *, force: bool) -> None:
    """Refuse a model of synthetic patients for a real recording, unless forced; raises BundleError."""
    if bundle.trained_on.synthetic and not force and not is_synthetic(recording) and not took_part(bundle, recording):
        raise BundleError(
            bundle.path,
            f"was trained on synthetic patients alone, and {recording.name} is not one of them",
            "a model trained on recordings of people",
            f"pass {param('force=True')} to predict anyway",
        )


def model_warnings(
    bundle: Bundle, beats: RecordingBeats, predictions: Predictions, patient: str | None
) -> tuple[ModelWarning, ...]:
    """Return the warnings about predictions, the most important first.

    Args:
        bundle: the bundle that predicted.
        beats: the recording's beats.
        predictions: their classes.
        patient: the patient whose personal model predicted, None for the global model.
    """
    recording_warnings = (*_lead_warnings(beats.recording, bundle), *_signal_warnings(bundle, beats, predictions))
    # a few beats without signal do not make a recording unfamiliar
    codes = {warning.code for warning in recording_warnings if warning.code != "no-signal" or warning.severe}
    return (
        *_synthetic_warnings(bundle),
        *_file_warnings(beats),
        *recording_warnings,
        *_reliability_warnings(bundle, predictions, patient, familiar=_UNFAMILIAR.isdisjoint(codes)),
        *_patient_warnings(bundle, beats.recording, patient),
        *_class_warnings(bundle, predictions, patient),
        *_metadata_warnings(bundle),
    )


def report_severe(warnings: tuple[ModelWarning, ...], progress: ProgressReporter) -> None:
    """Report severe warnings; the others are stored with the predictions only."""
    for warning in warnings:
        if warning.severe:
            progress.warn(f"{warning.text[0].lower()}{warning.text[1:].removesuffix('.')}")


def same_lead(recording: Recording, bundle: Bundle) -> str:
    """Return a note if the lead is the model's under another name (no warning), else ``""``."""
    name, how = best_match(bundle.leads, recording.lead)
    return f"Lead {recording.lead} is {name}, which the model was trained on." if how == NameMatch.LEAD else ""


def _synthetic_warnings(bundle: Bundle) -> Iterator[ModelWarning]:
    if bundle.trained_on.synthetic:
        yield ModelWarning(
            "synthetic-model",
            "The model was trained on synthetic patients alone: it shows that the software runs, and says nothing of "
            "a person's heart.",
        )


def _file_warnings(beats: RecordingBeats) -> Iterator[ModelWarning]:
    """Warn of the reader's notes: no calibration, missing parts, annotations beyond the end."""
    end = end_note(beats.annotation) if beats.annotation else ""
    for note in (*beats.recording.notes, *[end] * bool(end)):
        yield ModelWarning("file", f"{note[0].upper()}{note[1:]}.", severe=note.startswith("repaired"))


def _lead_warnings(recording: Recording, bundle: Bundle) -> Iterator[ModelWarning]:
    """Warn of leads that the model was not trained on, or never scored on."""
    trained, other_leads = bundle.leads, bundle.trained_on.other_leads
    lead, (name, how) = recording.lead, best_match(trained, recording.lead)
    positions = [trained_name for trained_name in trained if position_in(trained_name)]
    if problem := no_ecg(recording):
        yield ModelWarning("no-ecg", f"L{problem[1:]}", severe=True)
    if how == NameMatch.MODIFIED:
        text = f"Lead {lead} stands for {name}, which the model was trained on: its electrodes lie elsewhere."
        yield ModelWarning("modified-lead", text)
    elif how == NameMatch.OTHER and positions:
        text = f"The model was trained on lead {positions[0]} of its recordings, regardless of name; this is {lead}."
        yield ModelWarning("lead-by-place", text)
    elif how == NameMatch.OTHER and best_match(other_leads, lead)[1] != NameMatch.OTHER:
        text = f"Lead {lead} gave training examples only: the model's scores are of {' or '.join(trained)}."
        yield ModelWarning("lead-not-scored", text)
    elif how == NameMatch.OTHER:
        text = f"Lead {lead} is not {' or '.join(trained)}, which the model was trained on."
        yield ModelWarning("other-lead", text, severe=True)


def _signal_warnings(bundle: Bundle, beats: RecordingBeats, predictions: Predictions) -> Iterator[ModelWarning]:
    """Warn of units, pacing, beats without signal, poor quality, and resampling."""
    recording, count, quality = beats.recording, len(beats.r_samples), beats.quality
    if large := too_large([beats.size]):
        text = size_text(large)
        yield ModelWarning("units", f"{text[0].upper()}{text[1:]}", severe=True)
    if spans := beats.flutter:
        text = f"{flutter_text(spans, recording.fs_hz)}. Look at it first; a report counts nothing there."
        yield ModelWarning("flutter", text, severe=True)
    if paced := _paced(bundle, beats):
        yield ModelWarning("paced", paced, severe=True)
    if beats.pulses.any():
        yield ModelWarning("calibration", calibration_text(beats.pulses), severe=True)
    if empty := int((predictions.override == UNCLASSIFIED).sum() - beats.pulses.sum()):
        what = f"{empty:,} of {count:,} beats have no signal of {recording.lead} around them"
        advice = f"choose another lead with {param('leads')}, or see 'ecgfed inspect'"
        text = spelled(f"{what}: they are unclassified ({UNCLASSIFIED}); {advice}.")
        yield ModelWarning("no-signal", text, severe=empty > WARN_SHARE * count)
    if beats.detected:
        yield from _intervals_not_confirmed(beats)
    if bad := quality.seconds():
        reasons = ", ".join(f"{reason} {_seconds(total)}" for reason, total in bad.items())
        poor, lost_s = (
            int((predictions.flags & FLAG_POOR_QUALITY).astype(bool).sum()),
            recording.duration_s - quality.usable_s,
        )
        windows = f"The windows of {count_of(poor, 'beat')} reach" if poor else "No beat's window reaches"
        lost = f"{_seconds(lost_s).removesuffix(' s')} of {recording.duration_s:.1f} s cannot be used"
        text = f"{windows} into stretches of poor quality ({reasons}): {lost}; see 'ecgfed inspect'."
        yield ModelWarning("unusable-seconds", text)
    if recording.fs_hz != FS_HZ:
        text = f"The recording has {recording.fs_hz:g} Hz and was resampled to {FS_HZ:g} Hz, the model's."
        yield ModelWarning("resampled", text)


def _intervals_not_confirmed(beats: RecordingBeats) -> Iterator[ModelWarning]:
    """Warn if a second look at the middle of a recording confirms a minority of its intervals."""
    recording, r_samples = ecg_alone(beats.recording), beats.r_samples
    middle, half = recording.samples // 2, round(_LOOKED_AT_S / 2 * recording.fs_hz)
    start, stop = max(middle - half, 0), min(middle + half, recording.samples)
    inside = slice(*np.searchsorted(r_samples, [start, stop]).tolist())
    part = replace(recording, source=recording.read(start, stop))
    confirmed = second_look(part, r_samples[inside] - start, beats.pacing.beats[inside]).confirmed
    if (unconfirmed := int((~confirmed).sum())) > len(confirmed) / 2:
        yield ModelWarning("intervals-not-confirmed", not_confirmed_text(unconfirmed, len(confirmed)), severe=True)


def _paced(bundle: Bundle, beats: RecordingBeats) -> str:
    """Return a warning if the signal, the header or the annotation says that the rhythm is paced, else ``""``.

    An unreadable annotation is ignored. The header's text is not repeated (docs/privacy.md).
    """
    recording, annotation, pacing = beats.recording, beats.annotation, beats.pacing
    if pacing:
        what = "The rhythm is paced" if pacing.paced else "Some episodes are paced"
        seconds = paced_seconds(recording.duration_s, beats.r_samples / recording.fs_hz, pacing.beats)
        not_assessed = f"Atrial fibrillation and flutter were not assessed in {seconds:,.0f} s. " if seconds else ""
        return f"{what}: {pacing.text}. Paced beats have the symbol /. {not_assessed}{_trained_on_paced(bundle)}"
    if annotation is None and recording.files:
        try:
            annotation = read_annotation(recording) if has_annotation(recording) else None
        except (RecordError, OptionError):
            annotation = None
    findings = paced_rhythm(recording, annotation)
    if not findings:
        return ""
    source = "header" if findings[0].evidence["from"] == "header" else "annotation"
    return f"The {source} says that the rhythm is paced: paced beats may be assigned to another class."


def _trained_on_paced(bundle: Bundle) -> str:
    """Describe the model's training on paced beats."""
    name, counts = bundle.labels.symbols.get("/"), bundle.trained_on.class_counts
    advice = "the classes of the other beats are not to be relied on."
    if name is None or (counts is not None and not counts.get(name)):
        return f"The model was trained on no paced beat: {advice}"
    if any(symbol not in "/f" for symbol, of_class in bundle.labels.symbols.items() if of_class == name):
        return f"The model was not trained on paced beats as such, its class {name} includes other beats: {advice}"
    return f"Few patients' paced beats were in the model's training: {advice}"


def took_part(bundle: Bundle, recording: Recording, patient: str | None = None) -> bool:
    """Whether the model, or the patient's personal model, was trained on one of these files, whatever their names."""
    metadata = bundle.trained_on
    known = (metadata.recordings or frozenset()) | metadata.patient_recordings.get(patient or "", frozenset())
    return bool(known) and not known.isdisjoint(recording_digests(recording))


def _reliability_warnings(
    bundle: Bundle, predictions: Predictions, patient: str | None, *, familiar: bool
) -> Iterator[ModelWarning]:
    """Warn if more beats are out of distribution or of low confidence than in training.

    The accuracy of the remaining beats was measured on patients and leads of the training, so it is given only for a
    ``familiar`` recording most of whose beats are neither.
    """
    count = int(predictions.classified.sum())
    out_of_distribution, low_confidence = (
        int((predictions.out_of_distribution & predictions.classified).sum()),
        int((predictions.low_confidence & predictions.classified).sum()),
    )
    if out_of_distribution > RARE * count:
        share = f"{out_of_distribution:,} of {count:,} beats ({out_of_distribution / count:.0%})"
        text = f"{share} look like none that the model was trained on."
        yield ModelWarning("far-beats", text, severe=out_of_distribution > count / 2)
    if low_confidence > RARE * count:
        text = f"{low_confidence:,} of {count:,} beats ({low_confidence / count:.0%}) are uncertain"
        if low_confidence == count:
            pass  # no others
        elif not familiar or max(out_of_distribution, low_confidence) > count / 2:
            text += "; how many of the others are right is not known for such a recording"
        else:
            text += certain_share(bundle, patient)
        yield ModelWarning("uncertain-beats", f"{text}.")


def certain_share(bundle: Bundle, patient: str | None) -> str:
    """Return a clause with the share of certain beats that were right, and on whom; "" for an uncalibrated model."""
    accuracy = calibration_in(bundle.manifest, patient).accuracy
    if accuracy is None:
        return ""
    entry = (bundle.manifest["global"] if patient is None else bundle.manifest["patients"][patient])["certainty"]
    left_out = entry.get("fitted_on") is not None
    # of patients left out, what was measured on those that the threshold was not fitted on; of others no more than was
    # asked for, and less where no threshold reaches it
    kept = entry.get("kept_accuracy")
    share = kept if left_out or kept is None else min(kept, accuracy)
    own = patient is not None and entry.get("beats") == 0  # calibrated as the global model: few labels leave no beats
    if own or share is None:
        return "; how many of the others are right is not known" + f" of {patient}'s own model" * own
    whom = f"on patients that it {'did not learn' if left_out else 'learned'} from"
    return f"; {whom}, {round(100 * share, 1):g}% of beats as sure as the rest were right"


def _patient_warnings(bundle: Bundle, recording: Recording, patient: str | None) -> Iterator[ModelWarning]:
    if took_part(bundle, recording, patient):
        text = "The model was trained on beats of this very recording: performance on a new patient would be lower."
    elif patient is not None:
        text = f"Patient {patient} took part in training: performance on a new patient would be lower."
    elif recording.name in bundle.patients:
        text = f"A patient named {recording.name} took part in training: performance on a new patient would be lower."
    else:
        return
    yield ModelWarning("took-part", text)


def _class_warnings(bundle: Bundle, predictions: Predictions, patient: str | None) -> Iterator[ModelWarning]:
    """Warn of classes without training beats, and of predicted classes that this patient never had."""
    if unseen := bundle.trained_on.unseen_classes:
        yield ModelWarning(
            "never-seen-classes",
            f"The model was trained on no beat of {listed(unseen, _MAX_NAMED)}: it cannot know them.",
        )
    patient_classes = None if patient is None else bundle.trained_on.patient_classes.get(patient)
    if patient_classes is None:
        return
    if bundle.manifest["patients"][str(patient)].get("labels"):  # trained on these labels alone
        lacking = [name for name in bundle.classes if name not in patient_classes and name not in unseen]
        if lacking:
            lacking_names = listed(lacking, _MAX_NAMED)
            text = f"The model of {patient} learned from labels of {listed(patient_classes, _MAX_NAMED)} alone"
            yield ModelWarning(
                "never-seen-classes",
                f"{text}: it may miss every beat of {lacking_names}; a count of 0 does not rule them out.",
                severe=True,
            )
    unexpected = {
        name: count
        for name, count in predictions.counts.items()
        if count and name not in patient_classes and name not in unseen
    }
    if unexpected:
        counts = listed([f"{count:,} {name}" for name, count in unexpected.items()], _MAX_NAMED)
        text = f"Predicted, although {patient} had no such beats in training: {counts}."
        yield ModelWarning("never-seen-classes", text)


def _metadata_warnings(bundle: Bundle) -> Iterator[ModelWarning]:
    """Warn that the bundle lacks training metadata, so some checks were skipped."""
    metadata = bundle.trained_on
    if metadata.class_counts is None:
        text = (
            "This bundle was made by an older ecgfed and lacks training metadata: "
            "there are no warnings about patients and classes."
        )
        yield ModelWarning("unknown-training", text)
    elif metadata.recordings is None and not metadata.synthetic:
        text = "It is unknown whether this recording took part in training: the bundle holds no digests of recordings."
        yield ModelWarning("unknown-training", text)


def _seconds(seconds: float) -> str:
    """Return a length that is never rounded to nothing."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else "less than 0.1 s"
