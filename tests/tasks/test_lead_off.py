"""A lead that is off beside a good one, noise before the first beat, steps into saturation: what each command says."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import Said, synthetic_signal
from record_files import write_leads

import ecgfed as package
from ecgfed.domain.beats.extract import without_qrs, without_signal
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.spans import Spans

pytestmark = pytest.mark.filterwarnings("ignore::ecgfed.tasks.progress.EcgfedWarning")

FS = 360.0
SYMBOLS = "N" * 60
OFF_S = (15.0, 25.0)


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A record whose MLII shows 30 microvolt of noise from 15 to 25 s, V5 the beats; and which beats lie there."""
    signal, r_samples = synthetic_signal(SYMBOLS, seed=3, noise_mv=0.01)
    mlii, (start, stop) = signal.copy(), (round(FS * at) for at in OFF_S)
    mlii[start:stop] = 0.03 * np.random.default_rng(0).standard_normal(stop - start)
    path = write_leads(tmp_path_factory.mktemp("off"), "off", {"MLII": mlii, "V5": 0.7 * signal})
    wfdb.wrann("off", "atr", r_samples, list(SYMBOLS), write_dir=str(path.parent))
    # by hand: those whose QRS, 70 ms before to 100 ms after R, lies in the noise, 40 ms from its ends at least
    inside = (r_samples - round(0.11 * FS) >= start) & (r_samples + round(0.14 * FS) < stop)
    return path, r_samples[inside]


def near(samples: np.ndarray, peaks: np.ndarray) -> list[bool]:
    return [bool(np.abs(samples - at).min() <= 0.1 * FS) for at in peaks.tolist()]


def summed(excluded: dict[str, dict[str, object]]) -> bool:
    return all(one["read"] == one["used"] + sum(one["excluded"].values()) for one in excluded.values())  # type: ignore


def test_predict_report_and_label_exclude_the_same_beats(off: tuple[Path, np.ndarray]) -> None:
    path, inside = off
    found = package.predict(path, peaks="annotated")
    silent = found.sample[found.symbols == "Q"]
    assert len(inside) > 8
    assert all(near(silent, inside))
    assert len(silent) - len(inside) in (0, 1, 2), "one at each edge may be either"
    counted = {"read": len(found), "used": len(found) - len(silent), "excluded": {"no_signal": len(silent)}}
    report = package.report(path, peaks="annotated").to_dict()
    assert report["excluded"]["beats"] == found.metadata["excluded"]["beats"] == counted
    assert summed(report["excluded"])
    page = package.label(path, peaks="annotated")
    assert page.to_dict()["excluded"]["beats"] == counted
    assert page.to_dict()["beats"] == counted["used"]
    asked: dict[int, str] = {}
    while (beat := page.next_beat(asked)) is not None:
        asked[beat] = "N"
    assert not any(near(silent, np.array(list(asked)))), "nobody is asked about such a beat"


