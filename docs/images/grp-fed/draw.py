"""Draws one round of GRP-FED: ``python docs/images/grp-fed/draw.py``, from what ``round.py`` wrote."""

import json
import sys
from pathlib import Path
from typing import TypedDict

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, LINE, OWN, THIRD, arrow, bar, box, card, text

HERE = Path(__file__).parent
#: Colours of the kinds of beats, apart from one another for colour-blind readers too (Okabe and Ito).
KINDS = {"N": "#9ec9e8", "L": "#0072b2", "R": "#009e73", "V": "#d55e00", "/": "#8a6d9e", "A": "#f0c419"}
#: Where bars begin.
LEFT = 110


class Answer(TypedDict):
    """How one kind of answer scores."""

    name: str
    T_p: float
    T_r: float
    each: dict[str, float]


class Round(TypedDict):
    """What ``round.json`` holds."""

    rounds: int
    round: int
    client: int
    classes: list[str]
    clients: list[str]
    counts: list[list[int]]
    settings: dict[str, float]
    loss: list[float]
    this_round: dict[str, list[float]]
    sigma: list[float]
    q: list[float]
    q_all: list[float]
    effective_clients: float
    verdicts: dict[str, list[float]]
    lengths: dict[str, dict[str, float]]
    bytes: dict[str, int]
    answers: list[Answer]


def weights(losses: list[float], q: float) -> list[float]:
    """Return lambda of equation 3."""
    powers = [loss**q for loss in losses]
    return [one / sum(powers) for one in powers]


def mixes(said: Round) -> str:
    """What the clients have: a bar a client, divided by kind of beat."""
    shapes = [text(LEFT, 30, "Training beats of each client, by kind", bold=True)]
    for row, (client, counts) in enumerate(zip(said["clients"], said["counts"], strict=True)):
        y, x = 48 + 26 * row, float(LEFT)
        shapes.append(text(LEFT - 10, y + 14, client, at="end"))
        for name, count in zip(said["classes"], counts, strict=True):
            if count:
                wide = 640 * count / sum(counts)
                shapes.append(bar(x, y, wide - 1, 19, KINDS[name]))
                if wide > 15:
                    light = name in ("L", "R", "V", "/")
                    shapes.append(
                        text(x + wide / 2, y + 14, name, at="middle", colour="#ffffff" if light else "#1d2730")
                    )
                x += wide
        shapes.append(text(LEFT + 650, y + 14, f"{sum(counts)} beats", colour=GREY, size=12))
    height = 48 + 26 * len(said["clients"]) + 16
    return card("What each client has: bars of eight clients, divided by kind of beat", height, shapes)


def travels(said: Round) -> str:
    """What travels and what stays."""
    down, up, kept = (f"{said['bytes'][name]:,} bytes" for name in ("down", "up", "kept"))
    shapes = [
        *box(
            300,
            18,
            260,
            62,
            COMMON,
            "Server",
            "global model: θ_F (extractor), θ_C (head)",
            "q, σ, its optimizer's state",
        ),
        arrow(360, 80, 220, 168, COMMON),
        arrow(500, 168, 420, 80, COMMON),
        text(272, 118, "down: θ_F, θ_C", at="end", colour=COMMON, bold=True),
        text(272, 136, down, at="end", colour=GREY, size=12),
        text(480, 118, "up: θ_F,m and θ_C,m, and one number: the loss L_m", colour=COMMON, bold=True),
        text(480, 136, up, colour=GREY, size=12),
        f'<rect x="40" y="168" width="780" height="150" rx="9" fill="none" stroke="{LINE}" stroke-dasharray="7 5"/>',
        text(56, 190, "Client m: what is in here stays", bold=True),
        *box(60, 204, 170, 96, OWN, "Recordings", "beats and their labels"),
        *box(250, 204, 170, 96, OWN, "Own extractor", "θ_F,m of the patient (local)"),
        *box(440, 204, 170, 96, OWN, "Discriminator", "θ_D,m"),
        *box(630, 204, 170, 96, OWN, "Memory", "momentum, the head it", "trained against, L_m"),
        text(800, 190, f"kept beside the recordings: {kept}", at="end", colour=GREY, size=12),
    ]
    return card("What travels between server and client, and what stays with the client", 336, shapes)


