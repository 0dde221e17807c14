"""What speaks against predictions: looked for once, kept beside them, the grave ones told to whoever looks on."""

from collections.abc import Iterator

from ecgfed.base.errors import BundleError, OptionError, RecordError
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.exclusions import WARN_SHARE
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY
from ecgfed.domain.beats.path import RecordingBeats
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.leads import NameMatch, best_match, position_in
from ecgfed.domain.record.reader import has_annotation, read_annotation
from ecgfed.domain.record.recording import AnyRecording, is_synthetic
from ecgfed.domain.signal.findings import paced_rhythm
from ecgfed.domain.signal.flutter import flutter_text
from ecgfed.domain.signal.size import size_text, too_large
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.calibration import calibration_in
from ecgfed.exports.device.model_warnings import ModelWarning
from ecgfed.exports.device.predictions import UNCLASSIFIED, Predictions
from ecgfed.tasks.records import no_ecg, recording_digests
from ecgfed.tasks.watch import Watch

#: So many far or uncertain beats are nothing to speak of: one in a hundred is far among those trained on.
SELDOM = 0.05
#: Classes that a sentence names.
_NAMED = 6
#: Doubts of a recording on which nothing says how often sure answers are right.
_UNLIKE = {"no-ecg", "other-lead", "lead-by-place", "units", "paced", "no-signal"}


def refuse_synthetic(bundle: Bundle, recording: AnyRecording, *, force: bool) -> None:
    """Refuse a model of made-up patients on a recording that is not made up, unless forced; raises BundleError."""
    if bundle.trained_on.synthetic and not force and not is_synthetic(recording) and not took_part(bundle, recording):
        raise BundleError(
            bundle.path,
            f"was trained on synthetic patients alone, and {recording.name} is not one of them",
            "a model trained on recordings of people",
            "pass --force to see what it says all the same",
        )


def doubts_of(
    bundle: Bundle, beats: RecordingBeats, found: Predictions, patient: str | None
) -> tuple[ModelWarning, ...]:
    """Return what speaks against the classes of a recording's beats, what weighs most first.

    Args:
        bundle: who said them.
        beats: the recording's beats.
        found: what was said.
        patient: whose own model it was, None for the global one.
    """
    strange = (*_of_the_lead(beats.recording, bundle.leads), *_of_the_signal(bundle, beats, found))
    unlike = (one.code for one in strange if one.code != "no-signal" or one.severe)  # a few beats change nothing
    return (
        *_of_the_model(bundle),
        *_of_the_file(beats),
        *strange,
        *_of_the_answers(bundle, found, patient, alike=_UNLIKE.isdisjoint(unlike)),
        *_of_the_patient(bundle, beats.recording, patient),
        *_of_the_classes(bundle, found, patient),
        *_unsaid(bundle),
    )


def warn_of(doubts: tuple[ModelWarning, ...], watch: Watch) -> None:
    """Tell the grave doubts as warnings; the others are read where the predictions are."""
    for doubt in doubts:
        if doubt.severe:
            watch.warn(f"{doubt.text[0].lower()}{doubt.text[1:].removesuffix('.')}")


def same_lead(recording: AnyRecording, bundle: Bundle) -> str:
    """Say that the lead is the model's under another name, where so: there is nothing to doubt in that."""
    name, how = best_match(bundle.leads, recording.lead)
    return f"Lead {recording.lead} is {name}, which the model was trained on." if how == NameMatch.LEAD else ""


def _of_the_model(bundle: Bundle) -> Iterator[ModelWarning]:
    if bundle.trained_on.synthetic:
        yield ModelWarning(
            "synthetic-model",
            "The model was trained on synthetic patients alone: it shows that the software runs, and says nothing of "
            "a person's heart.",
        )


def _of_the_file(beats: RecordingBeats) -> Iterator[ModelWarning]:
    """Pass on what the reader noted: no calibration, a part that is missing, annotations after the end."""
    end = end_note(beats.annotation) if beats.annotation else ""
    for note in (*beats.recording.notes, *[end] * bool(end)):
        yield ModelWarning("file", f"{note[0].upper()}{note[1:]}.", severe=note.startswith("repaired"))


