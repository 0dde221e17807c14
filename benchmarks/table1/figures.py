"""The frontier, and the paper's figures 1, 3, 4 and 5, from the runs of table 1: PNG and SVG into docs/images.

    python benchmarks/table1/figures.py --source MITDB --work DIR [--out docs/images]

From ``results.json`` and ``runs.json`` beside this file; seed 0 where a figure shows one run. A figure whose runs are
not finished is not drawn, and of docs/images none whose numbers are those it was drawn from (``drawn.sha256``; remove a
line to have a figure anew). The features of figure 1 need FedAvg's model, which is trained once more where DIR does not
hold it.
"""

import argparse
import hashlib
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    LONGER,
    OF_ITS_MODEL,
    OF_LONGER,
    ROOT,
    WITH_SIXTY,
    benchmark,
    known_runs,
    option,
    prepared,
    results_of,
)
from methods import CASES, CURVES, FAR, NEAR, latest_stage
from names import name_points
from run import RUNS, trained_run

import ecgfed
from ecgfed.base.errors import RunError
from ecgfed.core.federation.data import training_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Distinguishable in grey and by the colour-blind (Okabe and Ito 2008), with a line style each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7")
STYLES = ("-", "--", ":", "-.")
#: Of the flagship's benchmark, what has no RR intervals.
WITHOUT_RR = "FedGate, windows alone"
#: Their answers are made from a finished global model, too.
AFTERWARDS = ("FedAvg", "FedGate", LONGER)
#: A name, whether it is made afterwards, T_p and T_r.
Point = tuple[str, bool, float, float]
IMAGES = ROOT / "docs" / "images"
#: Says of what numbers the committed figures are.
DRAWN = Path(__file__).with_name("drawn.sha256")
#: Beats of a client that figure 1 shows.
SHOWN = 60


def row_of(results: dict[str, Any], name: str) -> dict[str, Any]:
    """A method's row of the table."""
    (row,) = [row for row in results[latest_stage(results)] if row["name"] == name]
    return dict(row)


def known_of(results: dict[str, Any], name: str) -> dict[str, Any]:
    """What is kept of the run of a method's first seed.

    Raises:
        RunError: it is not there.
    """
    key = f"{latest_stage(results)}/{name}/{row_of(results, name)['trial']}/0"
    known = known_runs(RUNS).get(key)
    if known is None:
        raise RunError(RUNS, f"lacks {key}", "the first seed of what is drawn", "run benchmarks/table1/run.py")
    return dict(known)


def drawn_from(results: dict[str, Any], flagship: dict[str, Any] | None) -> dict[str, str]:
    """Return the SHA-256 of the numbers of each figure that can be drawn: one older than its numbers is found."""
    there = {row["name"] for row in results[latest_stage(results)]}
    of_flagship = [frontier_of_flagship(flagship["methods"], of) for of in (20, 60)] if flagship else None
    shown: dict[str, Any] = {"frontier": [results["passes"], results.get("sixty"), of_flagship]}
    shown |= {
        figure: {name: known_of(results, name) for name in names}
        for figure, names in {"clients": ("FedAvg",), "losses": CURVES, "cases": CASES}.items()
        if there.issuperset(names)
    }
    if len(results.get("beta", ())) > 1:
        shown["beta"] = results["beta"]
    return {name: hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest() for name, one in shown.items()}


def known_drawn() -> dict[str, str]:
    """Return of what numbers the committed figures are, as ``drawn_from`` does."""
    lines = DRAWN.read_text().splitlines() if DRAWN.is_file() else []
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


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


def clients_figure(cohort: ecgfed.Cohort, work: Path, results: dict[str, Any]) -> "Figure":
    """Figure 1: features of some beats of each client, the clients' classes, and FedAvg's macro-F1 on each."""
    from sklearn.manifold import TSNE

    row, stage = row_of(results, "FedAvg"), latest_stage(results)
    folder = work / f"{stage}_FedAvg_{row['trial']}_0"
    run = trained_run(cohort, folder, stage, "FedAvg", row["settings"], 0)
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
    by_client = known_of(results, "FedAvg")["drawn"]["by_patient"]["T_g"]
    values = [by_client.get(data.ids[i], np.nan) for i in order]
    score.barh(range(len(order)), values, color=COLOURS[0])
    score.set(xlabel="macro-F1 of FedAvg's global model", yticks=[], xlim=(0, 1))
    return figure


