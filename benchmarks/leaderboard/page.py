"""The tables of docs/leaderboard.md, from the entries."""

import html
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from check import checked
from common import ROOT, table
from entries import ENTRIES, Track, file_of, tracks
from ours import our_entries
from scoring import Score


def tables() -> list[str]:
    """Return a section for each track: its question, data and command, and a row for each entry, best first."""
    ours = our_entries()
    others = checked([file for file in sorted(ENTRIES.rglob("*.json")) if file not in ours])
    lines: list[str] = []
    for name, track in tracks().items():
        rows = [entry for entry in (*ours.values(), *others) if entry["track"] == name]
        rows.sort(key=lambda entry: (-entry["scores"][track["sort"]]["value"], entry["name"]))
        sort = track["scores"][track["sort"]].removesuffix(" %")
        lines += [f"## {track['title']}", "", f"Track `{name}`. {track['about']}", ""]
        if "cohort" in track:
            lines += [f"Cohort: `{track['cohort']}`", ""]
        lines += [f"Scores are {track['unit']}, sorted by {sort}.", ""]
        columns = ("", "version", "seeds", *track["scores"].values(), "trained on", "entry")
        lines += [*table(columns, [_row(entry, track) for entry in rows]), ""]
    return lines


def _row(entry: Mapping[str, Any], track: Track) -> list[str]:
    scores = [_score(entry["scores"][name], track["maximum"]) for name in track["scores"]]
    link = entry["link"]
    if not link.startswith("https://"):
        link = os.path.relpath(ROOT / link, ROOT / "docs")
    file = os.path.relpath(file_of(entry), ROOT / "docs")
    seeds = len(entry["seeds"]) or "-"
    name = f"[{_plain(entry['name'])}]({link})"
    return [name, _plain(entry["version"]), str(seeds), *scores, _plain(entry["trained_on"]), f"[JSON]({file})"]


def _plain(text: str) -> str:
    """Return a stranger's text without effect as HTML or Markdown."""
    return re.sub(r"([\\`*\[\]])", r"\\\1", html.escape(text, quote=False))


def _score(score: Score, maximum: float) -> str:
    digits = 3 if maximum == 1 else 2
    ends = "" if score["low"] is None else f" ({score['low']:.{digits}f} to {score['high']:.{digits}f})"
    return f"{score['value']:.{digits}f}{ends}"
