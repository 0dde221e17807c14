"""The frontier, and the paper's figures 1, 3, 4 and 5, from the runs of table 1: PNG and SVG into docs/images.

    python benchmarks/table1/figures.py --work DIR [--out docs/images]

DIR is that of ``benchmarks/table1/run.py``, all its stages done; seed 0 where a figure shows one run.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, script

import ecgfed
from ecgfed.errors import OptionError
from ecgfed.federation.data import training_data
from ecgfed.runs.history import HISTORY, read_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Distinguishable in grey and by the colour-blind (Okabe and Ito 2008), with a line style each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7")
STYLES = ("-", "--", ":", "-.")
CURVES = ("FedAvg", "AFL", "q-FFL", "GRP-FED")
CASES = ("FedAvg", "q-FFL", "LG-FedAvg", "pFedMe", "GRP-FED")
#: Beats of a client that figure 1 shows.
SHOWN = 60


def run_of(work: Path, results: dict[str, Any], name: str) -> ecgfed.Run:
    """Open the run of a method's first seed in ``work``."""
    (row,) = [row for row in results["passes"] if row["name"] == name]
    trial = row["trial"]
    folder = work / f"passes_{name}_{trial}_0"
    if not folder.is_dir():
        raise OptionError("--work", f"{folder} is not there", "the runs of benchmarks/table1/run.py")
    return ecgfed.open_run(folder)


def scores_of(run: ecgfed.Run) -> dict[str, Any]:
    """The test scores that lie in a run's folder."""
    return dict(json.loads((run.path / "evaluation-test" / "scores.json").read_text()))


def new(columns: int, rows: int = 1, width: float = 10.0, height: float = 3.6) -> "tuple[Figure, np.ndarray]":
    """Return a figure and its axes (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def clients_figure(work: Path, results: dict[str, Any]) -> "Figure":
    """Figure 1: features of some beats of each client, the clients' classes, and FedAvg's macro-F1 on each."""
    from sklearn.manifold import TSNE

    run = run_of(work, results, "FedAvg")
    cohort = run.cohort()
    data = training_data(cohort, rr=run.net.spec.rr)
    order = sorted(data.rows, key=lambda i: -len(data.rows[i]))
    rng = np.random.default_rng(0)
    chosen = {i: rng.permutation(data.rows[i])[:SHOWN] for i in order}
    with torch.inference_mode():
        batch = data.batch(np.concatenate([chosen[i] for i in order]))
        features = run.net.extract(run.state().server["model"], batch.inputs).numpy()
    places = TSNE(random_state=0, init="pca", perplexity=30).fit_transform(features)
    owner = np.concatenate([np.full(len(chosen[i]), place) for place, i in enumerate(order)])
    figure, ((where, mix, score),) = new(3, width=14.0, height=4.6)
    where.scatter(*places.T, c=owner, cmap="twilight", s=6, linewidths=0)
    where.set(xticks=[], yticks=[], title="features of 60 beats a client, a colour each")
    counts = np.stack([data.class_counts(i).numpy() for i in order])
    shares = counts / counts.sum(1, keepdims=True)
    left = np.zeros(len(order))
    from matplotlib import colormaps

    for number, name in enumerate(cohort.classes):
        mix.barh(range(len(order)), shares[:, number], left=left, label=name, color=colormaps["tab20"](number))
        left += shares[:, number]
    mix.set(xlabel="share of the client's training beats", yticks=[], ylabel="clients, the largest below")
    mix.legend(ncols=6, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    by_client = {row["client"]: row["global_f1"] for row in scores_of(run)["per_patient"]}
    values = [by_client.get(data.ids[i], np.nan) for i in order]
    score.barh(range(len(order)), values, color=COLOURS[0])
    score.set(xlabel="macro-F1 of FedAvg's global model", yticks=[], xlim=(0, 1))
    return figure


def frontier_figure(results: dict[str, Any]) -> "Figure":
    """T_p against T_r, every method and personal answer."""
    figure, ((axes,),) = new(1, width=7.5, height=5.5)
    for row in results["passes"]:
        simple = row["name"].startswith("FedAvg, ")
        x, y = (row["scores"][key]["mean"] for key in ("T_p", "T_r"))
        axes.plot(x, y, "s" if simple else "o", color=COLOURS[1] if simple else COLOURS[0], markersize=5)
        axes.annotate(row["name"], (x, y), xytext=(4, 3), textcoords="offset points", fontsize=8)
    axes.set(xlabel="T_p: on the patient's own beats", ylabel="T_r: on everybody's beats")
    return figure


def losses_figure(work: Path, results: dict[str, Any]) -> "Figure":
    """Figure 3: mean and largest training loss over the rounds, four methods."""
    figure, ((mean, worst),) = new(2)
    for name, colour, style in zip(CURVES, COLOURS, STYLES, strict=False):
        lines = read_lines(run_of(work, results, name).path / HISTORY)
        passes = [line["passes"] for line in lines]
        for axes, key in ((mean, "loss_mean"), (worst, "loss_max")):
            width = min(9, 2 * ((len(lines) - 1) // 2) + 1)  # rounds that a point is the mean of, an odd number
            smooth = np.convolve([line[key] for line in lines], np.ones(width) / width, mode="valid")
            axes.plot(
                passes[width // 2 : len(passes) - width // 2], smooth, style, color=colour, label=name, linewidth=1.2
            )
    for axes, title in ((mean, "mean over clients"), (worst, "client with the largest")):
        axes.set(xlabel="passes of the training beats", ylabel="training loss", yscale="log", title=title)
        axes.legend(frameon=False)
    return figure


def beta_figure(results: dict[str, Any]) -> "Figure":
    """Figure 4: T_p, T_r and T_l by beta, mean and standard deviation over seeds."""
    figure, ((axes,),) = new(1, width=5.5)
    rows = results["beta"]
    for key, colour, style in zip(("T_p", "T_r", "T_l"), COLOURS, STYLES, strict=False):
        axes.errorbar(
            [row["beta"] for row in rows],
            [row["scores"][key]["mean"] for row in rows],
            [row["scores"][key]["sd"] for row in rows],
            color=colour,
            linestyle=style,
            marker="o",
            markersize=4,
            capsize=3,
            label=key,
        )
    axes.set(xlabel="beta", ylabel="macro-F1 on test beats")
    axes.legend(frameon=False)
    return figure


def cases_figure(work: Path, results: dict[str, Any]) -> "Figure":
    """Figure 5: a patient whose class mix is near everybody's, and one far from it."""
    run = run_of(work, results, "FedAvg")
    data = training_data(run.cohort(), rr=False)
    counts = np.stack([data.class_counts(int(i)).numpy() for i in data.clients])
    apart = np.abs(counts / counts.sum(1, keepdims=True) - counts.sum(0) / counts.sum()).sum(1) / 2
    scored = {row["client"] for row in scores_of(run)["per_patient"] if row["classes"] > 1}
    order = [k for k in np.argsort(apart) if data.ids[int(data.clients[k])] in scored]
    figure, axes = new(2, width=10.0)
    for panel, k, word in zip(axes[0], (order[0], order[-1]), ("near", "far from"), strict=True):
        _case(panel, work, results, data.ids[int(data.clients[k])], f"{word} everybody's classes", float(apart[k]))
    return figure


