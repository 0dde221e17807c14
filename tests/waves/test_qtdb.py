"""On QTDB's manual annotations: what benchmarks/delineation states holds for a few of its records."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from loaded_scripts import BENCHMARKS, load_script

from ecgfed.domain.waves.points import POINTS, SETTINGS

#: Records by which no constant was chosen, and what a located point may be off in ms: mean, and standard deviation.
RECORDS = ("sel16273", "sele0133", "sele0405")
LIMITS = {"p_onset": (15, 20), "qrs_onset": (12, 12), "qrs_end": (15, 12), "t_end": (25, 25)}


@pytest.mark.qtdb
@pytest.mark.parametrize("name", RECORDS)
def test_waves_are_where_a_cardiologist_marked_them(qtdb: Path, name: str) -> None:
    run = load_script(BENCHMARKS / "delineation" / "run.py")
    _, testing = run.names(qtdb)
    assert name in testing
    of = run.read(qtdb, name)
    errors = run.closer(run.errors_ms(of, run.ours))
    for point, (mean, sd) in LIMITS.items():
        part = errors[:, POINTS.index(point)]
        assert np.isfinite(part).mean() > 0.9, point
        assert abs(np.nanmean(part)) < mean, point
        assert np.nanstd(part) < sd, point


def test_constants_are_those_that_were_chosen() -> None:
    chosen = json.loads((BENCHMARKS / "delineation" / "chosen.json").read_text("utf-8"))
    assert chosen["settings"] == asdict(SETTINGS)


def test_no_record_is_both_for_choosing_and_for_measuring() -> None:
    results = json.loads((BENCHMARKS / "delineation" / "results.json").read_text("utf-8"))
    chosen = json.loads((BENCHMARKS / "delineation" / "chosen.json").read_text("utf-8"))
    assert results["split"]["tuning"] == chosen["records"]
    assert not set(results["split"]["tuning"]) & set(results["split"]["testing"])


def test_an_error_is_located_less_annotated_and_the_closer_lead_is_taken_by_point() -> None:
    qtdb = load_script(BENCHMARKS / "delineation" / "qtdb.py")
    errors = np.full((2, 4, 7), np.nan)
    errors[0, :, 0], errors[1, :, 0] = [8.0, np.nan, -4.0, np.nan], [-2.0, 6.0, 12.0, np.nan]
    errors[:, :, 1:] = 1.0
    annotated = np.ones((4, 7))
    of = qtdb.summary([qtdb.closer(errors)], [annotated])["p_onset"]
    known = np.array([-2.0, 6.0, -4.0])
    assert of["mean"] == 0.0
    assert of["sd"] == round(float(known.std()), 1)
    assert of["missed_percent"] == 25.0