def test_personalize_spreads_no_label_over_them(off: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    path, inside = off
    marks = wfdb.rdann(str(path), "atr")
    lines = [f"{at},{at / FS:.3f},N" for at in marks.sample[::4].tolist()]
    (tmp_path / "labels.csv").write_text("\n".join(["sample,time_s,label", *lines, ""]))
    own = package.personalize_labels(path, tmp_path / "own", labels=tmp_path / "labels.csv", peaks="annotated")
    given, told = set(marks.sample[::4].tolist()), own.to_dict()
    silent = [at for at in inside.tolist() if at in given]
    source = dict(zip(own.labels.sample.tolist(), own.labels.source.tolist(), strict=True))
    symbol = dict(zip(own.labels.sample.tolist(), own.labels.symbol.tolist(), strict=True))
    for at in inside.tolist():
        peak = min(source, key=lambda one: abs(one - at))
        expected = ("clinician", "N") if at in given else ("model", "Q")
        assert (source[peak], symbol[peak]) == expected
    assert told["labels_without_signal"] >= len(silent) > 1
    assert sum(told["labels"].values()) + told["labels_without_signal"] + told["labels_at_no_beat"] == len(lines)
    beats = told["excluded"]["beats"]
    assert summed(told["excluded"])
    assert told["expected_wrong"]["of"] == beats["used"] < beats["read"] == told["beats"]
    assert beats["excluded"] == {"no_signal": told["beats"] - beats["used"]}


def test_noise_before_the_first_beat_is_no_beat(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    signal, r_samples = synthetic_signal(SYMBOLS[:40], seed=5, noise_mv=0.005)
    noise = 0.05 * np.random.default_rng(1).standard_normal(round(30 * FS))
    path = write_leads(tmp_path, "late", {"MLII": np.r_[noise, signal]})
    true = r_samples + len(noise)
    found = package.predict(path)
    assert near(found.sample, true) == [True] * len(true)
    assert len(found) == len(true)
    noisy = found.metadata["excluded"]["beats"]["excluded"]["end_noise"]
    assert noisy > 3, "the detector, a stream, takes some for beats"
    told = json.loads(ecgfed("detect", path, "--out", tmp_path / "peaks", "--json").out)
    assert told["records"][0]["beats"] == len(true)
    assert told["excluded"]["beats"] == {"read": len(true) + noisy, "used": len(true), "excluded": {"end_noise": noisy}}
    assert package.report(path).to_dict()["excluded"]["beats"] == told["excluded"]["beats"]


def test_windows_without_qrs_by_hand() -> None:
    window_mv = np.zeros((3, 1, 256), np.float32)
    window_mv[0, 0, 100], window_mv[1, 0, 100], window_mv[2, 0, 60] = 0.06, 0.04, 1.0  # a wave 110 ms before R
    assert without_qrs(window_mv, 0.05).tolist() == [False, True, True]
    assert not without_qrs(window_mv, 0.0).any()


def test_a_wave_beside_the_rail_is_a_step() -> None:
    """0.3 s and more at the rail within 0.1 s of the peak; a clipped R wave is shorter."""
    window_mv = np.zeros((1, 1, 256), np.float32)
    window_mv[0, 0, 100] = 1.0
    rail, clipped = Spans.merged([(1000, 1108)]), Spans.merged([(1000, 1100)])

    def silent(at: int, spans: Spans) -> bool:
        return bool(without_signal(window_mv, FS, np.array([at]), Spans.merged([]), rail=spans)[0])

    assert [silent(at, rail) for at in (963, 964, 1143, 1144)] == [False, True, True, False]
    assert not any(silent(at, clipped) for at in (964, 1050, 1110))


def test_no_class_at_a_step_out_of_saturation() -> None:
    signal, _ = synthetic_signal(SYMBOLS[:40], seed=6, noise_mv=0.01)
    start, stop = round(15.0 * FS), round(17.0 * FS)
    signal[start:stop] = 5.0
    found = package.predict(Recording("r", Path("r"), "MLII", ("MLII",), FS, signal[None], ()))
    beside = (np.abs(found.sample - start) <= 36) | (np.abs(found.sample - stop) <= 36)
    assert set(found.symbols[beside].tolist()) <= {"Q"}


def test_labels_that_leave_out_beats_make_no_pause(tmp_path: Path) -> None:
    signal, r_samples = synthetic_signal(SYMBOLS, seed=7, noise_mv=0.01)
    path = write_leads(tmp_path, "r", {"MLII": signal, "V5": 0.7 * signal})
    kept = np.delete(r_samples, [30, 31, 32])
    wfdb.wrann("r", "atr", kept, ["N"] * len(kept), write_dir=str(tmp_path))
    told = package.report(path, labels=tmp_path / "r.atr").to_dict()
    pause = (r_samples[33] - r_samples[29]) / FS
    assert told["pauses"]["found"] == []
    assert [one["value"] for one in told["pauses"]["not_confirmed"]] == [pytest.approx(pause)]
    assert "labels-miss-beats" in {one["code"] for one in told["warnings"]}
    assert told["rates"]["lowest"]["value"] > 60
    quiet = signal.copy()
    quiet[r_samples[29] + 150 : r_samples[33] - 60] = 0.15 * np.sin(
        2 * np.pi * 0.2 * np.arange(r_samples[29] + 150, r_samples[33] - 60) / FS
    )
    path = write_leads(tmp_path, "q", {"MLII": quiet, "V5": 0.7 * quiet})
    wfdb.wrann("q", "atr", kept, ["N"] * len(kept), write_dir=str(tmp_path))
    told = package.report(path, labels=tmp_path / "q.atr").to_dict()
    assert [one["value"] for one in told["pauses"]["found"]] == [pytest.approx(pause)]


def test_labels_where_no_lead_shows_a_beat_are_not_confirmed(tmp_path: Path) -> None:
    signal, r_samples = synthetic_signal(SYMBOLS, seed=8, noise_mv=0.01)
    start, stop = round(15.0 * FS), round(25.0 * FS)
    rng = np.random.default_rng(2)
    leads = {"MLII": signal.copy(), "V5": 0.7 * signal}
    for lead in leads.values():
        lead[start:stop] = 0.01 * rng.standard_normal(stop - start)
    path = write_leads(tmp_path, "r", leads)
    wfdb.wrann("r", "atr", r_samples, list(SYMBOLS), write_dir=str(tmp_path))
    told = package.report(path, labels=tmp_path / "r.atr").to_dict()
    text = next(one["text"] for one in told["warnings"] if one["code"] == "labels-without-signal")
    inside = int(((r_samples > start + 36) & (r_samples < stop - 36)).sum())
    assert f"at {inside} labels of r.atr" in text
    assert "labels-without-signal" not in {
        one["code"]
        for one in package.report(write_leads(tmp_path, "g", {"MLII": signal}), labels=tmp_path / "r.atr").to_dict()[
            "warnings"
        ]
    }


def test_detect_writes_the_good_ones_and_names_the_bad(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    signal, r_samples = synthetic_signal(SYMBOLS[:20], seed=9)
    good = write_leads(tmp_path / "in", "good", {"MLII": signal})
    bad = write_leads(tmp_path / "in", "bad", {"MLII": np.full(7200, 0.001)})
    said = ecgfed("detect", good, bad, "--out", tmp_path / "out", "--json")
    assert said.code == 1
    told = json.loads(said.out)
    assert [one["record"] for one in told["records"]] == ["good"]
    assert [one["file"] for one in told["failed"]] == [str(bad)]
    assert str(bad) in said.err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["good.qrs"]
    assert len(wfdb.rdann(str(tmp_path / "out" / "good"), "qrs").sample) == len(r_samples)
    alone = ecgfed("detect", bad, "--out", tmp_path / "alone")
    assert alone.code == 2
    assert str(bad) in alone.err
    assert not (tmp_path / "alone").exists()
    assert ecgfed("detect", tmp_path / "in", "--out", tmp_path / "folder").code == 1


def test_a_single_ecg_needs_no_lead(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    signal, _ = synthetic_signal(SYMBOLS[:30], seed=10)
    breath = np.sin(np.arange(len(signal)) / 200)
    one = write_leads(tmp_path, "one", {"V6": signal, "RESP": breath})
    found = package.predict(one)
    assert found.recording.lead == "V6"
    assert "other-lead" in {warning["code"] for warning in found.metadata["warnings"]}
    assert found.metadata["excluded"]["channels"] == {"read": 2, "used": 1, "excluded": {"no_ecg": 1}}
    assert package.report(one).to_dict()["lead"] == "V6"
    assert package.label(one).to_dict()["lead"] == "V6"
    two = write_leads(tmp_path, "two", {"signal 0": signal, "signal 1": 0.5 * signal})
    for command in (("predict",), ("label",)):
        said = ecgfed(*command, two, "--out", tmp_path / "out")
        assert said.code == 2
        assert "--lead 'signal 0'" in said.err
    assert ecgfed("predict", two, "--lead", "signal 0", "--out", tmp_path / "out").code == 0
    breathing = ecgfed("predict", one, "--leads", "V6,RESP", "--out", tmp_path / "out")
    assert "RESP is not an ECG channel" in breathing.err
