"""What a stream in JavaScript announces and puts right, beside Python's: the same beats, ids, times and classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from node_runtime import in_node, own
from numpy.typing import NDArray
from support import exported

import ecgfed
from ecgfed.device import StreamBeat, StreamClassifier, open_bundle
from ecgfed.domain.record.reader import open_recording

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
Floats = NDArray[np.float64]
#: Stage, id, R peak, samples received since then, class; of a final beat without the time: Python puts beats through in
#: blocks of eight.
Report = tuple[str, int, int, int, int]


def report(stage: str, beat: int, sample: int, late: float, label: int) -> Report:
    return stage, beat, sample, -1 if stage == "final" else round(late), label


def javascripts(bundle: Path, signals: Floats, fs_hz: float, sizes: list[int]) -> list[dict[str, Any]]:
    told = {"fsHz": fs_hz, "leads": ["MLII", "V1"][: len(signals)], "signalsMv": signals}
    job = own("streamed", {"bundle": str(bundle)}, told, {"lead": 0, "early": True}, sizes)
    return list(in_node(job, packages=("onnxruntime-node",))[0]["beats"])


def pythons(bundle: Path, signals: Floats, fs_hz: float) -> list[StreamBeat]:
    """Return what Python reports, without classes repeated for their override, which JavaScript does not have."""
    stream = StreamClassifier(open_bundle(bundle).classifier(), fs_hz, leads=len(signals), early=True)
    shown: dict[int, int] = {}
    kept = []
    for beat in stream.push(signals) + stream.finish():
        if beat.stage != "early" or shown.get(beat.beat) != beat.label:
            kept.append(beat)
        if beat.stage == "early":
            shown[beat.beat] = beat.label
    return kept


def compare(bundle: Path, signals: Floats, fs_hz: float, sizes: list[int]) -> set[str]:
    """Compare all reports; return their stages."""
    found, python = javascripts(bundle, signals, fs_hz, sizes), pythons(bundle, signals, fs_hz)
    mine = [report(b["stage"], b["beat"], b["sample"], b["lateS"] * fs_hz, b["label"]) for b in found]
    theirs = [report(b.stage, b.beat, b.sample, b.late_s * fs_hz, b.label) for b in python]
    for is_final in (False, True):
        assert [one for one in mine if (one[0] == "final") == is_final] == [
            one for one in theirs if (one[0] == "final") == is_final
        ]
    by = {one: beat["probabilities"] for one, beat in zip(mine, found, strict=True)}
    apart = [np.abs(by[one] - beat.probabilities).max() for one, beat in zip(theirs, python, strict=True)]
    assert max(apart) < 1e-4
    return {one[0] for one in mine}


def spoiled(signals: Floats, fs_hz: float) -> Floats:
    """Add a spike, noise, a gap, a lead that comes off and a pause."""
    signals, rng = signals.copy(), np.random.default_rng(5)

    def part(second: float, seconds: float) -> slice:
        return slice(round(second * fs_hz), round((second + seconds) * fs_hz))

    signals[:, part(18.3, 0.03)] += 8.0
    signals[:, part(25, 6)] += rng.normal(0, 0.5, signals[:, part(25, 6)].shape)
    signals[:, part(35, 3)] = np.nan
    signals[0, part(42, 5)] = 0.0
    signals[:, part(50, 3)] = signals[:, part(50, 3)][:, :1]
    return signals


@pytest.mark.mitdb
@pytest.mark.parametrize(("record", "start_s", "noisy"), [("100", 0, False), ("208", 300, False), ("203", 60, True)])
def test_a_real_record_is_announced_as_in_python(mitdb: Path, record: str, start_s: int, noisy: bool) -> None:
    recording = open_recording(mitdb / record, ("MLII",), every_lead=True)
    fs_hz = recording.fs_hz
    signals = np.asarray(recording.signals_mv, np.float64)[:, round(start_s * fs_hz) :][:, : round(150 * fs_hz)]
    stages = compare(MODEL, spoiled(signals, fs_hz) if noisy else signals, fs_hz, [18])
    assert {"announced", "added", "early", "final"} | ({"moved"} if noisy else set()) <= stages


@pytest.mark.parametrize(("fs_hz", "leads"), [(128.0, 2), (257.3, 1)])
def test_other_sampling_frequencies_and_one_lead(fs_hz: float, leads: int) -> None:
    one, _ = synthetic_signal("NNVNNANN" * 10, fs_hz=fs_hz, seed=5)
    assert "withdrawn" in compare(MODEL, spoiled(np.stack([one, -0.6 * one])[:leads], fs_hz), fs_hz, [500, 1, 33])


def test_features_of_version_2(fedavg_run: Path) -> None:
    one, _ = synthetic_signal("NNVNNANN" * 8, fs_hz=250.0, seed=6)
    compare(exported(fedavg_run), one[None], 250.0, [125])


def test_how_samples_come_changes_no_report() -> None:
    one, _ = synthetic_signal("NNVNNANN" * 10, fs_hz=250.0, seed=5)
    signals = spoiled(np.stack([one, -0.6 * one]), 250.0)
    whole, parts = (javascripts(MODEL, signals, 250.0, sizes) for sizes in ([10**9], [7, 4001]))
    for mine, other in zip(whole, parts, strict=True):
        assert np.array_equal(mine.pop("probabilities"), other.pop("probabilities"))
        assert mine == other


def test_another_value_of_early_is_refused() -> None:
    options = [{"fsHz": 360, "early": "soon"}]
    (found,) = in_node(own("made", {"bundle": str(MODEL)}, options), packages=("onnxruntime-node",))
    assert found[0]["refused"] == 'early: is soon; expected true, false or "decided"'
