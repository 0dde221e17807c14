"""What the network benchmark's results files hold; a thousand hospitals by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks" / "network"


def test_every_fault_that_is_written_down_held() -> None:
    rows = json.loads((FOLDER / "faults.json").read_text())["faults"]
    assert len(rows) >= 14
    assert all(row["held"] for row in rows)


def test_real_processes_on_mitbih_have_the_bits_of_one_machine() -> None:
    rows = json.loads((FOLDER / "mitbih.json").read_text())["mitbih"]
    assert {row["method"] for row in rows} == {"fedavg", "grp-fed", "scaffold", "fed-rod", "per-fedavg"}
    for row in rows:
        assert (row["server_difference"], row["kept_difference"], row["same_history"]) == (0.0, 0.0, True)
        assert (sum(row["patients"]), row["bundles"]) == (46, 3)


def test_a_thousand_hospitals_by_hand() -> None:
    """Slopes of straight lines, and products."""
    pytest.importorskip("flwr", reason="the script imports the network: needs Flower")
    cost = load_script(FOLDER / "cost.py")
    measured: list[dict[str, Any]] = [
        {
            "sites": sites,
            "leaf_bytes": {"up": 200_000, "down": 100_000},
            "cpu_s_after_round_1": {"flower-superlink": 100 * (0.05 + 0.01 * sites)},
            "seconds_after_round_1": 100.0,
            "peak_mib": {"flwr-serverapp": 300.0 + 2.0 * sites},
        }
        for sites in (2, 4, 8)
    ]
    found = cost.at_scale(measured)
    assert found["superlink_cores_per_site"] == pytest.approx(0.01)
    assert found["sites_for_one_core"] == pytest.approx(100)
    assert found["superlink_cores"] == pytest.approx(10)
    assert found["serverapp_mib_per_site_measured"] == pytest.approx(2)
    every, drawn, sums = found["rounds"]
    assert (every["bytes_up"], every["bytes_down"]) == (2e11, 1e8)
    assert every["line_s"] == pytest.approx(1600)
    assert (every["held_bytes"], every["fits_in_memory"]) == (4e11, False)
    assert (drawn["bytes_up"], drawn["fits_in_memory"]) == (2e8, True)
    assert drawn["sites"] == pytest.approx(632.3, abs=0.1)
    assert sums["bytes_up"] == 2e8


def test_a_part_that_is_tried_again_takes_the_place_of_its_rows() -> None:
    pytest.importorskip("flwr", reason="the script talks to Flower's server: needs Flower")
    before = [{"fault": "a", "held": True}, {"fault": "b", "held": True}]
    again = [{"fault": "b", "held": False}, {"fault": "c", "held": True}]
    assert load_script(FOLDER / "faults.py").merged(before, again) == [before[0], *again]
