"""Metadata about a model's training in the manifest of a bundle (``trained_on``); older bundles lack it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainingMetadata:
    """Training metadata of a manifest; None if unknown.

    Attributes:
        synthetic: all patients are synthetic.
        class_counts: training beats per class.
        recordings: SHA-256 of the files of the training recordings; None also for anonymised cohorts.
        patient_classes: patient -> classes of its training beats.
        other_leads: leads that gave further training examples, and are in no score.
        patient_recordings: patient -> SHA-256 of the files that only its own model was trained on, if known.
        epoch_counts: training examples per class that an epoch draws, of a model trained with ``most_per_class``.
    """

    synthetic: bool | None
    class_counts: Mapping[str, int] | None
    recordings: frozenset[str] | None
    patient_classes: Mapping[str, tuple[str, ...]]
    patient_recordings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    epoch_counts: Mapping[str, int] | None = None
    other_leads: tuple[str, ...] = ()

    @property
    def unseen_classes(self) -> tuple[str, ...]:
        """Classes without training beats; empty if the counts are unknown."""
        return tuple(name for name, count in (self.class_counts or {}).items() if not count)


def read_training_metadata(manifest: Mapping[str, Any]) -> TrainingMetadata:
    """Read the training metadata of a manifest.

    In older bundles, synthetic patients are recognised by the kind of the cohort.

    Raises:
        TypeError, ValueError: malformed metadata.
    """
    stored, cohort = manifest.get("trained_on"), manifest.get("cohort")
    demo = isinstance(cohort, Mapping) and cohort.get("kind") == "demo"
    patient_classes = {
        client: _names(entry["classes"])
        for client, entry in manifest["patients"].items()
        if entry.get("classes") is not None
    }
    files = {
        client: frozenset(_names(entry["recordings"]))
        for client, entry in manifest["patients"].items()
        if entry.get("recordings") is not None
    }
    if stored is None:
        return TrainingMetadata(True if demo else None, None, None, patient_classes, files)
    if not isinstance(stored, Mapping) or not isinstance(stored["synthetic"], bool):
        raise TypeError("trained_on in its form")
    recordings, classes = stored["recordings"], list(manifest["label_map"]["classes"])
    counts = _counts(stored, "class_counts", classes)
    epoch_counts = _counts(stored, "epoch_counts", classes) if "epoch_counts" in stored else None
    others = stored.get("other_leads", {})
    if not isinstance(others, Mapping) or not all(map(_is_count, others.values())):
        raise TypeError("other_leads of trained_on in their form")
    if any(set(names) - set(classes) for names in patient_classes.values()):
        raise ValueError("classes of a patient that are the bundle's")
    digests = None if recordings is None else frozenset(_names(recordings))
    return TrainingMetadata(
        stored["synthetic"] or demo, counts, digests, patient_classes, files, epoch_counts, tuple(others)
    )


def _counts(stored: Mapping[str, Any], name: str, classes: list[str]) -> dict[str, int]:
    counts = stored[name]
    if not isinstance(counts, Mapping) or set(counts) != set(classes) or not all(map(_is_count, counts.values())):
        raise TypeError(f"{name} of trained_on in their form")
    return dict(counts)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of names")
    return tuple(value)
