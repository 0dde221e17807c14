"""Draws which model is scored on whose beats: ``python docs/images/scored/draw.py``, from what ``look.py`` found."""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import GREY, INK, LINE, OWN, area, card, line, text

from ecgfed.core.evaluation.scores import confusion, harmonic_mean, macro_f1

HERE = Path(__file__).parent
LEFT, TOP, WIDE, HIGH = 172, 64, 66, 30
#: Where the column of the pool begins.
POOL = LEFT + 8 * WIDE + 24
THIRD = "#00664b"

Matrix = NDArray[np.float64]


def scores() -> tuple[list[str], Matrix, Matrix]:
    """Return the clients, macro-F1 of each model on each client's beats (9, 8), and on the pool (9,)."""
    said = json.loads((HERE / "numbers.json").read_text("utf-8"))
    classes = said["classes"]

    def counts(truth: str, answers: str) -> NDArray[np.int64]:
        numbers = (np.array([classes.index(one) for one in some]) for some in (truth, answers))
        return confusion(*numbers, len(classes))

    each = [[macro_f1(counts(*pair)) for pair in zip(said["truth"], one, strict=True)] for one in said["answers"]]
    pool = [macro_f1(counts("".join(said["truth"]), "".join(one))) for one in said["answers"]]
    return said["clients"], np.array(each), np.array(pool)


def cell(x: float, y: float, score: float, wide: float) -> list[str]:
    """Return a score, the bluer the higher."""
    fill = "#{:02x}{:02x}{:02x}".format(*(round(255 + (one - 255) * score) for one in (86, 180, 233)))
    return [area(x, y, wide - 3, HIGH - 3, fill), text(x + wide / 2 - 1, y + 19, f"{score:.2f}", at="middle")]


def frame(x: float, y: float, wide: float, high: float, colour: str, dash: str = "") -> str:
    """Return a thick frame around cells."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    at = f'x="{x - 3:g}" y="{y - 3:g}" width="{wide + 3:g}" height="{high + 3:g}" rx="4"'
    return f'<rect {at} fill="none" stroke="{colour}" stroke-width="3"{dashed}/>'


def grid() -> list[str]:
    """Return a row a model, a column a client's beats, and the pool."""
    clients, each, pool = scores()
    shapes = [
        text(LEFT, 24, "on the test beats of", bold=True),
        text(POOL, 24, "on the whole pool", bold=True),
        text(POOL, 50, "all eight together", size=12, colour=GREY),
        text(LEFT - 14, 50, "this model", bold=True, at="end"),
    ]
    shapes += [text(LEFT + WIDE * i + 32, 50, one, at="middle", size=12) for i, one in enumerate(clients)]
    for row, model in enumerate(["for everybody", *(f"{one}'s own" for one in clients)]):
        y = TOP + HIGH * row + (14 if row else 0)
        shapes.append(text(LEFT - 14, y + 19, model, at="end", bold=not row))
        for column in range(len(clients)):
            shapes += cell(LEFT + WIDE * column, y, each[row, column], WIDE)
            if row == column + 1:
                shapes.append(frame(LEFT + WIDE * column, y, WIDE - 3, HIGH - 3, OWN))
        shapes += cell(POOL, y, pool[row], 100)
    shapes.append(frame(POOL, TOP, 97, HIGH - 3, INK, "7 4"))
    shapes.append(frame(POOL, TOP + HIGH + 14, 97, HIGH * len(clients) - 3, THIRD, "2 3"))
    return shapes


def words() -> list[str]:
    """Return what is made of the framed cells."""
    clients, each, pool = scores()
    t_p, t_r = float(np.diag(each[1:]).mean()), float(pool[1:].mean())
    y = TOP + HIGH * (len(clients) + 1) + 44
    said = (
        (INK, "7 4", "T_g", f"{pool[0]:.2f}", "the model for everybody on the pool: the dashed cell"),
        (OWN, "", "T_p", f"{t_p:.2f}", "each own model on that patient's beats: the mean of the diagonal"),
        (THIRD, "2 3", "T_r", f"{t_r:.2f}", "each own model on the pool: the mean of the dotted column"),
        (LINE, "", "T_l", f"{harmonic_mean(t_p, t_r):.2f}", "no model: the harmonic mean 2 T_p T_r / (T_p + T_r)"),
    )
    shapes = []
    for row, (colour, dash, name, score, what) in enumerate(said):
        at = y + 26 * row
        shapes.append(line(LEFT - 60, at - 4, LEFT - 14, at - 4, colour, width=3, dash=dash))
        shapes += [text(LEFT, at, name, bold=True, size=14), text(LEFT + 44, at, score, bold=True, size=14)]
        shapes.append(text(LEFT + 92, at, what))
    shapes[-4] = ""  # no cell is framed for T_l
    foot = "Macro-F1 after the last round of GRP-FED on eight synthetic patients: which is which, not how well."
    shapes.append(text(LEFT, y + 112, foot, size=12, colour=GREY))
    return [one for one in shapes if one]


def drawn() -> str:
    """Return the picture."""
    return card("Macro-F1 of nine models on eight patients' test beats and on their pool", 506, [*grid(), *words()])


if __name__ == "__main__":
    (HERE / "scored.svg").write_text(drawn(), "utf-8")
