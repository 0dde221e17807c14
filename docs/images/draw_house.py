"""Draws house.svg from the layers that import-linter holds (pyproject.toml): ``python docs/images/draw_house.py``.

A layer that has rooms of its own, ordered by a contract of its own, is a frame around them.
"""

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
WHAT = {
    "cli": "parse, call, print",
    "testing": "the promises of a plug-in",
    "network": "the same training across hospitals",
    "tasks": "what a command does: prepare, train, evaluate, export, predict, label, personalize, report",
    "papers": "the papers' tables and protocols as data",
    "mcu": "C99 sources of one model, and the headers with its numbers",
    "bundles": "ONNX graphs, int8, manifest, golden vectors",
    "reports": "pages and figures",
    "evaluation": "scenarios, scores, EC57",
    "personal": "one patient's own answers",
    "runs": "a run on disk",
    "federation": "rounds, who takes part, engines",
    "privacy": "robust means, clipping and noise, epsilon",
    "methods": "one federated algorithm a file",
    "nets": "functions on parameters",
    "config": "options of training: type, range, unit and help, each declared once",
    "scores": "scores by class and site",
    "cohort": "many patients, on disk",
    "device": "a bundle's answers, streams",
    "labels": "which beats to ask for",
    "beats": "the one path: from a recording to windows and RR features",
    "waves": "P, QRS and T of a beat, and its intervals",
    "signal": "filters, quality, R peaks",
    "record": "WFDB, EDF, CSV, NumPy, DICOM, HL7 aECG, SCP-ECG, ISHNE",
    "events": "what beats add up to",
    "web": "pages of one file, and what moves on them",
}
#: Layers that hold rooms, and what they are.
GROUPS = {
    "exports": "what is shipped; also js and model",
    "core": "training and scoring",
    "domain": "one recording, and many",
}
BASE = "one error hierarchy, writing whole or not at all, what a stranger's file must pass"
#: Rooms that cannot be used without torch.
WITH_TORCH = {
    "testing",
    "network",
    "bundles",
    "evaluation",
    "personal",
    "runs",
    "federation",
    "privacy",
    "methods",
    "nets",
}
WIDTH, HEIGHT, GAP, LEFT, HEAD = 860, 44, 8, 30, 22
FONT = 'font-family="Helvetica, Arial, sans-serif"'


def layers(container: str = "ecgfed") -> list[list[str]]:
    """Return the rooms of a package, a list a layer from the top; ``cli`` stands above those of ``ecgfed``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (found,) = [one for one in project["tool"]["importlinter"]["contracts"] if one.get("containers") == [container]]
    rooms = [[name.strip("() ") for name in layer.replace(":", "|").split("|")] for layer in found["layers"]]
    return [["cli"], *rooms] if container == "ecgfed" else rooms


def drawn() -> str:
    """Return the picture."""
    body: list[str] = []
    y = 20
    for rooms in layers():
        parts, tall = _row(rooms, LEFT, y, WIDTH - 2 * LEFT)
        body += parts
        y += tall + GAP
    height = y + 40
    foot = height - 22
    for x, colour, text in (
        (LEFT, "#fdf1e3", "needs torch"),
        (LEFT + 130, "#e8f1fa", "loads torch never, or when it is needed"),
    ):
        body.append(f'<rect x="{x}" y="{foot - 11}" width="14" height="14" rx="3" fill="{colour}" stroke="#5b6b7a"/>')
        body.append(f'<text x="{x + 22}" y="{foot + 1}" font-size="12" fill="#44525e">{text}</text>')
    below = "A room imports from rooms below it."
    body.append(f'<text x="{LEFT + 400}" y="{foot + 1}" font-size="12" fill="#44525e">{below}</text>')
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        "<title>The rooms of ecgfed: imports run downwards only</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _row(rooms: list[str], left: float, y: int, width: float) -> tuple[list[str], int]:
    """Return what draws rooms side by side, those that hold rooms as frames, and how tall the row is."""
    inner = {room: layers(f"ecgfed.{room}") if room in GROUPS else [] for room in rooms}
    tall = max((HEAD + GAP + len(rows) * (HEIGHT + GAP) if rows else HEIGHT) for rows in inner.values())
    wide = (width + GAP) / len(rooms) - GAP
    parts: list[str] = []
    for place, room in enumerate(rooms):
        x = left + place * (wide + GAP)
        if not inner[room]:
            parts += _room(room, x, y, wide, tall)
            continue
        parts += [
            f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{tall}" rx="8" fill="#f5f7f9" stroke="#5b6b7a"/>',
            f'<text x="{x + 12:g}" y="{y + 18}" font-size="14" font-weight="bold" fill="#1d2730">{room}</text>',
            f'<text x="{x + 80:g}" y="{y + 18}" font-size="11.5" fill="#44525e">{escape(GROUPS[room])}</text>',
        ]
        for number, row in enumerate(inner[room]):
            parts += _row(row, x + 12, y + HEAD + GAP + number * (HEIGHT + GAP), wide - 24)[0]
    return parts, tall


def _room(room: str, x: float, y: int, wide: float, tall: int) -> list[str]:
    colour = "#fdf1e3" if room in WITH_TORCH else "#e8f1fa"
    return [
        f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{tall}" rx="6" fill="{colour}" stroke="#5b6b7a"/>',
        f'<text x="{x + 12:g}" y="{y + 18}" font-size="14" font-weight="bold" fill="#1d2730">{escape(room)}</text>',
        f'<text x="{x + 12:g}" y="{y + 35}" font-size="11.5" fill="#44525e">{escape(WHAT.get(room, BASE))}</text>',
    ]


if __name__ == "__main__":
    Path(__file__).with_name("house.svg").write_text(drawn(), "utf-8")