def local_update(said: Round) -> str:
    """The local update of one client, with its numbers in this round."""
    at = said["client"]
    loss = {name: values[at] for name, values in said["this_round"].items()}
    d_global, d_local = said["verdicts"]["of_global"][at], said["verdicts"]["of_local"][at]
    beta = said["settings"]["beta"]
    shapes = [
        text(30, 28, f"{said['clients'][at]} in round {said['round']}: every batch of beats x, twice", bold=True),
        *box(30, 150, 90, 50, LINE, "beats x"),
        arrow(120, 165, 170, 84, COMMON),
        arrow(120, 185, 170, 262, OWN),
        *box(172, 50, 150, 62, COMMON, "global extractor", "θ_F,m, trained on x"),
        *box(172, 238, 150, 62, OWN, "own extractor", "θ_F,m (local)"),
        arrow(322, 80, 372, 80, COMMON),
        arrow(322, 262, 372, 262, OWN),
        *box(374, 50, 130, 62, COMMON, "head", "θ_C,m, trained on x"),
        *box(374, 232, 130, 62, COMMON, "head", "θ_C as received, fixed"),
        arrow(504, 80, 560, 80, COMMON),
        arrow(504, 262, 560, 262, OWN),
        text(566, 76, f"L_m = J(ŷ, y): {loss['loss']:.3f} this round", colour=COMMON, bold=True),
        text(566, 94, "eq. 1, lines 22 to 25; goes up", size=12, colour=GREY),
        text(566, 252, f"β J(ŷ, y) + (1 − β) L_R: {loss['local_loss']:.2f}", colour=OWN, bold=True),
        text(566, 270, f"eq. 4 and 5, lines 28 to 31; β = {beta:g}", size=12, colour=GREY),
        text(566, 287, "moves the own extractor alone; stays", size=12, colour=GREY),
        arrow(247, 238, 388, 192, OWN, dashed=True),
        arrow(247, 112, 388, 156, COMMON, dashed=True),
        text(352, 134, "f^g, of θ_F as received", size=12, colour=COMMON),
        text(345, 229, "f^l", size=12, colour=OWN),
        *box(390, 146, 130, 56, THIRD, "discriminator D", "global or own?"),
        arrow(520, 174, 560, 174, THIRD),
        text(
            566,
            162,
            f"D(f^g) = {d_global:.3f}, D(f^l) = {d_local:.3f}; 1 is “global”",
            colour=THIRD,
            bold=True,
            size=12,
        ),
        text(566, 179, f"L_D: {loss['discriminator_loss']:.2f}, with the penalty on its slope", size=12, colour=GREY),
        text(566, 195, "lines 34 to 36; stays", size=12, colour=GREY),
    ]
    return card(
        "The local update: global extractor and head, own extractor, and the discriminator between them", 318, shapes
    )


def weighing(said: Round) -> str:
    """From losses to weights."""
    lam = weights(said["loss"], said["q"][1])
    most, even = max(said["loss"]), 1 / len(lam)
    shapes = [text(LEFT, 28, "loss L_m", bold=True, colour=OWN), text(470, 28, "weight λ_m", bold=True, colour=COMMON)]
    foot, x = 40 + 25 * len(lam), 470 + 280 * even / max(lam)
    shapes.append(f'<path d="M{x:.1f} 36V{foot}" stroke="{LINE}" stroke-dasharray="3 3"/>')
    for row, (client, loss, one) in enumerate(zip(said["clients"], said["loss"], lam, strict=True)):
        y = 40 + 25 * row
        shapes += [
            text(LEFT - 10, y + 14, client, at="end"),
            bar(LEFT, y, 250 * loss / most, 18, OWN),
            text(LEFT + 6 + 250 * loss / most, y + 14, f"{loss:.3f}", size=12, colour=GREY),
            bar(470, y, 280 * one / max(lam), 18, COMMON),
            text(476 + 280 * one / max(lam), y + 14, f"{one:.3f}", size=12, colour=GREY),
        ]
    (s0, s1), (q0, q1) = said["sigma"], said["q"]
    shapes += [
        text(x, foot + 14, f"all alike: {even:.3f}", at="middle", size=12, colour=GREY),
        text(
            LEFT,
            foot + 40,
            f"eq. 2: σ of the losses went from {s0:.4f} to {s1:.4f}, so q went from {q0:.3f} to {q1:.3f}.",
        ),
        text(
            LEFT,
            foot + 60,
            f"eq. 3: λ_m = L_m^q / Σ L_i^q. As if {said['effective_clients']:.1f} of {len(lam)} clients weighed alike "
            "(1 / Σ λ²).",
        ),
    ]
    return card("From the clients' losses to their weights, by the loss power q", foot + 76, shapes)


