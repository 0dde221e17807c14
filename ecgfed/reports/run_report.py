"""A run's report: its content, its page, and its content as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgfed.base.text import shortened
from ecgfed.reports.run_page import run_page
from ecgfed.reports.run_parts import CommunicationCost, Mixes, RunParts, Scored, ScoredPatient


@dataclass(frozen=True, repr=False, eq=False)
class RunReport:
    """A run's report.

    Attributes:
        path: the run's folder.
        parts: the content of the report.
        files: the written files.
    """

    path: Path
    parts: RunParts
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        parts, scores = self.parts, "not evaluated"
        if parts.scored:
            first = parts.scored[0]
            names = [name for name in ("T_g", "T_p", "T_r", "T_l") if name in first.scores]
            scores = f"{first.split} {', '.join(f'{name} {first.scores[name]:.3f}' for name in names)}"
        return f"RunReport({shortened(parts.run, 50)!r}: {shortened(parts.method, 40)}, {scores})"

    @cached_property
    def html(self) -> str:
        """The page: one self-contained HTML document."""
        return run_page(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the page, JSON-ready; None where not assessed, an empty list without evaluations."""
        parts = self.parts
        return {
            "run": parts.run,
            "method": parts.method,
            "intended_use": parts.intended_use,
            "about": dict(parts.header),
            "notes": [{"code": code, "text": text} for code, text in parts.notes],
            "classes": list(parts.classes),
            "evaluations": [_scored_dict(scored) for scored in parts.scored],
            "clients": _mixes_dict(parts.mixes) if isinstance(parts.mixes, Mixes) else None,
            "bytes": _sent_dict(parts.sent) if isinstance(parts.sent, CommunicationCost) else None,
            "time": dict(parts.seconds),
            "settings": {title: dict(pairs) for title, pairs in parts.settings},
            "files": [str(file) for file in self.files],
        }


def _scored_dict(scored: Scored) -> dict[str, Any]:
    return {
        **{name: getattr(scored, name) for name in ("title", "split", "personal", "round", "beats")},
        "scores": scored.scores,
        "scores_truth": scored.scores_truth,
        "classes": [asdict(row) for row in scored.classes],
        "patients": [_patient_dict(patient, scored.alternatives) for patient in scored.patients],
        "confusion": None if scored.confusion is None else scored.confusion.tolist(),
        "confusion_personal": None if scored.confusion_personal is None else scored.confusion_personal.tolist(),
    }


def _patient_dict(patient: ScoredPatient, alternatives: Sequence[str]) -> dict[str, Any]:
    values = asdict(patient)
    values["others"] = dict(zip(alternatives, values.pop("alternative_f1"), strict=True))
    return {**values, "gain": patient.gain}


def _mixes_dict(mixes: Mixes) -> list[dict[str, Any]]:
    rows = zip(mixes.clients, mixes.counts.tolist(), mixes.valid.tolist(), mixes.test.tolist(), strict=True)
    return [dict(zip(("client", "train", "valid", "test"), row, strict=True)) for row in rows]


def _sent_dict(sent: CommunicationCost) -> dict[str, Any]:
    rounds = [{"when": when, "down": down, "up": up} for when, down, up in sent.rows]
    return {"rounds": rounds, "down": sent.down, "up": sent.up, "approximate": sent.approximate}
