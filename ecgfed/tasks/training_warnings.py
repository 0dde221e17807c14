"""Warnings about a model's training: synthetic patients, paced beats, patients and classes in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ecgfed.base.language import Message, joined_message, message
from ecgfed.domain.record.recording import Recording
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.records import recording_digests

#: Largest number of classes named in a sentence.
_MAX_NAMED = 6


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


def took_part(bundle: Bundle, recording: Recording, patient: str | None = None) -> bool:
    """Whether the model, or the patient's personal model, was trained on one of these files, whatever their names."""
    metadata = bundle.trained_on
    known = (metadata.recordings or frozenset()) | metadata.patient_recordings.get(patient or "", frozenset())
    return bool(known) and not known.isdisjoint(recording_digests(recording))


def synthetic_warnings(bundle: Bundle) -> Iterator[ModelWarning]:
    """Warn of a model of synthetic patients alone."""
    if bundle.trained_on.synthetic:
        yield ModelWarning(
            "synthetic-model",
            message(
                "The model was trained on synthetic patients alone: it shows that the software runs, and says nothing "
                "of a person's heart."
            ),
        )


def trained_on_paced(bundle: Bundle) -> Message:
    """Describe the model's training on paced beats."""
    name, counts = bundle.labels.symbols.get("/"), bundle.trained_on.class_counts
    if name is None or (counts is not None and not counts.get(name)):
        return message(
            "The model was trained on no paced beat: the classes of the other beats are not to be relied on."
        )
    if any(symbol not in "/f" for symbol, of_class in bundle.labels.symbols.items() if of_class == name):
        return message(
            "The model was not trained on paced beats as such, its class {name} includes other beats: the classes of "
            "the other beats are not to be relied on.",
            name=name,
        )
    return message(
        "Few patients' paced beats were in the model's training: the classes of the other beats are not to be relied "
        "on."
    )


def patient_warnings(bundle: Bundle, recording: Recording, patient: str | None) -> Iterator[ModelWarning]:
    """Warn that the patient or the recording took part in training."""
    if took_part(bundle, recording, patient):
        text = message(
            "The model was trained on beats of this very recording: performance on a new patient would be lower."
        )
    elif patient is not None:
        text = message(
            "Patient {patient} took part in training: performance on a new patient would be lower.", patient=patient
        )
    elif recording.name in bundle.patients:
        text = message(
            "A patient named {patient} took part in training: performance on a new patient would be lower.",
            patient=recording.name,
        )
    else:
        return
    yield ModelWarning("took-part", text)


def class_warnings(bundle: Bundle, predictions: Predictions, patient: str | None) -> Iterator[ModelWarning]:
    """Warn of classes without training beats, and of predicted classes that this patient never had."""
    if unseen := bundle.trained_on.unseen_classes:
        yield ModelWarning(
            "never-seen-classes",
            message("The model was trained on no beat of {classes}: it cannot know them.", classes=_listed(unseen)),
        )
    patient_classes = None if patient is None else bundle.trained_on.patient_classes.get(patient)
    if patient_classes is None:
        return
    if bundle.manifest["patients"][str(patient)].get("labels"):  # trained on these labels alone
        lacking = [name for name in bundle.classes if name not in patient_classes and name not in unseen]
        if lacking:
            text = message(
                "The model of {patient} learned from labels of {classes} alone: it may miss every beat of {missing}; a "
                "count of 0 does not rule them out.",
                patient=patient,
                classes=_listed(patient_classes),
                missing=_listed(lacking),
            )
            yield ModelWarning("never-seen-classes", text, severe=True)
    unexpected = {
        name: count
        for name, count in predictions.counts.items()
        if count and name not in patient_classes and name not in unseen
    }
    if unexpected:
        text = message(
            "Predicted, although {patient} had no such beats in training: {counts}.",
            patient=patient,
            counts=_listed([message("{n} {name}", n=count, name=name) for name, count in unexpected.items()]),
        )
        yield ModelWarning("never-seen-classes", text)


def metadata_warnings(bundle: Bundle) -> Iterator[ModelWarning]:
    """Warn that the bundle lacks training metadata, so some checks were skipped."""
    metadata = bundle.trained_on
    if metadata.class_counts is None:
        text = message(
            "This bundle was made by an older ecgfed and lacks training metadata: there are no warnings about patients "
            "and classes."
        )
        yield ModelWarning("unknown-training", text)
    elif metadata.recordings is None and not metadata.synthetic:
        text = message(
            "It is unknown whether this recording took part in training: the bundle holds no digests of recordings."
        )
        yield ModelWarning("unknown-training", text)


def _listed(names: Sequence[str]) -> Message:
    """Return a list of names, at most ``_MAX_NAMED`` of them."""
    first = joined_message(names[:_MAX_NAMED], ", ")
    return message("{listed} and {n} more", listed=first, n=len(names) - _MAX_NAMED) if names[_MAX_NAMED:] else first