def _case(axes: "Axes", work: Path, results: dict[str, Any], client: str, word: str, apart: float) -> None:
    for place, name in enumerate(CASES):
        (row,) = [one for one in scores_of(run_of(work, results, name))["per_patient"] if one["client"] == client]
        own, others = row["personal_f1"], row["generalisation_f1"]
        both = 2 * own * others / (own + others) if own + others else 0.0
        for offset, value, colour in zip((-0.25, 0.0, 0.25), (own, others, both), COLOURS, strict=False):
            axes.bar(place + offset, value, width=0.23, color=colour)
    for label, colour in zip(("on its own beats", "on everybody's", "both (eq. 6)"), COLOURS, strict=False):
        axes.bar(0, 0, color=colour, label=label)
    axes.set(xticks=range(len(CASES)), ylim=(0, 1.05), ylabel="macro-F1 of its personal model")
    axes.set_xticklabels(CASES, fontsize=8)
    axes.set_title(f"{client}, {word} (half the sum of differences {apart:.2f})", fontsize=9)
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=7, loc="lower left")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    given = arguments.parse_args()
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "ecgfed"  # the same figure gives the same bytes
    results = json.loads(Path(__file__).with_name("results.json").read_text())
    figures = {
        "frontier": frontier_figure(results),
        "clients": clients_figure(given.work, results),
        "losses": losses_figure(given.work, results),
        "beta": beta_figure(results),
        "cases": cases_figure(given.work, results),
    }
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            meta = {"Date": None} if kind == "svg" else None
            figure.savefig(given.out / f"results-{name}.{kind}", dpi=130, format=kind, metadata=meta)
        print(f"wrote {given.out / f'results-{name}'}.png and .svg", flush=True)


if __name__ == "__main__":
    script(main)
