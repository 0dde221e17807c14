"""``report`` of a run: a folder that ``train`` and ``evaluate`` wrote in, a page for researchers out."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ecgfed.base.text import shortened
from ecgfed.core.runs.seeds import single_run_folder
from ecgfed.reports.run_page import run_page
from ecgfed.reports.run_parts import Mixes, RunParts, Scored, Sent
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.report_run_parts import run_parts
from ecgfed.tasks.watch import NOBODY, Watch


@runtime_checkable
class Opened(Protocol):
    """What has a folder: a run or a cohort that was opened. So none of their libraries is loaded for a page."""

    @property
    def path(self) -> Path:
        """The folder."""


@dataclass(frozen=True, repr=False, eq=False)
class RunReport:
    """A run's report.

    Attributes:
        path: the run's folder.
        parts: what the report holds.
        files: what was written.
    """

    path: Path
    parts: RunParts
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        parts, told = self.parts, "not evaluated"
        if parts.scored:
            first = parts.scored[0]
            names = [name for name in ("T_g", "T_p", "T_r", "T_l") if name in first.scores]
            told = f"{first.split} {', '.join(f'{name} {first.scores[name]:.3f}' for name in names)}"
        return f"RunReport({shortened(parts.run, 50)!r}: {shortened(parts.method, 40)}, {told})"

    @cached_property
    def html(self) -> str:
        """The page: one HTML document that needs no other file and no network."""
        return run_page(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return what the page says, JSON-ready; None is what was not assessed, no evaluation is an empty list."""
        parts = self.parts
        return {
            "run": parts.run,
            "method": parts.method,
            "intended_use": parts.intended_use,
            "about": dict(parts.about),
            "notes": [{"code": code, "text": text} for code, text in parts.notes],
            "classes": list(parts.classes),
            "evaluations": [_scored_dict(one) for one in parts.scored],
            "clients": _mixes_dict(parts.mixes) if isinstance(parts.mixes, Mixes) else None,
            "bytes": _sent_dict(parts.sent) if isinstance(parts.sent, Sent) else None,
            "time": dict(parts.seconds),
            "settings": {title: dict(pairs) for title, pairs in parts.settings},
            "files": [str(file) for file in self.files],
        }


def _scored_dict(one: Scored) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in ("title", "split", "personal", "round", "beats")},
        "scores": one.scores,
        "scores_truth": one.scores_truth,
        "classes": [asdict(row) for row in one.classes],
        "patients": [
            {**asdict(row), "gain": row.gain, "others": dict(zip(one.others, row.others, strict=True))}
            for row in one.patients
        ],
        "confusion": None if one.confusion is None else one.confusion.tolist(),
        "confusion_personal": None if one.confusion_personal is None else one.confusion_personal.tolist(),
    }


def _mixes_dict(mixes: Mixes) -> list[dict[str, Any]]:
    counts, valid, test = mixes.counts.tolist(), mixes.valid.tolist(), mixes.test.tolist()
    return [
        {"client": name, "train": counts[i], "valid": valid[i], "test": test[i]} for i, name in enumerate(mixes.clients)
    ]


def _sent_dict(sent: Sent) -> dict[str, Any]:
    rounds = [{"when": when, "down": down, "up": up} for when, down, up in sent.rows]
    return {"rounds": rounds, "down": sent.down, "up": sent.up, "approximate": sent.about}


def report_run(
    run: Opened | Path | str,
    out: Path | str | None = None,
    *,
    cohort: Opened | Path | str | None = None,
    pdf: bool = False,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> RunReport:
    """Make a page of what a run holds: scores, patients, classes, learning curves, clients, cost, settings.

    Nothing is trained or scored for it: a run that was not evaluated has a page that says so.

    Args:
        run: a run, or its folder.
        out: the page to write, ``.html``; None writes nothing.
        cohort: its cohort, where it has moved.
        pdf: also print the page beside it, through Chromium.
        overwrite: replace the page where it exists.
        watch: told what to keep in mind.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report_run("run")  # doctest: +ELLIPSIS
        RunReport('run': ...)
    """
    targets = page_targets(out, pdf=pdf, overwrite=overwrite)
    browser = find_browser() if pdf else None
    path = single_run_folder(_folder(run))
    parts = run_parts(path, None if cohort is None else _folder(cohort))
    if not parts.scored:
        watch.note(f"{path} is not evaluated: 'ecgfed evaluate {path}' scores it.")
    found = RunReport(path, parts, tuple(targets))
    if targets:
        write_page(targets, found.html, browser)
    return found


def _folder(given: Opened | Path | str) -> Path:
    return given.path if isinstance(given, Opened) else Path(given)
