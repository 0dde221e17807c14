"""Risk and coverage as a figure: each patient thin, all together thick, the thresholds as dots."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

Told = dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]


def draw(told: Told, certainty: dict[str, dict[str, Any]]) -> bytes:
    """Return an SVG: share of beats answered (coverage) against the error among them (risk)."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "ecgfed"  # the same figures give the same bytes
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for name, (probability, right) in told.items():
        axes.plot(*_curve(probability, right), color="0.75", linewidth=0.7, zorder=1)
        kept = probability >= certainty[name]["threshold"]
        if kept.any():
            axes.plot(kept.mean(), 1 - right[kept].mean(), "o", color="#b03a2e", markersize=3, zorder=3)
    probability, right = (np.concatenate(part) for part in zip(*told.values(), strict=True))
    axes.plot(*_curve(probability, right), color="#1b4f9c", linewidth=2, zorder=2, label="all patients together")
    axes.plot([], [], color="0.75", linewidth=0.7, label="one patient")
    axes.plot([], [], "o", color="#b03a2e", markersize=3, label="a patient's threshold (99% on validation)")
    axes.axhline(0.01, color="0.4", linewidth=0.7, linestyle="--")
    axes.set(xlabel="coverage: share of test beats answered", ylabel="risk: error among them", xlim=(0.5, 1.005))
    axes.set_ylim(-0.002, 0.08)
    axes.legend(frameon=False, loc="upper left")
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _curve(probability: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
    """Return coverage and error when the least probable beats are left out, at 200 points."""
    wrong = ~right[np.argsort(-probability, kind="stable")]
    error = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    at = np.unique(np.linspace(0, len(wrong) - 1, min(200, len(wrong))).astype(np.int64))
    return (at + 1) / len(wrong), error[at]
