"""The page of benchmarks/pacing is what its script makes of the results, and the package holds the weights it wrote."""

import json
from pathlib import Path

from ecgfed.domain.signal.pacing import bands
from ecgfed.domain.signal.pacing_features import NAMES

FOLDER = Path(__file__).parent.parent / "benchmarks" / "pacing"
RESULTS = json.loads((FOLDER / "results.json").read_text())


def test_every_paced_record_is_called_paced_and_no_other() -> None:
    for part in ("left out", "final"):
        for name, entry in RESULTS[part].items():
            assert (entry["false"], entry["false episodes"]) == ([], []), name
            paced = {record: one["paced"] for record, one in entry["paced records"].items()}
            assert paced == (dict.fromkeys(["102", "104", "107", "217"], True) if name.startswith("mitdb") else {})


def test_the_weights_name_every_feature() -> None:
    high, low = bands()
    assert (high.fs_hz, high.limit_hz, low.fs_hz, low.limit_hz) == (225, 100, 125, 55)
    assert len(high.weights) == len(low.weights) == len(NAMES)
