"""What speaks against an answer: doubts, each with a code that stays and one plain sentence; and what a model is of.

A doubt is no error. What a bundle says of its training (``trained_on`` of the manifest) decides some of them; bundles
from before it was written say less, and then that is a doubt of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Every code there is, and what it means; a script may rely on them.
CODES: dict[str, str] = {
    "synthetic-model": "the model was trained on made-up patients; refused on other recordings unless forced",
    "no-ecg": "the lead is no ECG by its name",
    "other-lead": "another lead than those the model was trained on",
    "modified-lead": "the trained lead with its electrodes elsewhere: II where MLII is wanted",
    "lead-by-place": "the model was trained on a place among a recording's channels, whatever its name",
    "units": "the QRS is higher than any electrode gives",
    "paced": "the header, the annotation or the signal says that the rhythm is paced, all of it or in episodes",
    "no-signal": "beats have no signal around them and are unclassified",
    "unusable-seconds": "stretches that cannot be used, with their seconds",
    "resampled": "another sampling frequency than the model's",
    "took-part": "the patient, or this very recording, took part in training",
    "never-seen-classes": "classes the model was never shown, or this patient never had",
    "far-beats": "beats that look like none the model was trained on",
    "uncertain-beats": "beats whose class is not as sure as was asked for",
    "unknown-training": "what the bundle does not say of its training, and nothing is warned of",
}


@dataclass(frozen=True)
class Doubt:
    """One thing to keep in mind beside predictions.

    Attributes:
        code: one of ``CODES``; it stays what it is.
        text: one plain sentence.
        grave: worth a warning while the work goes on; the others are read beside the result.
    """

    code: str
    text: str
    grave: bool = False

    def as_json(self) -> dict[str, str]:
        """Return ``code`` and ``text``."""
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True)
class TrainedOn:
    """What a manifest says of its training; None is what it does not say.

    Attributes:
        synthetic: every patient was made up.
        class_counts: training beats of each class.
        recordings: SHA-256 of the files of the recordings that took part; None also where names were to leave.
        patient_classes: patient -> the classes of its training beats.
        patient_recordings: patient -> SHA-256 of the files that its own model alone learned from, where it says so.
    """

    synthetic: bool | None
    class_counts: Mapping[str, int] | None
    recordings: frozenset[str] | None
    patient_classes: Mapping[str, tuple[str, ...]]
    patient_recordings: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def never_seen(self) -> tuple[str, ...]:
        """Classes without a training beat; none where the counts are not known."""
        return tuple(name for name, count in (self.class_counts or {}).items() if not count)


def trained_on(manifest: Mapping[str, Any]) -> TrainedOn:
    """Read what a manifest says of its training.

    A bundle of synthetic patients is known by its cohort's kind too, as older bundles have it.

    Raises:
        TypeError, ValueError: a part that is not of its form.
    """
    said, cohort = manifest.get("trained_on"), manifest.get("cohort")
    demo = isinstance(cohort, Mapping) and cohort.get("kind") == "demo"
    own = {
        client: _names(entry["classes"])
        for client, entry in manifest["patients"].items()
        if entry.get("classes") is not None
    }
    files = {
        client: frozenset(_names(entry["recordings"]))
        for client, entry in manifest["patients"].items()
        if entry.get("recordings") is not None
    }
    if said is None:
        return TrainedOn(True if demo else None, None, None, own, files)
    if not isinstance(said, Mapping) or not isinstance(said["synthetic"], bool):
        raise TypeError("trained_on in its form")
    counts, recordings = said["class_counts"], said["recordings"]
    classes = list(manifest["label_map"]["classes"])
    if not isinstance(counts, Mapping) or set(counts) != set(classes) or not all(map(_is_count, counts.values())):
        raise TypeError("class_counts of trained_on in their form")
    if any(set(names) - set(classes) for names in own.values()):
        raise ValueError("classes of a patient that are the bundle's")
    digests = None if recordings is None else frozenset(_names(recordings))
    return TrainedOn(said["synthetic"] or demo, dict(counts), digests, own, files)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError("a list of names")
    return tuple(value)
