"""Warnings about predictions: computed once, stored with the result; severe ones are reported at once.

A warning is not an error. Some depend on a bundle's training metadata (``trained_on`` of the manifest); if an older
bundle lacks it, that is a warning too.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ecgfed.base.errors import BundleError, OptionError, RecordError, param
from ecgfed.base.language import (
    Message,
    Spelled,
    capitalized,
    joined_message,
    message,
    messages,
    tr_later,
    uncapitalized,
)
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
from ecgfed.tasks.training_warnings import (
    ModelWarning,
    class_warnings,
    metadata_warnings,
    patient_warnings,
    synthetic_warnings,
    took_part,
    trained_on_paced,
)

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
#: Shorter times are below what is displayed, in seconds.
_SHOWN_S = 0.05
#: Warnings of recordings for which the accuracy of high-confidence beats is unknown.
_UNFAMILIAR = {"no-ecg", "other-lead", "lead-by-place", "lead-not-scored", "units", "paced", "no-signal"}


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
        *synthetic_warnings(bundle),
        *_file_warnings(beats),
        *recording_warnings,
        *_reliability_warnings(bundle, predictions, patient, familiar=_UNFAMILIAR.isdisjoint(codes)),
        *patient_warnings(bundle, beats.recording, patient),
        *class_warnings(bundle, predictions, patient),
        *metadata_warnings(bundle),
    )


def report_severe(warnings: tuple[ModelWarning, ...], progress: ProgressReporter) -> None:
    """Report severe warnings; the others are stored with the predictions only."""
    for warning in warnings:
        if warning.severe:
            progress.warn(uncapitalized(warning.text).removesuffix("."))


def same_lead(recording: Recording, bundle: Bundle) -> str:
    """Return a note if the lead is the model's under another name (no warning), else ``""``."""
    name, how = best_match(bundle.leads, recording.lead)
    text = message("Lead {lead} is {name}, which the model was trained on.", lead=recording.lead, name=name)
    return text if how == NameMatch.LEAD else ""


def _file_warnings(beats: RecordingBeats) -> Iterator[ModelWarning]:
    """Warn of the reader's notes: no calibration, missing parts, annotations beyond the end."""
    end = end_note(beats.annotation) if beats.annotation else ""
    for note in (*beats.recording.notes, *[end] * bool(end)):
        yield ModelWarning(
            "file", message("{sentence}.", sentence=capitalized(note)), severe=note.startswith("repaired")
        )


def _lead_warnings(recording: Recording, bundle: Bundle) -> Iterator[ModelWarning]:
    """Warn of leads that the model was not trained on, or never scored on."""
    trained, other_leads = bundle.leads, bundle.trained_on.other_leads
    lead, (name, how) = recording.lead, best_match(trained, recording.lead)
    positions = [trained_name for trained_name in trained if position_in(trained_name)]
    any_of = joined_message(trained, message(" or "))
    if problem := no_ecg(recording):
        yield ModelWarning("no-ecg", capitalized(problem), severe=True)
    if how == NameMatch.MODIFIED:
        text = message(
            "Lead {lead} stands for {name}, which the model was trained on: its electrodes lie elsewhere.",
            lead=lead,
            name=name,
        )
        yield ModelWarning("modified-lead", text)
    elif how == NameMatch.OTHER and positions:
        text = message(
            "The model was trained on lead {place} of its recordings, regardless of name; this is {lead}.",
            place=positions[0],
            lead=lead,
        )
        yield ModelWarning("lead-by-place", text)
    elif how == NameMatch.OTHER and best_match(other_leads, lead)[1] != NameMatch.OTHER:
        text = message(
            "Lead {lead} gave training examples only: the model's scores are of {leads}.", lead=lead, leads=any_of
        )
        yield ModelWarning("lead-not-scored", text)
    elif how == NameMatch.OTHER:
        text = message("Lead {lead} is not {leads}, which the model was trained on.", lead=lead, leads=any_of)
        yield ModelWarning("other-lead", text, severe=True)


