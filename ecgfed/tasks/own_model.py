"""What ``personalize --labels`` made: a patient's own model, what it is worth, and a label for every beat."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of, shortened
from ecgfed.domain.labels.contested import Contested
from ecgfed.domain.labels.enough import Enough
from ecgfed.domain.labels.label_errors import LEVEL
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.strip import clock
from ecgfed.tasks.own_files import OwnLabels
from ecgfed.tasks.own_labels import Answered
from ecgfed.tasks.own_models import HeldBack

#: Which model is exported, in words.
KEPT = {
    "personal": "the personal model",
    "global": "the global model, unchanged",
    "scratch": "a model from scratch on the same labels",
}
#: Who answered labels that were held back, in words.
WHO = {"groups": "groups", "personal": "personal model", "global": "global model", "scratch": "from scratch"}
#: Why, where labels were held back.
KEPT_BECAUSE = {
    "personal": ", which had no fewer of them right than the global one and one from scratch",
    "global": ", since it had more of them right than the personal one",
    "scratch": ", since it had more of them right than the personal and the global one",
}


@dataclass(frozen=True, repr=False, eq=False)
class OwnModel:
    """A patient's own model from a few labels, and the recording's own labels.

    Attributes:
        patient: its name in the bundle.
        bundle: the bundle that holds it.
        labels: what every beat is, and who says so.
        answered: the labels that were given, at their beats.
        kept: which model is exported, a key of ``KEPT``.
        checked: what it is worth on labels held back, or None where there were too few.
        unchecked: what could not be checked, one sentence, or ``""``.
        enough: whether the labels are enough, and where to label next.
        contested: answers to give once more.
        files: the files of the recording's own labels.
        about: JSON-ready: record, recording (its id), lead, personal, minutes, seed, started_from, warnings, excluded.
        r_samples: (beats,) int64 the R peaks of the beats that ``answered``, ``enough`` and ``contested`` number: those
            whose lead shows a signal.
    """

    patient: str
    bundle: Bundle
    labels: OwnLabels
    answered: Answered
    kept: str
    checked: HeldBack | None
    unchecked: str
    enough: Enough
    contested: list[Contested]
    files: tuple[Path, ...]
    about: dict[str, Any]
    r_samples: NDArray[np.int64]

    def __repr__(self) -> str:
        name, given = shortened(self.patient, 60), count_of(len(self.answered.label), "label")
        return f"OwnModel({name!r}: {given} -> {count_of(len(self.labels.sample), 'beat')}; {KEPT[self.kept]})"

    def sentences(self) -> list[str]:
        """Return what it is worth and where to label next, a line each."""
        checked, found = self.checked, list[str]()
        if checked is not None:
            right = ", ".join(f"{WHO[name]} {count}" for name, count in checked.right.items())
            found.append(f"Of {count_of(checked.labels, 'label')} held back in turn, right: {right}.")
        if self.unchecked:
            found.append(f"{self.unchecked[0].upper()}{self.unchecked[1:]}.")
        found.extend(self._lowered())
        why = "" if checked is None or self._refused() else KEPT_BECAUSE[self.kept]
        found.append(f"In the bundle: {KEPT[self.kept]}{why}.")
        found.append(f"{self._expected()}.")
        for one in self.to_confirm():
            label, rival = (one[key] for key in ("label", "most_like_label"))
            part = f"{count_of(one['beats'], 'beat')}; most like the {rival} at {clock(one['most_like_time_s'])}"
            found.append(f"- Confirm {label} at {clock(one['time_s'])} ({part}).")
        for one in self.places():
            wrong = round(one["expected_wrong"]) or "less than one"
            part = f"an expected {wrong} of {count_of(one['beats'], 'beat')}"
            found.append(f"- Label next at {clock(one['time_s'])} ({part}).")
        return found

    def _refused(self) -> bool:
        """Whether a model with as many labels right is not exported, since it lowers the sensitivity for a class."""
        checked = self.checked
        return checked is not None and any(
            bool(checked.lowered(name)) and checked.right[name] >= checked.right[self.kept]
            for name in ("personal", "scratch")
        )

    def _lowered(self) -> list[str]:
        """Say of each class for which a model lowers the global one's sensitivity on labels held back."""
        if self.checked is None:
            return []
        sentences = []
        for name in ("personal", "scratch"):
            for one in self.checked.lowered(name):
                check = self.checked.by_class[one]
                own, of_all = check.right[name], check.right["global"]
                sentences.append(
                    f"Of {count_of(check.labels, 'label')} {one} held back, {KEPT[name]} had {own} right and the "
                    f"global model {of_all}: it lowers the sensitivity for {one} and is not used."
                )
        return sentences

    def _expected(self) -> str:
        """Return how many beats are expected to have a wrong label, and whether that is few enough, in words."""
        enough, expected = self.enough, self.enough.expected
        part = (
            f"{expected.beats:,.0f} of {count_of(enough.beats, 'beat')} ({enough.share:.1%}; 90% interval "
            f"{expected.low:,} to {expected.high:,})"
        )
        if not self.about["groups_trusted"]:  # what is written is not what is estimated
            return f"{part} would be expected to have a wrong label if each took its group's: more labels would help"
        if not enough.enough:
            advice = "more labels would help"
        elif self.about["warnings"]:
            advice = "see the warnings before you rely on that"
        else:
            advice = "enough by this estimate"
        return f"{part} are expected to have a wrong label: {advice}"

    def to_confirm(self) -> list[dict[str, Any]]:
        """Return the answers to give once more: each beat, its label, the beats that take it, and its rival."""
        label = self.answered.label
        return [
            {
                **self._at(one.beat),
                "label": label[one.beat],
                "beats": one.beats,
                **{f"most_like_{key}": value for key, value in self._at(one.rival).items()},
                "most_like_label": label[one.rival],
            }
            for one in self.contested
        ]

    def _at(self, beat: int) -> dict[str, Any]:
        """Return the sample and the time of a beat."""
        sample = int(self.r_samples[beat])
        return {"sample": sample, "time_s": round(sample / self.labels.recording.fs_hz, 3)}

    def places(self) -> list[dict[str, Any]]:
        """Return where to label next: sample, time, beats that it stands for and those expected to be wrong."""
        return [
            {**self._at(one.beat), "beats": one.beats, "expected_wrong": round(one.wrong, 1)}
            for one in self.enough.suggestions
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but the beats, JSON-ready."""
        enough, checked = self.enough, self.checked
        return {
            **self.about,
            "patient": self.patient,
            "bundle": str(self.bundle.path),
            "kept": self.kept,
            "labels": self.answered.counts,
            "labels_at_no_beat": self.answered.apart,
            "labels_too_late": self.answered.later,
            "labels_without_signal": len(self.answered.without_signal),
            "held_back": None if checked is None else held_dict(checked),
            "unchecked": self.unchecked or None,
            "beats": len(self.labels.sample),
            "beats_by_source": self.labels.by_source(),
            "beats_by_symbol": self.labels.by_symbol(),
            "uncertain_beats": int(self.labels.uncertain.sum()),
            "expected_wrong": {
                "beats": round(enough.expected.beats, 1),
                "low": enough.expected.low,
                "high": enough.expected.high,
                "level": LEVEL,
                "of": enough.beats,
                "without_a_label": enough.unsaid,
                "enough": enough.enough,
            },
            "label_next": self.places(),
            "confirm": self.to_confirm(),
            "files": [str(file) for file in self.files],
        }


def held_dict(checked: HeldBack) -> dict[str, Any]:
    """Return what was found of labels held back, JSON-ready: ``labels``, ``parts``, right ones by who answered, these
    ``by_class``, and the classes whose sensitivity a model ``lowers``.
    """
    by_class = {name: {"labels": check.labels, **check.right} for name, check in checked.by_class.items()}
    lowers = {name: checked.lowered(name) for name in ("personal", "scratch")}
    return {"labels": checked.labels, "parts": checked.parts, **checked.right, "by_class": by_class, "lowers": lowers}