def _of_the_lead(recording: AnyRecording, trained: tuple[str, ...]) -> Iterator[ModelWarning]:
    """Doubt another lead than the model's; of the same one under another name there is nothing to doubt."""
    lead, (name, how) = recording.lead, best_match(trained, recording.lead)
    places = [one for one in trained if position_in(one)]
    if amiss := no_ecg(recording):
        yield ModelWarning("no-ecg", f"L{amiss[1:]}", severe=True)
    if how == NameMatch.MODIFIED:
        text = f"Lead {lead} stands for {name}, which the model was trained on: its electrodes lie elsewhere."
        yield ModelWarning("modified-lead", text)
    elif how == NameMatch.OTHER and places:
        text = f"The model was trained on lead {places[0]} of its recordings, whatever its name; this is {lead}."
        yield ModelWarning("lead-by-place", text)
    elif how == NameMatch.OTHER:
        text = f"Lead {lead} is not {' or '.join(trained)}, which the model was trained on."
        yield ModelWarning("other-lead", text, severe=True)


def _of_the_signal(bundle: Bundle, beats: RecordingBeats, found: Predictions) -> Iterator[ModelWarning]:
    """Doubt units, pacing, windows that show nothing, bad stretches, and another sampling frequency."""
    recording, count, quality = beats.recording, len(beats.r_samples), beats.quality
    if large := too_large([beats.size]):
        said = size_text(large)
        yield ModelWarning("units", f"{said[0].upper()}{said[1:]}", severe=True)
    if spans := beats.flutter:
        text = f"{flutter_text(spans, recording.fs_hz)}. Look at it first; a report counts nothing there."
        yield ModelWarning("flutter", text, severe=True)
    if paced := _paced(bundle, beats):
        yield ModelWarning("paced", paced, severe=True)
    if empty := int((found.override == UNCLASSIFIED).sum()):
        what = f"{empty:,} of {count:,} beats have no signal of {recording.lead} around them"
        advice = f"they are unclassified ({UNCLASSIFIED}); choose another --lead, or see 'ecgfed inspect'"
        yield ModelWarning("no-signal", f"{what}: {advice}.", severe=empty > WARN_SHARE * count)
    if bad := quality.seconds():
        why = ", ".join(f"{reason} {total:.1f} s" for reason, total in bad.items())
        poor, lost_s = (
            int((found.flags & FLAG_POOR_QUALITY).astype(bool).sum()),
            recording.duration_s - quality.usable_s,
        )
        said = f"The windows of {count_of(poor, 'beat')} reach into stretches of poor quality ({why})"
        text = f"{said}: {lost_s:.1f} of {recording.duration_s:.1f} s cannot be used; see 'ecgfed inspect'."
        yield ModelWarning("unusable-seconds", text)
    if recording.fs_hz != FS_HZ:
        text = f"The recording has {recording.fs_hz:g} Hz and was resampled to {FS_HZ:g} Hz, the model's."
        yield ModelWarning("resampled", text)


def _paced(bundle: Bundle, beats: RecordingBeats) -> str:
    """Say that the rhythm is paced where the signal, the header or an annotation says so.

    An annotation that cannot be read says nothing. The header's own words stay where they are (docs/privacy.md).
    """
    recording, annotation, pacing = beats.recording, beats.annotation, beats.pacing
    if pacing:
        what = "The rhythm is paced" if pacing.paced else "Some episodes are paced"
        return f"{what}: {pacing.text}. Paced beats have the symbol /. {_trained_on_paced(bundle)}"
    if annotation is None and recording.files:
        try:
            annotation = read_annotation(recording) if has_annotation(recording) else None
        except (RecordError, OptionError):
            annotation = None
    found = paced_rhythm(recording, annotation)
    if not found:
        return ""
    who = "header" if found[0].evidence["from"] == "header" else "annotation"
    return f"The {who} says that the rhythm is paced: a paced beat may be called by another class's name."


def _trained_on_paced(bundle: Bundle) -> str:
    """Say what the model knows of paced beats."""
    name, counts = bundle.labels.symbols.get("/"), bundle.trained_on.class_counts
    others = "the classes of the other beats are not to be relied on."
    if name is None or (counts is not None and not counts.get(name)):
        return f"The model was trained on no paced beat: {others}"
    if any(symbol not in "/f" for symbol, of_class in bundle.labels.symbols.items() if of_class == name):
        return f"The model was not trained on paced beats as such, its class {name} holds others too: {others}"
    return f"Few patients' paced beats were in the model's training: {others}"