def frontier_figure(results: dict[str, Any], flagship: dict[str, Any] | None) -> "Figure":
    """T_p against T_r, every method and personal answer: windows alone, twice, and beside them with RR intervals."""
    panels = [("windows alone, 12 passes", frontier_of_table(results["passes"]))]
    if sixty := results.get("sixty"):
        least, most = (of(row["seeds"] for row in sixty) for of in (min, max))
        seeds = f"{least} to {most} seeds" if most > least else f"{most} {'seed' if most == 1 else 'seeds'}"
        title = f"windows alone, 60 passes ({seeds})"
        panels.append((title, frontier_of_table(sixty)))
    if flagship is not None:
        ours = {passes: frontier_of_flagship(flagship["methods"], passes) for passes in (20, 60)}
        panels += [(f"with RR intervals, {passes} passes", points) for passes, points in ours.items() if points]
    figure, grid = new(2, rows=math.ceil(len(panels) / 2), width=13.0, height=5.5)
    panel = grid.flatten()[: len(panels)]
    for axes in grid.flatten()[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, points) in zip(panel, panels, strict=True):
        for _, simple, x, y in points:
            axes.plot(x, y, "s" if simple else "o", color=COLOURS[1] if simple else COLOURS[0], markersize=5)
        axes.margins(x=0.15)  # room for the names
        axes.set(xlabel="T_p: on the patient's own beats", ylabel="T_r: on everybody's beats", title=title)
    panel[0].plot([], [], "o", color=COLOURS[0], label="what a method answers a patient with")
    panel[0].plot([], [], "s", color=COLOURS[1], label="made from a global model when training is over")
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    figure.canvas.draw()  # lays the panels out, so that it is known where points and names lie
    for axes, (_, points) in zip(panel, panels, strict=True):
        name_points(axes, [(name, x, y) for name, _, x, y in points])
    return figure


def frontier_of_table(rows: Sequence[dict[str, Any]]) -> list[Point]:
    """Name, whether it is made afterwards, T_p and T_r, of every row of a stage of table 1."""
    return [
        (
            row["name"].removeprefix("FedAvg, "),
            row["name"].startswith("FedAvg, ") or row["name"] == "FedGate",
            row["scores"]["T_p"]["mean"],
            row["scores"]["T_r"]["mean"],
        )
        for row in rows
    ]


def frontier_of_flagship(methods: dict[str, Any], passes: int) -> list[Point]:
    """The same of the flagship's benchmark; FedAvg answers there with the classes a patient has.

    With 60 passes there are FedGate, what is made from its global models, and GRP-FED.
    """
    points, begin = [], OF_LONGER if passes == 60 else OF_ITS_MODEL
    for name, runs in methods.items():
        own, everybody = (statistics.fmean(run["test"][key] for run in runs) for key in ("T_p", "T_r"))
        longer = name in WITH_SIXTY or name.startswith(OF_LONGER)
        if longer != (passes == 60) or name == WITHOUT_RR:
            continue
        simple = name.startswith(begin) or name in AFTERWARDS
        shown = name.removeprefix(begin).removesuffix(", 60 passes").replace("FedAvg", "FedAvg, masked")
        points.append((shown, simple, own, everybody))
    return points


