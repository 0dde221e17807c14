"""Draws the two conventions of macro-F1 on one small patient: ``python docs/images/macro-f1/draw.py``.

The scores are those of ``ecgfed.core.evaluation.scores``; the twenty beats are made up.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from svg import COMMON, GREY, OWN, area, bar, card, line, text

from ecgfed.core.evaluation.scores import confusion, f1_per_class, macro_f1

HERE = Path(__file__).parent
CLASSES = ("N", "V", "A")
#: Twenty beats of one patient: what they are, and what a model says.
TRUTH = "NNNNVNNNNNVNNNNNNVNN"
ANSWERS = "NNNNVNNNNNNNNNANNVNN"
LEFT, STEP = 110, 36
COLUMNS = (110, 240, 330, 420, 520)


def matrix() -> np.ndarray:
    """Return the confusion matrix (3, 3), rows truth."""
    truth, answers = (np.array([CLASSES.index(one) for one in said]) for said in (TRUTH, ANSWERS))
    return confusion(truth, answers, len(CLASSES))


def beats() -> list[str]:
    """Return two rows of beats, those that differ framed."""
    shapes = []
    for y, name, said in ((24, "truth", TRUTH), (58, "answer", ANSWERS)):
        shapes.append(text(LEFT - 12, y + 19, name, at="end", bold=True))
        for place, one in enumerate(said):
            wrong = TRUTH[place] != ANSWERS[place]
            fill, edge = ("#fdf1e3", OWN) if wrong else ("#f4f6f8", "#c3cbd2")
            x = LEFT + STEP * place
            shapes.append(area(x, y, STEP - 4, 28, fill, edge, thick=2 if wrong else 1))
            shapes.append(text(x + STEP / 2 - 2, y + 19, one, at="middle", size=14, bold=wrong))
    missed, alarm = ANSWERS.find("N", TRUTH.find("V", 6)), ANSWERS.find("A")
    shapes.append(text(LEFT + STEP * missed + 16, 106, "a missed V", size=13, at="middle", colour=OWN))
    shapes.append(
        text(LEFT + STEP * alarm + 16, 106, "a false alarm: no A was there", size=13, at="middle", colour=OWN)
    )
    return shapes


def classes() -> list[str]:
    """Return a row a class: counts and F1."""
    counts, heads = matrix(), ("class", "TP", "FP", "FN", "F1 = 2 TP / (2 TP + FP + FN)")
    f1 = f1_per_class(counts)
    shapes = [text(x, 148, head, bold=True) for x, head in zip(COLUMNS, heads, strict=True)]
    shapes.append(line(LEFT, 156, 830, 156))
    for row, name in enumerate(CLASSES):
        y, hit = 180 + 28 * row, int(counts[row, row])
        false, missed = int(counts[:, row].sum()) - hit, int(counts[row].sum()) - hit
        said = (name, str(hit), str(false), str(missed))
        shapes += [text(x, y, one, size=14, bold=one == name) for x, one in zip(COLUMNS, said, strict=False)]
        shapes.append(bar(COLUMNS[4], y - 13, 220 * float(f1[row]), 17, COMMON))
        shapes.append(text(COLUMNS[4] + 8 + 220 * float(f1[row]), y, f"{f1[row]:.3f}", size=14))
    return shapes


def means() -> list[str]:
    """Return the two means, and accuracy beside them."""
    counts = matrix()
    f1 = [f"{one:.3f}" for one in f1_per_class(counts)]
    rows = (
        ("any", f"over N, V and A, for A was answered: ({f1[0]} + {f1[1]} + {f1[2]}) / 3", macro_f1(counts, "any")),
        ("truth", f"over N and V, which were there: ({f1[0]} + {f1[1]}) / 2", macro_f1(counts, "truth")),
    )
    shapes = [line(LEFT, 252, 830, 252)]
    for row, (name, how, score) in enumerate(rows):
        y = 278 + 30 * row
        shapes += [
            text(LEFT, y, name, size=14, bold=True, colour=COMMON),
            text(170, y, how, size=13),
            text(650, y, f"= {score:.3f}", size=15, bold=True),
            bar(720, y - 13, 110 * score, 17, COMMON),
        ]
    right = int(np.trace(counts))
    said = f"Accuracy, {right} of {len(TRUTH)} right, is {right / len(TRUTH):.2f}, and hardly shows either mistake."
    shapes.append(text(LEFT, 340, said, colour=GREY))
    return shapes


def drawn() -> str:
    """Return the picture."""
    title = "Macro-F1 of twenty beats by its two conventions"
    return card(title, 360, [*beats(), *classes(), *means()])


if __name__ == "__main__":
    (HERE / "macro-f1.svg").write_text(drawn(), "utf-8")
