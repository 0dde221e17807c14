"""Learning curves of a run, from its history."""

from pathlib import Path
from typing import Any

from ecgfed.base.extras import require
from ecgfed.base.text import safe_text


def draw_learning_curves(history: list[dict[str, Any]], path: Path, title: str) -> None:
    """Draw mean and worst client loss, and validation scores, over rounds; a PNG at ``path``.

    Args:
        history: the lines of ``history.jsonl``.
        path: the PNG to write.
        title: what stands above the figure.
    """
    require("matplotlib", "drawing learning curves")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(safe_text(title), parse_math=False)
    loss, score = figure.subplots(1, 2)
    rounds = [line["round"] for line in history]
    loss.plot(rounds, [line["loss_mean"] for line in history], label="mean over clients", color="#1b6ca8")
    loss.plot(rounds, [line["loss_max"] for line in history], label="worst client", color="#c0392b")
    loss.set(xlabel="round", ylabel="training loss", yscale="log")
    loss.legend(frameon=False)
    for key, name, colour in (
        ("valid_T_g", "global answer, pooled", "#1b6ca8"),
        ("valid_T_p", "personal answers, mean", "#2e8b57"),
    ):
        points = [(line["round"], line[key]) for line in history if key in line]
        if points:
            score.plot(*zip(*points, strict=True), label=name, color=colour, marker="." if len(points) < 60 else "")
    score.set(xlabel="round", ylabel="macro-F1, validation split", ylim=(0, 1))
    if score.lines:
        score.legend(frameon=False)
    for axes in (loss, score):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130, format="png")
