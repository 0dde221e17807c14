"""Draws house.svg from the layers that import-linter holds (pyproject.toml): ``python docs/images/draw_house.py``."""

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
WHAT = {
    "cli": "parse, call, print",
    "testing": "the promises of a plug-in",
    "network": "the same training across hospitals",
    "tasks": "what a command does: prepare, train, evaluate, export, predict, label, personalize, report",
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
    "cohort": "many patients, on disk",
    "device": "a bundle's answers, streams",
    "labels": "which beats to ask for",
    "beats": "the one path: from a recording to windows and RR features",
    "signal": "filters, quality, R peaks",
    "record": "WFDB, EDF, CSV, NumPy, DICOM, HL7 aECG, SCP-ECG, ISHNE",
    "events": "what beats add up to",
    "web": "pages, and the same inference in JavaScript",
}
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
WIDTH, HEIGHT, GAP, LEFT = 860, 44, 8, 30
FONT = 'font-family="Helvetica, Arial, sans-serif"'


def layers() -> list[list[str]]:
    """Return the rooms, a list a layer from the top, those of the last two layers as one room."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (found,) = [one for one in project["tool"]["importlinter"]["contracts"] if one.get("containers") == ["ecgfed"]]
    rooms = [[name.strip("() ") for name in layer.replace(":", "|").split("|")] for layer in found["layers"]]
    return [["cli"], *rooms[:-2], [" · ".join([*rooms[-2], *rooms[-1]])]]


def drawn() -> str:
    """Return the picture."""
    rows = layers()
    height = len(rows) * (HEIGHT + GAP) + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        "<title>The rooms of ecgfed: imports run downwards only</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, rooms in enumerate(rows):
        wide = (WIDTH - 2 * LEFT + GAP) / len(rooms) - GAP
        for place, room in enumerate(rooms):
            out += _room(room, LEFT + place * (wide + GAP), 20 + number * (HEIGHT + GAP), wide)
    foot = height - 22
    for x, colour, text in (
        (LEFT, "#fdf1e3", "needs torch"),
        (LEFT + 130, "#e8f1fa", "loads torch never, or when it is needed"),
    ):
        out.append(f'<rect x="{x}" y="{foot - 11}" width="14" height="14" rx="3" fill="{colour}" stroke="#5b6b7a"/>')
        out.append(f'<text x="{x + 22}" y="{foot + 1}" font-size="12" fill="#44525e">{text}</text>')
    below = "A room imports from rooms below it."
    out.append(f'<text x="{LEFT + 400}" y="{foot + 1}" font-size="12" fill="#44525e">{below}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def _room(room: str, x: float, y: int, wide: float) -> list[str]:
    colour = "#fdf1e3" if room in WITH_TORCH else "#e8f1fa"
    what = WHAT.get(room, "one error hierarchy, writing whole or not at all, what a stranger's file must pass")
    return [
        f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{HEIGHT}" rx="6" fill="{colour}" stroke="#5b6b7a"/>',
        f'<text x="{x + 12:g}" y="{y + 18}" font-size="14" font-weight="bold" fill="#1d2730">{escape(room)}</text>',
        f'<text x="{x + 12:g}" y="{y + 35}" font-size="11.5" fill="#44525e">{escape(what)}</text>',
    ]


if __name__ == "__main__":
    Path(__file__).with_name("house.svg").write_text(drawn(), "utf-8")
