"""Result of ``personalize --labels``: a personal model, its cross-validation, and a label for every beat."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import deprecated, renamed_fields, renamed_imports
from ecgfed.base.language import Message, capitalized, joined_message, message, messages, name_message, tr_later
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.labels.contested import Contested
from ecgfed.domain.labels.enough import Enough
from ecgfed.domain.labels.label_errors import LEVEL
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.markup import ELAPSED, PageTime
from ecgfed.tasks.cross_validation import CrossValidation
from ecgfed.tasks.matched_labels import MatchedLabels
from ecgfed.tasks.propagated_labels import PropagatedLabels

#: Exported model -> its name in messages.
MODEL_NAMES = {
    "personal": tr_later("the personal model"),
    "global": tr_later("the global model, unchanged"),
    "scratch": tr_later("a model from scratch on the same labels"),
}
#: Predictor in the cross-validation -> its name in messages.
PREDICTOR_NAMES = {
    "groups": tr_later("groups"),
    "personal": tr_later("personal model"),
    "global": tr_later("global model"),
    "scratch": tr_later("from scratch"),
}
__getattr__ = renamed_imports(__name__, "0.3", "0.5", OwnModel=f"{__name__}:LabelPersonalization")


@renamed_fields("0.3", "0.5", answered="user_labels", kept="exported", about="metadata")
@dataclass(frozen=True, repr=False, eq=False)
class LabelPersonalization:
    """A personal model trained on a few labels, and the propagated labels of the recording.

    Attributes:
        patient: name of the model in the bundle.
        bundle: the bundle with the model.
        labels: the label of every beat, with its source.
        user_labels: the labels given by the person, matched with beats.
        exported: the exported model, a key of ``MODEL_NAMES``.
        checked: the cross-validation, or None with too few labels.
        unchecked: what could not be checked, a sentence, or ``""``.
        enough: whether there are enough labels, and where to label next.
        contested: labels that should be confirmed.
        files: the files with the propagated labels.
        metadata: JSON-ready: record, recording (its id), lead, personal, minutes, seed, started_from, warnings,
            excluded.
        r_samples: (beats,) int64 R peaks of the beats whose lead shows a signal: ``user_labels``, ``enough`` and
            ``contested`` number the beats by them.
    """

    patient: str
    bundle: Bundle
    labels: PropagatedLabels
    user_labels: MatchedLabels
    exported: str
    checked: CrossValidation | None
    unchecked: str
    enough: Enough
    contested: list[Contested]
    files: tuple[Path, ...]
    metadata: dict[str, Any]
    r_samples: NDArray[np.int64]

    def __repr__(self) -> str:
        name, labels = shortened(self.patient, 60), count_of(len(self.user_labels.label), "label")
        beats = count_of(len(self.labels.sample), "beat")
        return f"LabelPersonalization({name!r}: {labels} -> {beats}; {MODEL_NAMES[self.exported]})"

    def sentences(self) -> list[Message]:
        """Return the results and the beats to label next, as lines of text, which a page translates."""
        checked, sentences = self.checked, list[Message]()
        if checked is not None:
            right = _each(checked.right)
            sentences.append(
                messages(
                    "Of {n} label held back in turn, in {folds} blocks of time, right: {right}.",
                    "Of {n} labels held back in turn, in {folds} blocks of time, right: {right}.",
                    checked.labels,
                    folds=checked.folds,
                    right=right,
                )
                if checked.by_time
                else messages(
                    "Of {n} label held back in turn, right: {right}.",
                    "Of {n} labels held back in turn, right: {right}.",
                    checked.labels,
                    right=right,
                )
            )
        if self.unchecked:
            sentences.append(message("{sentence}.", sentence=capitalized(self.unchecked)))
        sentences.extend(self._lowered())
        sentences.append(self._in_bundle())
        sentences.append(self._expected())
        for entry in self.to_confirm():
            sentences.append(
                messages(
                    "- Confirm {label} at {time} ({n} beat; most like the {rival} at {rival_time}).",
                    "- Confirm {label} at {time} ({n} beats; most like the {rival} at {rival_time}).",
                    entry["beats"],
                    label=entry["label"],
                    time=PageTime(ELAPSED, entry["time_s"]),
                    rival=entry["most_like_label"],
                    rival_time=PageTime(ELAPSED, entry["most_like_time_s"]),
                )
            )
        for entry in self.next_labels():
            sentences.append(
                messages(
                    "- Label next at {time} (an expected {wrong} of {n} beat).",
                    "- Label next at {time} (an expected {wrong} of {n} beats).",
                    entry["beats"],
                    time=PageTime(ELAPSED, entry["time_s"]),
                    wrong=round(entry["expected_wrong"]) or message("less than one"),
                )
            )
        return sentences

    def _in_bundle(self) -> Message:
        """Name the exported model, and why it is; without a reason if another is estimated to be as good."""
        checked, exported = self.checked, self.exported
        model = name_message(MODEL_NAMES[exported])
        if checked is None or checked.best != exported:
            return message("In the bundle: {model}.", model=model)
        as_good = [name for name in ("personal", "scratch") if checked.estimate(name) >= checked.estimate(exported)]
        if any(checked.lowered(name) for name in as_good):
            return message("In the bundle: {model}.", model=model)
        if checked.by_time and exported == "global":
            return message("In the bundle: {model}: no other gains on it by more than chance.", model=model)
        if checked.by_time:
            return message("In the bundle: {model}: it gains on the global one by more than chance.", model=model)
        estimates = {name: checked.estimate(name) for name in ("personal", "global", "scratch")}
        return message(
            "In the bundle: {model}, with the highest estimate of right labels once all are learned ({right}).",
            model=model,
            right=_each(estimates),
        )

    def _lowered(self) -> list[Message]:
        """Describe the classes for which a model lowers the global model's sensitivity in cross-validation."""
        if self.checked is None:
            return []
        sentences = []
        for name in ("personal", "scratch"):
            for class_name in self.checked.lowered(name):
                result = self.checked.by_class[class_name]
                sentences.append(
                    messages(
                        "Of {n} label {name} held back, {model} had {right} right and the global model {global_right}: "
                        "it lowers the sensitivity for {name} and is not used.",
                        "Of {n} labels {name} held back, {model} had {right} right and the global model "
                        "{global_right}: it lowers the sensitivity for {name} and is not used.",
                        result.labels,
                        name=class_name,
                        model=name_message(MODEL_NAMES[name]),
                        right=result.right[name],
                        global_right=result.right["global"],
                    )
                )
        return sentences

    def _expected(self) -> Message:
        """Describe the expected number of wrong labels and whether it is low enough."""
        enough, expected = self.enough, self.enough.expected
        part = messages(
            "{wrong:,.0f} of {n} beat ({share:.1%}; 90% interval {low} to {high})",
            "{wrong:,.0f} of {n} beats ({share:.1%}; 90% interval {low} to {high})",
            enough.beats,
            wrong=expected.beats,
            share=enough.share,
            low=expected.low,
            high=expected.high,
        )
        if not self.metadata["groups_trusted"]:  # the estimate is for propagated labels, which are not used
            return message(
                "{part} would be expected to have a wrong label if each took its group's: more labels would help.",
                part=part,
            )
        if not enough.enough:
            return message("{part} are expected to have a wrong label: more labels would help.", part=part)
        if self.metadata["warnings"]:
            return message(
                "{part} are expected to have a wrong label: see the warnings before you rely on that.", part=part
            )
        return message("{part} are expected to have a wrong label: enough by this estimate.", part=part)

    def to_confirm(self) -> list[dict[str, Any]]:
        """Return the labels to confirm: the beat, its label, the number of beats with it, and the most similar beat."""
        label = self.user_labels.label
        return [
            {
                **self._at(entry.beat),
                "label": label[entry.beat],
                "beats": entry.beats,
                **{f"most_like_{key}": value for key, value in self._at(entry.rival).items()},
                "most_like_label": label[entry.rival],
            }
            for entry in self.contested
        ]

    def _at(self, beat: int) -> dict[str, Any]:
        """Return sample and time of a beat."""
        sample = int(self.r_samples[beat])
        return {"sample": sample, "time_s": round(sample / self.labels.recording.fs_hz, 3)}

    def next_labels(self) -> list[dict[str, Any]]:
        """Return the beats to label next: sample, time, size of the group, expected number of wrong labels."""
        return [
            {**self._at(suggestion.beat), "beats": suggestion.beats, "expected_wrong": round(suggestion.wrong, 1)}
            for suggestion in self.enough.suggestions
        ]

    @deprecated("0.3", "0.5", "next_labels")
    def places(self) -> list[dict[str, Any]]:
        """Return ``next_labels()``."""
        return self.next_labels()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready summary without the beats."""
        enough, checked, wrong = self.enough, self.checked, self.enough.expected
        expected = {
            "beats": round(wrong.beats, 1),
            "low": wrong.low,
            "high": wrong.high,
            "level": LEVEL,
            "of": enough.beats,
        }
        return {
            **self.metadata,
            "patient": self.patient,
            "bundle": str(self.bundle.path),
            "kept": self.exported,
            "labels": self.user_labels.counts,
            "labels_at_no_beat": self.user_labels.unmatched,
            "labels_too_late": self.user_labels.past_minutes,
            "labels_without_signal": len(self.user_labels.without_signal),
            "held_back": None if checked is None else cross_validation_dict(checked),
            "unchecked": self.unchecked or None,
            "beats": len(self.labels.sample),
            "beats_by_source": self.labels.by_source(),
            "beats_by_symbol": self.labels.by_symbol(),
            "uncertain_beats": int(self.labels.uncertain.sum()),
            "expected_wrong": {**expected, "without_a_label": enough.unsaid, "enough": enough.enough},
            "label_next": self.next_labels(),
            "confirm": self.to_confirm(),
            "files": [str(file) for file in self.files],
        }


def _each(values: Mapping[str, float]) -> Message:
    """Return counts or estimates of predictors, each behind its name."""
    named = {name_message(PREDICTOR_NAMES[name]): value for name, value in values.items()}
    parts = [
        message("{name} {n:.1f}", name=name, n=value)
        if isinstance(value, float)
        else message("{name} {n}", name=name, n=value)
        for name, value in named.items()
    ]
    return joined_message(parts, ", ")


def cross_validation_dict(checked: CrossValidation) -> dict[str, Any]:
    """Return a cross-validation, JSON-ready: ``labels``, ``parts``, correct predictions by predictor, the same
    ``by_class``, and the classes whose sensitivity a model ``lowers``; ``by_time`` if the parts are blocks of time.
    """
    by_class = {name: {"labels": result.labels, **result.right} for name, result in checked.by_class.items()}
    lowers = {name: checked.lowered(name) for name in ("personal", "scratch")}
    parts = {"labels": checked.labels, "parts": checked.folds, **({"by_time": True} if checked.by_time else {})}
    return {**parts, **checked.right, "by_class": by_class, "lowers": lowers}
