"""Real recordings through the C sources, beat by beat beside Python."""

from pathlib import Path

import numpy as np
import pytest
from mcu_sources import run_c, same_as_python

from ecgfed.domain.record.reader import read_recording
from ecgfed.exports.device.classifier import Classifier

pytest_plugins = ("mcu_fixtures",)
pytestmark = [pytest.mark.mcu, pytest.mark.mitdb]


@pytest.mark.parametrize("record", ["208", "114"])
def test_a_real_record(program: Path, int8_classifier: Classifier, mitdb: Path, tmp_path: Path, record: str) -> None:
    signal_mv = np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)[: 10 * 60 * 360]
    said = same_as_python(run_c(program, signal_mv, tmp_path), signal_mv, int8_classifier)
    assert len(said.label) > 500
