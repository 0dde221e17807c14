"""The verbs on recordings that are read by blocks: what they find and write is what they do of the whole."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from record_files import edf_bytes
from support import Recorder

import ecgfed
from ecgfed.device import classifier, predictions
from ecgfed.domain.beats import blocks, context, path
from ecgfed.domain.beats.blocks import windows_by_blocks
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.cohort import record_beats
from ecgfed.domain.record import reader
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.domain.signal import beat_slopes, chunked_quality, findings
from ecgfed.domain.signal import peaks as peaks_module
from ecgfed.domain.signal.filters import BandPassed, Bridged, band_pass, bridge_samples, fill_gaps
from ecgfed.tasks import predict as predicting

BUNDLE = Path(__file__).parents[1] / "data" / "version-0.1" / "bundle"
LEADS = ("MLII", "V1")


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every recording of a thousand samples and more stays on the disk, and is looked at in small, odd chunks."""
    monkeypatch.setattr(reader, "LONG", 1000)
    monkeypatch.setattr(peaks_module, "PUSH_S", 7.3)
    monkeypatch.setattr(findings, "CHUNK_S", 13.7)
    monkeypatch.setattr(beat_slopes, "CHUNK_S", 13.7)
    monkeypatch.setattr(predicting, "_AT_ONCE", 17)
    monkeypatch.setattr(predictions, "_AT_ONCE", 23)
    monkeypatch.setattr(record_beats, "_AT_ONCE", 11)
    monkeypatch.setattr(blocks, "_IN_CONTEXT", 29)
    for function in (chunked_quality.quality_of, chunked_quality.spikes_of):
        monkeypatch.setitem(function.__kwdefaults__, "chunk_s", 12.0)
    monkeypatch.setitem(windows_by_blocks.__kwdefaults__, "chunk_s", 9.1)
    return monkeypatch