def server(said: Round) -> str:
    """The server's step: how far the weighted mean lies from the model, and how far the server goes."""
    mean, step = said["lengths"]["mean"], said["lengths"]["step"]
    most = max(mean.values())
    shapes = [text(LEFT, 28, "How far (L2) from the model that went down", bold=True)]
    rows = [
        (f"{part}: {what}", lengths[part], colour)
        for part in ("extractor", "head")
        for what, lengths, colour in (("the mean Σ λ θ", mean, OWN), ("the server's step", step, COMMON))
    ]
    for row, (name, length, colour) in enumerate(rows):
        y = 44 + 30 * row
        shapes += [
            text(LEFT + 130, y + 15, name, at="end"),
            bar(LEFT + 140, y, 480 * length / most, 20, colour),
            text(LEFT + 148 + 480 * length / most, y + 15, f"{length:.4f}", size=12, colour=GREY),
        ]
    foot = 44 + 30 * len(rows) + 16
    rate, round_, rounds = said["settings"]["server_lr"], said["round"], said["rounds"]
    said_below = f"Adam's rate begins at {rate:g} and falls along half a cosine; this is round {round_} of {rounds}."
    shapes.append(text(LEFT - 80, foot, said_below, size=12, colour=GREY))
    return card(
        "How far the weighted mean of the clients' models lies, and how far the server steps", foot + 16, shapes
    )


def personal(said: Round) -> str:
    """Which parts answer for a patient."""
    del said
    shapes = []
    for y, title, parts in (
        (24, "Model for everybody", ((COMMON, "θ_F", "global extractor"), (COMMON, "θ_C", "global head"))),
        (104, "GRP-FED's personal model", ((OWN, "θ_F,m (local)", "own extractor"), (COMMON, "θ_C", "global head"))),
    ):
        shapes += [
            text(30, y + 32, title, bold=True),
            *box(250, y, 90, 54, LINE, "beat x"),
            arrow(340, y + 27, 376, y + 27),
        ]
        for place, (colour, *lines) in enumerate(parts):
            x = 378 + 190 * place
            shapes += [*box(x, y, 150, 54, colour, *lines), arrow(x + 150, y + 27, x + 188, y + 27, colour)]
        shapes.append(text(764, y + 32, "class ŷ"))
    shapes += [
        text(30, 216, "The gate", bold=True),
        *box(250, 184, 90, 54, LINE, "beat x"),
        arrow(340, 200, 376, 194),
        arrow(340, 222, 376, 232),
        *box(378, 176, 150, 34, COMMON, "global model"),
        *box(378, 216, 150, 34, OWN, "the patient's beats"),
        arrow(528, 193, 566, 204, COMMON),
        arrow(528, 233, 566, 220, OWN),
        *box(568, 184, 150, 54, THIRD, "gate", "near own beats?"),
        arrow(718, 211, 756, 211, THIRD),
        text(764, 216, "class ŷ"),
    ]
    return card("Which parts answer: global model, personal model, and the gate", 266, shapes)


def answers(said: Round) -> str:
    """T_p and T_r of three answers."""
    names = {"global": "model for everybody", "own": "GRP-FED's personal model", "gated": "the gate"}
    colours = {"global": COMMON, "own": OWN, "gated": THIRD}
    shapes = [
        text(250, 28, "on the patient's own beats (T_p)", bold=True),
        text(555, 28, "on everybody's beats (T_r)", bold=True),
    ]
    for row, one in enumerate(said["answers"]):
        y = 44 + 34 * row
        shapes.append(text(240, y + 16, names[one["name"]], at="end"))
        for x, value in ((250, one["T_p"]), (555, one["T_r"])):
            shapes += [
                bar(x, y, 220 * value, 22, colours[one["name"]]),
                text(x + 6 + 220 * value, y + 16, f"{value:.2f}", size=12, colour=GREY),
            ]
    foot = 44 + 34 * len(said["answers"]) + 14
    shapes.append(
        text(
            250,
            foot,
            "Macro-F1, mean over eight synthetic patients, test beats: shows the way it works, not how well.",
            size=12,
            colour=GREY,
        )
    )
    return card("Scores of the three answers on the patient's own beats and on everybody's", foot + 16, shapes)


PICTURES = {
    "1-mixes": mixes,
    "2-travels": travels,
    "3-local-update": local_update,
    "4-weights": weighing,
    "5-server": server,
    "6-personal": personal,
    "7-answers": answers,
}


def drawn() -> dict[str, str]:
    """Return every picture by its file's name."""
    said: Round = json.loads((HERE / "round.json").read_text("utf-8"))
    return {f"{name}.svg": draw(said) for name, draw in PICTURES.items()}


if __name__ == "__main__":
    for name, picture in drawn().items():
        (HERE / name).write_text(picture, "utf-8")
