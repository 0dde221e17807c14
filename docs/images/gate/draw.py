"""Draws how the gate decides for two beats: ``python docs/images/gate/draw.py``, from what ``look.py`` found."""

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, INK, OWN, bar, card, line, text, trace

from ecgfed.core.personal.gated import WITHIN

HERE = Path(__file__).parent
#: Left edges of the two panels, and how wide they are.
PANELS, WIDE = (24, 446), 390
#: Classes whose probabilities are shown, and where they begin in a panel.
SHOWN, AT = ("N", "R", "A", "V"), 150
#: What adds up in the gate, for one beat: distance over reach, evidence against, the sum and the share.
Sum = tuple[float, float, float, float]


def softmax(logits: list[float]) -> list[float]:
    """Return probabilities."""
    powers = [math.exp(one - max(logits)) for one in logits]
    return [one / sum(powers) for one in powers]


def weighed(beat: dict[str, Any], gate: dict[str, list[float]]) -> Sum:
    """Return distance, evidence against the personal answer, their weighed sum, and s, the global model's share."""
    others = [one - held for one, held in zip(beat["global_logits"], gate["reserve"], strict=True)]
    against = max(others) - sum(a * b for a, b in zip(beat["own"], others, strict=True))
    near = 0.25  # no distance counts as less (ecgfed/core/nets/own_head.py)
    far = 0.5 * math.log(max(beat["distance"] ** 2 - near**2, 0.0) + near**2)
    total = gate["slope"][0] * far + gate["trust"][0] * against - gate["threshold"][0]
    return beat["distance"], against, total, 1 / (1 + math.exp(-total))


def window(x: float, beat: dict[str, Any]) -> list[str]:
    """Return the beat, and the patient's nearest beat under it."""
    shapes = []
    for name, colour, thick, dash in (("nearest_mv", OWN, 1.6, "5 3"), ("window_mv", INK, 1.8, "")):
        points = [(x + WIDE * i / 128, 138 - 34 * value) for i, value in enumerate(beat[name])]
        shapes.append(trace(points, colour, width=thick, dash=dash))
    return [
        *shapes,
        line(x, 210, x + 18, 210, INK, width=2),
        text(x + 24, 214, "this beat", size=12),
        line(x + 100, 210, x + 118, 210, OWN, width=2, dash="5 3"),
        text(x + 124, 214, "the patient's beat that is nearest to it", size=12, colour=OWN),
    ]


def answers(x: float, beat: dict[str, Any], classes: list[str]) -> list[str]:
    """Return what own beats and global model say, a bar a class."""
    shapes = []
    rows = ((238, "own beats say", beat["own"], OWN), (292, "the global model", softmax(beat["global_logits"]), COMMON))
    for y, name, probabilities, colour in rows:
        best = classes[probabilities.index(max(probabilities))]
        shapes.append(text(x, y + 18, name, colour=colour, bold=True))
        shapes.append(text(x + 128, y + 18, best, at="end", size=15, bold=True))
        for place, one in enumerate(SHOWN):
            left, share = x + AT + 62 * place, probabilities[classes.index(one)]
            shapes += [
                text(left, y + 17, one, size=12, colour=GREY),
                line(left + 14, y + 20, left + 50, y + 20),
                bar(left + 16, y + 20 - 26 * share, 12, 26 * share, colour),
                text(left + 31, y + 14, f"{share:.2f}", size=12),
            ]
    return shapes


def ruler(x: float, distance: float) -> list[str]:
    """Return the distance on a ruler: 1 is where 95% of the patient's own beats lie within."""

    def at(value: float) -> float:
        return x + AT + 230 * (math.log(value) - math.log(0.25)) / (math.log(10) - math.log(0.25))

    y = 366
    shapes = [
        text(x, y - 2, "how far from own", bold=True),
        text(x, y + 14, "beats: d / τ", bold=True),
        f'<rect x="{at(0.25):.1f}" y="{y - 8}" width="{at(1) - at(0.25):.1f}" height="12" fill="#fbdcc0"/>',
        f'<rect x="{at(1):.1f}" y="{y - 8}" width="{at(10) - at(1):.1f}" height="12" fill="#d3e6f5"/>',
    ]
    for value in (0.25, 1, 4, 10):
        shapes += [
            line(at(value), y - 8, at(value), y + 8),
            text(at(value), y + 22, f"{value:g}", size=12, at="middle", colour=GREY),
        ]
    mark = f"M{at(distance):.1f} {y + 2:.1f}l-6 -15h12z"
    return [
        *shapes,
        f'<path d="{mark}" fill="{INK}"/>',
        text(x + AT, y + 42, f"up to 1 (τ) lie {100 * WITHIN:.0f}% of its own beats", size=12, colour=OWN),
        text(at(distance), y - 17, f"{distance:.2f}", bold=True, at="middle"),
    ]


def verdict(x: float, beat: dict[str, Any], said: dict[str, Any]) -> list[str]:
    """Return how the gate adds it up, and who answers."""
    _, against, total, share = weighed(beat, said["gate"])
    slope, trust, threshold = (said["gate"][name][0] for name in ("slope", "trust", "threshold"))
    who, colour = ("the global model", COMMON) if share > 0.5 else ("the patient's own beats", OWN)
    best = said["classes"][beat["mixture"].index(max(beat["mixture"]))]
    sign = "+" if total > 0 else "−"
    add = f"{slope:g} ln(d / τ) + {trust:g} × {against:.2f} − {threshold:g} = {sign}{abs(total):.2f}"
    return [
        text(x, 436, "what the global model has against own beats:", bold=True),
        text(x + 316, 436, f"{against:.2f}", bold=True),
        text(x, 462, f"gate: {add}", size=13),
        text(x, 482, f"share of the global model: s = {share:.4f}", size=13),
        f'<rect x="{x}" y="496" width="{WIDE}" height="40" rx="7" fill="none" stroke="{colour}" stroke-width="2.5"/>',
        text(
            x + WIDE / 2,
            521,
            f"{best}, as marked: {who} answer{'s' if share > 0.5 else ''}",
            at="middle",
            size=15,
            bold=True,
        ),
    ]


def panel(x: float, beat: dict[str, Any], said: dict[str, Any], name: str) -> list[str]:
    """Return all of one beat."""
    clock = f"{int(beat['time_s'] // 60)}:{beat['time_s'] % 60:04.1f}"
    return [
        text(x, 32, f"{name}: {clock}, marked {beat['marked']}", size=15, bold=True),
        *window(x, beat),
        *answers(x, beat, said["classes"]),
        *ruler(x, beat["distance"]),
        *verdict(x, beat, said),
    ]


def drawn() -> str:
    """Return the picture."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    later, own = said["later"], said["own_beats"]
    foot = (
        f"Synthetic patient demo04, who took no part in training: own beats are its first {sum(own.values())} "
        f"({own['R']} R, {own['A']} A, no V)."
    )
    right = (
        f"Of its {later['beats']} later beats the own beats name {later['own']} rightly, the global model "
        f"{later['global']}, the gate {later['gate']}."
    )
    shapes = [
        *panel(PANELS[0], said["beats"][0], said, "A usual beat"),
        line(430, 20, 430, 536, "#c3cbd2"),
        *panel(PANELS[1], said["beats"][1], said, "Of a kind it never had"),
        text(PANELS[0], 564, foot, size=12, colour=GREY),
        text(PANELS[0], 582, right, size=12, colour=GREY),
    ]
    return card("How the gate decides for two beats of one patient", 598, shapes)


if __name__ == "__main__":
    (HERE / "gate.svg").write_text(drawn(), "utf-8")
