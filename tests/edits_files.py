"""Files of edits, as the page of a report saves them."""

import json
from pathlib import Path
from typing import Any

from ecgfed.reports.recording_report import RecordingReport

SAVED = "2026-03-04T09:15:00+01:00"
AUTHOR = "Dr A. Author"


def document_of(report: RecordingReport, *edits: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document of edits of a report; ``more`` replaces or adds members."""
    editing = report.parts.data["editing"]
    return {
        "format": "ecgfed-edits",
        "version": 1,
        "recording": editing["recording"],
        "beats": editing["beats"],
        "author": AUTHOR,
        "saved_at": SAVED,
        "reviewed": None,
        "indication": "",
        "comments": "",
        "conclusion": "",
        "strips": [],
        "edits": [{"at": SAVED, **edit} for edit in edits],
        **more,
    }


def written(folder: Path, document: object) -> Path:
    path = folder / "edits.json"
    path.write_text(json.dumps(document))
    return path


def label(symbol: str, *samples: int) -> dict[str, Any]:
    return {"edit": "label", "samples": list(samples), "label": symbol}


def accept(*samples: int) -> dict[str, Any]:
    return {"edit": "accept", "samples": list(samples)}


def interval(start: int, stop: int, *, accepted: bool) -> dict[str, Any]:
    return {"edit": "interval", "samples": [start, stop], "accepted": accepted}


def rhythm(name: str, start: int, stop: int, to: str) -> dict[str, Any]:
    return {"edit": "rhythm", "rhythm": name, "samples": [start, stop], "label": to}


def add(symbol: str, *samples: int) -> dict[str, Any]:
    return {"edit": "add", "samples": list(samples), "label": symbol}
