"""The model in the package in the form of this ecgfed: the same weights, nothing trained, its card from results.json.

    python benchmarks/shipped/renew.py [--source DIR] [--model DIR] [--trace]

Says by how much its logits differ, on its golden beats, from those of the model as it was.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from card import card_of, card_texts
from common import benchmark, option

import ecgfed
from ecgfed.exports.bundles.golden import golden_of
from ecgfed.exports.bundles.renew import renewed_bundle
from ecgfed.exports.device.golden import check_golden
from ecgfed.exports.device.shipped import MODEL


def main(given: argparse.Namespace) -> None:
    results = json.loads(Path(__file__).with_name("results.json").read_text())
    old = ecgfed.open_bundle(given.source or given.model)
    before = golden_of(old)["global"]["float"]["logits"]
    card = card_texts(card_of(results))
    new = renewed_bundle(old, given.model, card=card, trace=given.trace, overwrite=True)
    apart = np.abs(np.subtract(golden_of(new)["global"]["float"]["logits"], before)).max()
    size = sum(file.stat().st_size for file in given.model.iterdir())
    print(f"wrote {given.model}, {size:,} bytes; logits differ by {apart:g}; {check_golden(new)}")


if __name__ == "__main__":
    benchmark(
        main,
        option("--model", type=Path, default=MODEL, help="the folder to write anew"),
        option("--source", type=Path, default=None, help="the bundle to begin from; default that folder"),
        option("--trace", action="store_true", help="trace the graphs anew, from the weights in them"),
        standard=False,
    )