def _signal_warnings(bundle: Bundle, beats: RecordingBeats, predictions: Predictions) -> Iterator[ModelWarning]:
    """Warn of units, pacing, beats without signal, poor quality, and resampling."""
    recording, count, quality = beats.recording, len(beats.r_samples), beats.quality
    if large := too_large([beats.size]):
        yield ModelWarning("units", capitalized(size_text(large)), severe=True)
    if spans := beats.flutter:
        flutter = flutter_text(spans, recording.fs_hz)
        text = message("{sentence}. Look at it first; a report counts nothing there.", sentence=flutter)
        yield ModelWarning("flutter", text, severe=True)
    if paced := _paced(bundle, beats):
        yield ModelWarning("paced", paced, severe=True)
    if beats.pulses.any():
        yield ModelWarning("calibration", calibration_text(beats.pulses), severe=True)
    if empty := int((predictions.override == UNCLASSIFIED).sum() - beats.pulses.sum()):
        text = message(
            "{n} of {total} beats have no signal of {lead} around them: they are unclassified ({symbol}); choose "
            "another lead with {option}, or see 'ecgfed inspect'.",
            n=empty,
            total=count,
            lead=recording.lead,
            symbol=UNCLASSIFIED,
            option=Spelled(param("leads")),
        )
        yield ModelWarning("no-signal", text, severe=empty > WARN_SHARE * count)
    if beats.detected:
        yield from _intervals_not_confirmed(beats)
    if bad := quality.seconds():
        reasons = [
            message("{reason} {seconds}", reason=message(reason), seconds=_seconds(total))
            for reason, total in bad.items()
        ]
        lost_s, total_s = recording.duration_s - quality.usable_s, recording.duration_s
        lost = message("less than 0.1 of {total:.1f} s cannot be used", total=total_s)
        if lost_s >= _SHOWN_S:
            lost = message("{seconds:.1f} of {total:.1f} s cannot be used", seconds=lost_s, total=total_s)
        values = {"reasons": joined_message(reasons, ", "), "lost": lost}
        text = message(
            "No beat's window reaches into stretches of poor quality ({reasons}): {lost}; see 'ecgfed inspect'.",
            **values,
        )
        if poor := int((predictions.flags & FLAG_POOR_QUALITY).astype(bool).sum()):
            text = messages(
                "The windows of {n} beat reach into stretches of poor quality ({reasons}): {lost}; see 'ecgfed "
                "inspect'.",
                "The windows of {n} beats reach into stretches of poor quality ({reasons}): {lost}; see 'ecgfed "
                "inspect'.",
                poor,
                **values,
            )
        yield ModelWarning("unusable-seconds", text)
    if recording.fs_hz != FS_HZ:
        text = message(
            "The recording has {fs:g} Hz and was resampled to {model:g} Hz, the model's.",
            fs=recording.fs_hz,
            model=FS_HZ,
        )
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


_PACED = {
    (True, True): tr_later(
        "The rhythm is paced: {evidence}. Paced beats have the symbol /. Atrial fibrillation and flutter were not "
        "assessed in {seconds:,.0f} s. {training}"
    ),
    (True, False): tr_later("The rhythm is paced: {evidence}. Paced beats have the symbol /. {training}"),
    (False, True): tr_later(
        "Some episodes are paced: {evidence}. Paced beats have the symbol /. Atrial fibrillation and flutter were not "
        "assessed in {seconds:,.0f} s. {training}"
    ),
    (False, False): tr_later("Some episodes are paced: {evidence}. Paced beats have the symbol /. {training}"),
}


def _paced(bundle: Bundle, beats: RecordingBeats) -> str:
    """Return a warning if the signal, the header or the annotation says that the rhythm is paced, else ``""``.

    An unreadable annotation is ignored. The header's text is not repeated (docs/privacy.md).
    """
    recording, annotation, pacing = beats.recording, beats.annotation, beats.pacing
    if pacing:
        values = {"evidence": pacing.text, "training": trained_on_paced(bundle)}
        seconds = paced_seconds(recording.duration_s, beats.r_samples / recording.fs_hz, pacing.beats)
        text = _PACED[pacing.paced, bool(seconds)]
        return message(text, seconds=seconds, **values) if seconds else message(text, **values)
    if annotation is None and recording.files:
        try:
            annotation = read_annotation(recording) if has_annotation(recording) else None
        except (RecordError, OptionError):
            annotation = None
    findings = paced_rhythm(recording, annotation)
    if not findings:
        return ""
    if findings[0].evidence["from"] == "header":
        return message("The header says that the rhythm is paced: paced beats may be assigned to another class.")
    return message("The annotation says that the rhythm is paced: paced beats may be assigned to another class.")


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
        text = message(
            "{n} of {total} beats ({share:.0%}) look like none that the model was trained on.",
            n=out_of_distribution,
            total=count,
            share=out_of_distribution / count,
        )
        yield ModelWarning("far-beats", text, severe=out_of_distribution > count / 2)
    if low_confidence > RARE * count:
        others: str = certain_share(bundle, patient)
        if low_confidence == count:
            others = ""
        elif not familiar or max(out_of_distribution, low_confidence) > count / 2:
            others = message("; how many of the others are right is not known for such a recording")
        text = message(
            "{n} of {total} beats ({share:.0%}) are uncertain{others}.",
            n=low_confidence,
            total=count,
            share=low_confidence / count,
            others=others,
        )
        yield ModelWarning("uncertain-beats", text)


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
        if own:
            return message("; how many of the others are right is not known of {patient}'s own model", patient=patient)
        return message("; how many of the others are right is not known")
    percent = round(100 * share, 1)
    if left_out:
        return message(
            "; on patients that it did not learn from, {percent:g}% of beats as sure as the rest were right",
            percent=percent,
        )
    return message(
        "; on patients that it learned from, {percent:g}% of beats as sure as the rest were right", percent=percent
    )


def _seconds(seconds: float) -> Message:
    """Return a length that is never rounded to nothing."""
    return message("{seconds:.1f} s", seconds=seconds) if seconds >= _SHOWN_S else message("less than 0.1 s")
