"""How small a net may be: bytes in float and int8, parameters and multiplications a beat, against T_p.

    python benchmarks/width/run.py --source MITDB --work DIR [--widths 0.25 0.35 0.5 0.7 1] [--passes 5] [--seeds 0]

On the 46 MIT-BIH clients by record each width trains as ``ecgfed train --width`` does when nothing else is said, and is
exported with ``--int8``. T_p is the mean over patients of macro-F1 on their own test beats (classes in truth or
prediction), in float, and in int8 where the form was accepted on validation beats (else in float again). Bytes are of
the graphs of one patient's model, the largest one's. Every finished run is written into ``runs.json`` beside the
results at once, and what is there is not run again.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, prepared, remembered, save, table, trained
from forms import by_patient, chain_bytes, summary

import ecgfed
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import count_parameters
from ecgfed.core.nets.resnet1d import ResNet1d

WIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0)


def multiplications(spec: NetSpec) -> int:
    """Return the multiplications of convolutions and linear layers for one beat."""
    net = ResNet1d(spec)
    channels, kernel, stride = net.stem
    samples = -(-net.input_shape[1] // stride)
    total = samples * channels * kernel
    for out, kernel, stride in net.blocks:
        samples = -(-samples // stride)
        total += samples * out * (channels * kernel + out * kernel + channels)
        channels = out
    return total + net.features * (spec.rr_count + net.hidden) + net.hidden * spec.classes


def measured(cohort: ecgfed.Cohort, work: Path, runs: Path, width: float, passes: float, seed: int) -> dict[str, Any]:
    """Train, export and score one width, or read what is known of it."""

    def make() -> dict[str, Any]:
        name = f"width-{width:g}-{passes:g}-{seed}"
        run = trained(cohort, work / name, method="grp-fed", width=width, passes=passes, seed=seed, eval_every=0)
        bundle = ecgfed.export(run, work / f"{name}-bundle", int8=True, overwrite=True)
        spec = run.net.spec
        own = [(chain_bytes(bundle, client), chain_bytes(bundle, client, int8=True)) for client in bundle.patients]
        return {
            "width": width,
            "channels": [run.net.stem[0], *(block[0] for block in run.net.blocks), run.net.hidden],
            "parameters": count_parameters(run.net.initial(0)),
            "multiplications": multiplications(spec),
            "bytes_float": max(one[0] for one in own),
            "bytes_int8": max((one[1] for one in own if one[1] is not None), default=None),
            "rounds": run.plan.rounds,
            **summary(by_patient(bundle, cohort)),
        }

    return remembered(runs, f"{width:g}/{passes:g}/{seed}", make, cohort)


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    runs = given.results.with_name("runs.json")
    rows = [
        {"seed": seed, **measured(cohort, given.work, runs, width, given.passes, seed)}
        for width in given.widths
        for seed in given.seeds
    ]
    save(given, {"passes": given.passes, "rows": rows})
    print(rows_of(rows))


def rows_of(rows: list[dict[str, Any]]) -> str:
    """Return the table of the README."""
    columns = ("width", "channels", "parameters", "multiplications a beat", "bytes in float", "in int8")
    told = [
        (
            f"{row['width']:g}",
            "-".join(map(str, row["channels"])),
            f"{row['parameters']:,}",
            f"{row['multiplications']:,}",
            f"{row['bytes_float']:,}",
            "-" if row["bytes_int8"] is None else f"{row['bytes_int8']:,}",
            *(f"{row[key]:.3f}" for key in ("T_p_float", "T_p_int8", "T_g_float")),
            f"{row['accepted']} of {row['patients']}",
        )
        for row in rows
    ]
    return "\n".join(table((*columns, "T_p in float", "in int8", "T_g in float", "int8 accepted"), told))


if __name__ == "__main__":
    benchmark(
        main,
        option("--widths", type=float, nargs="+", default=list(WIDTHS)),
        option("--passes", type=float, default=5.0),
        option("--seeds", type=int, nargs="+", default=[0]),
    )