def took_part(bundle: Bundle, recording: AnyRecording, patient: str | None = None) -> bool:
    """Whether the model, or this patient's own, learned from one of these very files, whatever they are called now."""
    told = bundle.trained_on
    known = (told.recordings or frozenset()) | told.patient_recordings.get(patient or "", frozenset())
    return bool(known) and not known.isdisjoint(recording_digests(recording))


def _of_the_answers(bundle: Bundle, found: Predictions, patient: str | None, *, alike: bool) -> Iterator[ModelWarning]:
    """Doubt answers where more beats are far or uncertain than in training.

    How many of the others are right was counted on patients and leads that the model knows: it is said of no recording
    that is not ``alike``.
    """
    count = int(found.classified.sum())
    far, doubtful = (
        int((found.out_of_distribution & found.classified).sum()),
        int((found.low_confidence & found.classified).sum()),
    )
    if far > SELDOM * count:
        text = f"{far:,} of {count:,} beats ({far / count:.0%}) look like none that the model was trained on."
        yield ModelWarning("far-beats", text, severe=far > count / 2)
    if doubtful > SELDOM * count:
        certainty = calibration_in(bundle.manifest, patient)
        text = f"{doubtful:,} of {count:,} beats ({doubtful / count:.0%}) are uncertain"
        if not alike or far > count / 2:
            text += "; how many of the others are right is not known for such a recording"
        elif _borrowed(bundle, patient):
            text += f"; how many of the others are right is not known of {patient}'s own model"
        elif certainty.accuracy is not None:
            right = f"{100 * certainty.accuracy:g}% of beats as sure as the rest were right"
            text += f"; on patients that it learned from, {right}"
        yield ModelWarning("uncertain-beats", f"{text}.")


def _borrowed(bundle: Bundle, patient: str | None) -> bool:
    """Whether a patient's certainty is the global model's: a model of a few labels has no beats to measure its own."""
    entry = {} if patient is None else bundle.manifest["patients"].get(patient, {})
    return bool((entry.get("certainty") or {}).get("beats") == 0)


def _of_the_patient(bundle: Bundle, recording: AnyRecording, patient: str | None) -> Iterator[ModelWarning]:
    if took_part(bundle, recording, patient):
        text = "The model was trained on beats of this very recording: a new patient's would be classified less well."
    elif patient is not None:
        text = f"Patient {patient} took part in training: on a new patient the model would do less well."
    elif recording.name in bundle.patients:
        text = f"A patient called {recording.name} took part in training; a new one would fare less well."
    else:
        return
    yield ModelWarning("took-part", text)


def _of_the_classes(bundle: Bundle, found: Predictions, patient: str | None) -> Iterator[ModelWarning]:
    """Doubt classes that nobody in training had, and answers of a class that this patient never had."""
    if never := bundle.trained_on.unseen_classes:
        yield ModelWarning(
            "never-seen-classes", f"The model was trained on no beat of {listed(never, _NAMED)}: it cannot know them."
        )
    own = None if patient is None else bundle.trained_on.patient_classes.get(patient)
    if own is None:
        return
    if bundle.manifest["patients"][str(patient)].get("labels"):  # nothing but those labels stands behind it
        lacking = [name for name in bundle.classes if name not in own and name not in never]
        if lacking:
            text = (
                f"The model of {patient} learned from labels of {listed(own, _NAMED)} alone: it may miss every beat of"
            )
            yield ModelWarning(
                "never-seen-classes", f"{text} {listed(lacking, _NAMED)}, and a count of 0 says nothing.", severe=True
            )
    new = {name: count for name, count in found.counts.items() if count and name not in own and name not in never}
    if new:
        said = listed([f"{count:,} {name}" for name, count in new.items()], _NAMED)
        text = f"Called here, though {patient} had no such beat in training: {said}."
        yield ModelWarning("never-seen-classes", text)


def _unsaid(bundle: Bundle) -> Iterator[ModelWarning]:
    """Say what the bundle does not: of that nobody is warned."""
    known = bundle.trained_on
    if known.class_counts is None:
        text = (
            "This bundle is of an older ecgfed: it does not say who and which classes it was trained on, so nothing is "
            "warned of that."
        )
        yield ModelWarning("unknown-training", text)
    elif known.recordings is None and not known.synthetic:
        text = "Whether this recording took part in training is not known: the bundle holds no digests of recordings."
        yield ModelWarning("unknown-training", text)