def losses_figure(results: dict[str, Any]) -> "Figure":
    """Figure 3: mean and largest training loss over the rounds, four methods."""
    from matplotlib.ticker import LogLocator

    figure, ((mean, worst),) = new(2)
    for name, colour, style in zip(CURVES, COLOURS, STYLES, strict=False):
        passes, *curves = zip(*known_of(results, name)["drawn"]["losses"], strict=True)
        for axes, curve in zip((mean, worst), curves, strict=True):
            width = min(9, 2 * ((len(passes) - 1) // 2) + 1)  # rounds that a point is the mean of, an odd number
            smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
            axes.plot(
                passes[width // 2 : len(passes) - width // 2], smooth, style, color=colour, label=name, linewidth=1.2
            )
    for axes, title in ((mean, "mean over clients"), (worst, "client with the largest")):
        axes.set(xlabel="passes of the training beats", ylabel="training loss", yscale="log", title=title)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda _value, _: "")
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


def cases_figure(cohort: ecgfed.Cohort, results: dict[str, Any]) -> "Figure":
    """Figure 5: a patient whose class mix is near everybody's, and one far from it."""
    data = training_data(cohort, rr=False)
    counts = np.stack([data.class_counts(int(i)).numpy() for i in data.clients])
    apart = np.abs(counts / counts.sum(1, keepdims=True) - counts.sum(0) / counts.sum()).sum(1) / 2
    scored = set(known_of(results, "FedAvg")["drawn"]["several"])
    order = [k for k in np.argsort(apart) if data.ids[int(data.clients[k])] in scored]
    chosen = [(data.ids[int(data.clients[k])], float(apart[k])) for k in (order[0], order[-1])]
    if [client for client, _ in chosen] != [NEAR, FAR]:
        found = " and ".join(client for client, _ in chosen)
        raise RunError(RUNS, f"has {found} nearest and farthest", f"{NEAR} and {FAR}", "name them in methods.py")
    figure, axes = new(2, width=10.0)
    for panel, (client, far), word in zip(axes[0], chosen, ("near", "far from"), strict=True):
        _case(panel, results, client, f"{word} everybody's classes", far)
    return figure


def _case(axes: "Axes", results: dict[str, Any], client: str, word: str, apart: float) -> None:
    for place, name in enumerate(CASES):
        known = known_of(results, name)
        own, others = known["patients"][client], known["drawn"]["by_patient"]["T_r"][client]
        both = 2 * own * others / (own + others) if own + others else 0.0
        for offset, value, colour in zip((-0.25, 0.0, 0.25), (own, others, both), COLOURS, strict=False):
            axes.bar(place + offset, value, width=0.23, color=colour)
    for label, colour in zip(("on its own beats", "on everybody's", "both (eq. 6)"), COLOURS, strict=False):
        axes.bar(0, 0, color=colour, label=label)
    axes.set(xticks=range(len(CASES)), ylim=(0, 1.05), ylabel="macro-F1 of its personal model")
    axes.set_xticklabels(CASES, fontsize=8)
    axes.set_title(f"{client}, {word} (half the sum of differences {apart:.2f})", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)


def main(given: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "ecgfed"  # the same figure gives the same bytes
    results = json.loads(Path(__file__).with_name("results.json").read_text())
    cohort = prepared(given.source, given.work, by="record")
    flagship = results_of("flagship")
    figures = {
        "frontier": lambda: frontier_figure(results, flagship),
        "clients": lambda: clients_figure(cohort, given.work, results),
        "losses": lambda: losses_figure(results),
        "beta": lambda: beta_figure(results),
        "cases": lambda: cases_figure(cohort, results),
    }
    shown, before = drawn_from(results, flagship), known_drawn() if given.out == IMAGES else {}
    for name, digest in shown.items():
        files = {kind: given.out / f"results-{name}.{kind}" for kind in ("png", "svg")}
        if before.get(name) == digest and all(file.is_file() for file in files.values()):
            print(f"{given.out / f'results-{name}'} is of these numbers already", flush=True)
            continue
        figure = figures[name]()
        for kind, file in files.items():
            meta = {"Date": None} if kind == "svg" else None
            figure.savefig(file, dpi=130, format=kind, metadata=meta)
        print(f"wrote {given.out / f'results-{name}'}.png and .svg", flush=True)
    if given.out == IMAGES:
        DRAWN.write_text("".join(f"{digest}  {name}\n" for name, digest in shown.items()))


if __name__ == "__main__":
    benchmark(
        main,
        option("--source", type=Path, help="folder with the 48 MIT-BIH records"),
        option("--work", type=Path, required=True, help="folder of benchmarks/table1/run.py"),
        option("--out", type=Path, default=IMAGES),
        standard=False,
    )