def record(folder: Path, name: str = "r", *, fs_hz: float = 250.0, beats: int = 120, seed: int = 0) -> Path:
    """Write a record with gaps on both leads, one at its beginning, and a spike."""
    made = write_record(folder, name, "NNVNNANN" * (beats // 8), fs_hz=fs_hz, seed=seed)
    read = wfdb.rdrecord(str(made), physical=False)
    digital = read.d_signal
    at = round(10.4 * fs_hz)
    digital[: round(1.7 * fs_hz)] = digital[4 * at : 4 * at + round(3 * fs_hz), 0] = -2048
    digital[6 * at : 6 * at + 5] = 2047
    more = {"adc_gain": read.adc_gain, "baseline": read.baseline, "write_dir": str(folder)}
    wfdb.wrsamp(name, fs=fs_hz, units=["mV"] * 2, sig_name=list(LEADS), d_signal=digital, fmt=["212"] * 2, **more)
    return made


@pytest.mark.parametrize(
    ("fs_hz", "rr_version", "times"), [(128.0, 1, 45), (250.0, 2, 400), (257.3, 2, 60), (360.0, 1, 45), (360.0, 2, 15)]
)
def test_beats_are_cut_as_from_the_whole(
    by_blocks: pytest.MonkeyPatch, tmp_path: Path, fs_hz: float, rr_version: int, times: int
) -> None:
    """The longest has more beats than the features of version 2 look back to, the shortest fewer than they wait for."""
    signal, _ = synthetic_signal("NNVN" * times, fs_hz=fs_hz)
    signal[: round(2 * fs_hz)] = signal[round(30 * fs_hz) : round(41 * fs_hz)] = signal[-40:] = np.nan
    np.save(tmp_path / "x.npy", np.stack([signal, -0.6 * signal]))
    options = BeatOptions(LEADS, how=ReadOptions(fs_hz, "mV", LEADS), rr_version=rr_version)
    whole = cut_beats(ecgfed.read_recording(tmp_path / "x.npy", LEADS, every_lead=True, how=options.how), options)
    opened = ecgfed.open_recording(tmp_path / "x.npy", LEADS, every_lead=True, how=options.how)
    assert opened.is_lazy
    long = cut_beats(opened, options)
    assert np.array_equal(long.r_samples, whole.r_samples)
    assert long.quality.stretches == whole.quality.stretches
    blocks = list(long.blocks())
    assert (len(long.r_samples) > context.HISTORY + context.LOOK_AHEAD) == (times == 400)
    assert len(blocks) > 2 or times == 15
    for name in ("window_mv", "rr_s", "flags"):
        assert np.array_equal(np.concatenate([getattr(one, name) for one in blocks]), getattr(whole.windows, name))
    keep = np.arange(3, len(long.r_samples), 7)
    some = list(long.blocks(keep))
    for name in ("window_mv", "rr_s", "flags"):
        assert np.array_equal(np.concatenate([getattr(one, name) for one in some]), getattr(whole.windows, name)[keep])
    filtered = BandPassed(Bridged(opened, "MLII", chunked_quality.gaps_of(opened, "MLII")))
    assert np.array_equal(filtered[500:900], band_pass(fill_gaps(signal, bridge_samples(fs_hz))[0], fs_hz)[500:900])


def test_predict_writes_the_same_bytes(by_blocks: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = record(tmp_path, beats=600)
    long = ecgfed.predict(BUNDLE, made, force=True)
    assert long.recording.is_lazy
    files = long.save(tmp_path / "long", strip=True)
    by_blocks.setattr(reader, "LONG", 10**9)
    whole = ecgfed.predict(BUNDLE, made, force=True)
    assert not whole.recording.is_lazy
    assert set(whole.poor) > {""}
    assert np.array_equal(long.probability, whole.probability)
    for mine, theirs in zip(files, whole.save(tmp_path / "whole", strip=True), strict=True):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name
    beats = json.loads((tmp_path / "long" / "r.json").read_text())["beats"]
    assert beats == list(whole.beats())


@pytest.mark.parametrize("peaks", ["annotated", "detected"])
def test_prepare_makes_the_same_cohort(by_blocks: pytest.MonkeyPatch, tmp_path: Path, peaks: str) -> None:
    for seed, name in enumerate(("r", "s")):
        record(tmp_path / "records", name, seed=seed)
    long = ecgfed.prepare_folder(tmp_path / "records", tmp_path / "long", peaks=peaks)
    by_blocks.setattr(reader, "LONG", 10**9)
    whole = ecgfed.prepare_folder(tmp_path / "records", tmp_path / "whole", peaks=peaks)
    assert len(whole.label) > 200
    assert long.meta == whole.meta
    assert {file.name for file in (tmp_path / "long").iterdir()} == {
        file.name for file in (tmp_path / "whole").iterdir()
    }


def test_inspect_says_the_same(by_blocks: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = record(tmp_path)
    long = ecgfed.inspect_recording(made, picture=tmp_path / "long.png")
    by_blocks.setattr(reader, "LONG", 10**9)
    whole = ecgfed.inspect_recording(made, picture=tmp_path / "whole.png")
    assert long.recording.is_lazy
    assert {**long.to_dict(), "picture": None} == {**whole.to_dict(), "picture": None}
    assert (tmp_path / "long.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


def beside_a_respiration(folder: Path, kind: str, *, respiration: bool) -> tuple[Path, ReadOptions]:
    """Write two leads, and perhaps first a respiration that beats as an ECG does, larger and at other times."""
    signal, _ = synthetic_signal("NNVN" * 30, fs_hz=250.0)
    other, _ = synthetic_signal("NN" * 90, fs_hz=250.0, rr_s=0.55, seed=1)
    samples = len(signal) // 250 * 250
    steps = np.rint(np.stack([1.5 * other[:samples], signal[:samples], -0.6 * signal[:samples]]) * 200).astype(int)
    names, first = ["RESP", *LEADS], 0 if respiration else 1
    steps, names = steps[first:], names[first:]
    folder.mkdir()
    if kind == "wfdb":
        units, zeros = ["mV"] * len(names), [0] * len(names)
        more = {"adc_gain": [200.0] * len(names), "baseline": zeros, "write_dir": str(folder)}
        wfdb.wrsamp("r", fs=250, units=units, sig_name=names, d_signal=steps.T, fmt=["16"] * len(names), **more)
        return folder / "r", ReadOptions()
    if kind == "edf":
        rows = [lead.reshape(-1, 250) for lead in steps]
        raw = edf_bytes(rows, labels=names, units=["mV"] * len(names), physical=("-5", "5"))
        (folder / "r.edf").write_bytes(raw)
        return folder / "r.edf", ReadOptions()
    np.save(folder / "r.npy", steps / 200)
    return folder / "r.npy", ReadOptions(250, "mV", tuple(names))


@pytest.mark.parametrize("kind", ["wfdb", "edf", "npy"])
def test_a_respiration_changes_nothing_that_is_found(by_blocks: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """Where the detector is given it, it finds other beats; so it is not, by blocks and of the whole."""
    both, how = beside_a_respiration(tmp_path / "both", kind, respiration=True)
    alone, how_alone = beside_a_respiration(tmp_path / "alone", kind, respiration=False)
    opened = ecgfed.open_recording(both, ("RESP",), every_lead=True, how=how)
    assert opened.is_lazy
    found = []
    for file, options in ((both, how), (alone, how_alone)):
        peaks = ecgfed.detect(file, leads=("II",), how=options).records[0]
        assert peaks.lead == "MLII"
        recording = ecgfed.open_recording(file, every_lead=True, how=options)
        assert ecgfed.detect(recording).records[0].sample.tolist() == peaks.sample.tolist()
        inspected = ecgfed.inspect_recording(file, how=options)
        assert list(inspected.quality) == list(LEADS)
        predicted = ecgfed.predict(BUNDLE, file, how=options, force=True)
        assert predicted.recording.is_lazy
        usable = [inspected.quality[lead].stretches for lead in LEADS]
        found.append((peaks.sample, predicted.probability, inspected.heart_rate_per_min, usable))
    peaks, probability, *others = found[0]
    assert len(peaks) == pytest.approx(120, abs=2)
    for more_peaks, more_probability, *more in found[1:]:
        assert np.array_equal(more_peaks, peaks)
        assert np.array_equal(more_probability, probability)
        assert more == others
    assert ecgfed.detect(opened, leads="MLII").records[0].sample.tolist() == peaks.tolist()
    assert peaks_module.find_peaks(replace(opened, lead="MLII")).tolist() != peaks.tolist()


def test_progress_of_a_long_recording_is_told(by_blocks: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reporter = Recorder()
    found = ecgfed.predict(BUNDLE, record(tmp_path, beats=240), force=True, progress=reporter)
    told = reporter.counted
    assert [done for done, _ in told["minutes read"]] == sorted(done for done, _ in told["minutes read"])
    assert told["minutes read"][-1][0] == told["minutes read"][-1][1] == 3
    assert told["beats"][-1] == (len(found), len(found))


def test_batches_end_where_they_do_in_the_whole() -> None:
    rng = np.random.default_rng(0)
    count = 5 * classifier.BATCH + 3
    every = path.Windows(
        rng.normal(size=(count, 1, 256)).astype("f4"), rng.normal(size=(count, 4)).astype("f4"), np.zeros(count, "u1")
    )
    blocks = [every.chosen(slice(start, start + 401)) for start in range(0, count, 401)]
    cut = list(classifier._aligned_batches(blocks))
    assert np.array_equal(np.concatenate([one.window_mv for one in cut]), every.window_mv)
    assert all(len(one.flags) % classifier.BATCH == 0 for one in cut[:-1])
    opened = ecgfed.open_bundle(BUNDLE).classifier(None)
    assert np.array_equal(opened.classify_blocks(blocks).probability, opened.classify(every).probability)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["detect", "predict"])
def test_two_weeks_take_less_than_500_mb(tmp_path: Path, verb: str) -> None:
    """One lead at 250 Hz, 302 million samples, half an hour of beats again and again."""
    signal, _ = synthetic_signal("NNNV" * 560, fs_hz=250.0)
    part, samples = np.rint(signal * 200).astype("<i2"), 14 * 86_400 * 250
    with (tmp_path / "r.dat").open("wb") as out:
        left = samples
        while left:
            out.write(part[:left].tobytes())
            left -= len(part[:left])
    whole, rest = divmod(samples, len(part))
    checksum = int(part.sum(dtype=np.int64)) * whole + int(part[:rest].sum(dtype=np.int64))
    checksum = (checksum + 2**15) % 2**16 - 2**15
    (tmp_path / "r.hea").write_text(f"r 1 250 {samples}\nr.dat 16 200/mV 16 0 {part[0]} {checksum} 0 MLII\n")
    work = f"ecgfed.detect({str(tmp_path / 'r')!r}, {str(tmp_path / 'out')!r}).records[0].sample"
    if verb == "predict":
        made = f"ecgfed.predict({str(BUNDLE)!r}, {str(tmp_path / 'r')!r}, force=True)"
        work = f"(p := {made}).save({str(tmp_path / 'out')!r}), p"
        work = f"({work})[1]"
    program = (  # VmHWM, not ru_maxrss: the latter begins at what the process that ran all the tests had
        "import ecgfed\n"
        f"found = {work}\n"
        "(peak,) = (line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM:'))\n"
        "print(len(found), int(peak) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    beats, peak_mb = map(int, done.stdout.split())
    assert beats == pytest.approx(samples / len(part) * 2240, rel=0.01)
    assert peak_mb < 500
