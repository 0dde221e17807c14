"""EDF and EDF+ written byte by byte from the specification: the right millivolts, gaps, marks, or one line."""

from pathlib import Path

import edfio
import numpy as np
import pytest
import wfdb
from record_files import edf_annotation, edf_bytes

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.reader import read_annotation, read_recording
from ecgfed.domain.record.recording import ReadOptions, Recording

FS = 200
#: Two channels of three data records of a second; 1000 steps are 5 mV.
RAMP = [[list(range(200 * r, 200 * r + 200)) for r in range(3)], [[-100 * r] * FS for r in range(3)]]
MLII_MV, V1_MV = np.arange(600) * 0.005, np.repeat([0, -0.5, -1.0], FS)


def write(folder: Path, *args: object, name: str = "r.edf", **how: object) -> Path:
    path = folder / name
    path.write_bytes(edf_bytes(*(args or (RAMP,)), **how))  # type: ignore[arg-type]
    return path


def fails(path: Path, leads: tuple[str, ...] = ("MLII",), **how: object) -> str:
    with pytest.raises(RecordError) as caught:
        read_recording(path, leads, **how)  # type: ignore[arg-type]
    assert "\n" not in caught.value.line
    assert str(path) in caught.value.line
    return caught.value.line


def test_physical_values_are_the_line_through_the_four_ranges(tmp_path: Path) -> None:
    read = read_recording(write(tmp_path), ("MLII",), every_lead=True)
    np.testing.assert_allclose(read.signals_mv, [MLII_MV, V1_MV], atol=1e-12)
    assert (read.name, read.lead, read.leads, read.fs_hz, read.duration_s) == ("r", "MLII", ("MLII", "V1"), 200.0, 3.0)
    assert read.comments[0] == "patient: MCH-0234567 F 02-MAY-1951 Haagse_Harry"
    assert read.files == (tmp_path / "r.edf",)


def test_ranges_need_not_be_symmetric(tmp_path: Path) -> None:
    """digital -1000..1000 to physical 0..4: 0 is 2 mV, and 1 step 2 microvolt; a falling range turns the lead over."""
    path = write(tmp_path, [[[0, 1, -1000, 1000] * 50]], physical=("0", "4"))
    np.testing.assert_allclose(read_recording(path, ("MLII",)).signal_mv[:4], [2, 2.002, 0, 4], atol=1e-12)
    path = write(tmp_path, [[[0, 1, -1000, 1000] * 50]], physical=("4", "0"))
    np.testing.assert_allclose(read_recording(path, ("MLII",)).signal_mv[:4], [2, 1.998, 4, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("unit", "millivolt"), [("mV", 1.0), ("uV", 1e-3), ("\u00b5V", 1e-3), ("V", 1e3), ("nV", 1e-6)]
)
def test_units_become_millivolt(tmp_path: Path, unit: str, millivolt: float) -> None:
    read = read_recording(write(tmp_path, units=(unit, unit)), ("V1",))
    np.testing.assert_allclose(read.signal_mv, V1_MV * millivolt, rtol=1e-12)


def test_a_unit_that_is_missing_can_be_said_and_one_that_is_no_voltage_cannot(tmp_path: Path) -> None:
    path = write(tmp_path, units=("", "mV"))
    assert "units" in fails(path)
    np.testing.assert_allclose(read_recording(path, ("MLII",), how=ReadOptions(units="uV")).signal_mv, MLII_MV / 1e3)
    path = write(tmp_path, units=("mmHg", "mV"))
    assert "'mmHg'" in fails(path)
    read = read_recording(path, ("V1",), every_lead=True)
    assert (read.leads, read.skipped) == (("V1",), ("MLII: no voltage",))


@pytest.mark.parametrize("label", ["ECG MLII", "EKG MLII", "MLII", "ecg:MLII", "ECG_MLII"])
def test_the_kind_of_signal_in_a_label_is_no_part_of_the_lead(tmp_path: Path, label: str) -> None:
    assert read_recording(write(tmp_path, labels=(label, "ECG V1")), ("MLII",)).lead == "MLII"


def test_a_label_that_says_no_more_than_ecg_is_the_lead(tmp_path: Path) -> None:
    path = write(tmp_path, labels=("ECG", "ECG V1"))
    assert "no lead MLII; it has ECG, V1" in fails(path)
    assert read_recording(path, ("ECG",)).lead == "ECG"


def test_data_records_may_last_any_time(tmp_path: Path) -> None:
    read = read_recording(write(tmp_path, [[list(range(50))] * 4], duration="0.25"), ("MLII",))
    assert (read.fs_hz, len(read.signal_mv)) == (200.0, 200)
    assert read_recording(write(tmp_path, [[[0] * 257] * 4], duration="2"), ("MLII",)).fs_hz == 128.5


def test_a_channel_of_another_sampling_frequency_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, [RAMP[0], [[0] * 100 for _ in range(3)]])
    read = read_recording(path, ("MLII",), every_lead=True)
    assert (read.leads, read.skipped) == (("MLII",), ("V1: 100 Hz",))
    assert read_recording(path, ("V1",)).fs_hz == 100.0


def test_gaps_between_data_records_are_nan(tmp_path: Path) -> None:
    """EDF+D: the second data record begins 2.5 s after the first, 1.5 s after its end; the third follows at once."""
    marks = [edf_annotation(at) for at in (0.5, 3.0, 4.0)]
    read = read_recording(write(tmp_path, reserved="EDF+D", annotations=marks), ("MLII",))
    np.testing.assert_allclose(read.signal_mv[:200], MLII_MV[:200], atol=1e-12)
    assert np.isnan(read.signal_mv[200:500]).all()
    np.testing.assert_allclose(read.signal_mv[500:], MLII_MV[200:], atol=1e-12)


def test_a_rounded_time_is_no_gap(tmp_path: Path) -> None:
    """One sample is 5 ms: times off by 4 ms are the recorder's rounding, 20 ms is a gap of four samples."""
    marks = [edf_annotation(at) for at in (0.0, 1.004, 1.996)]
    assert len(read_recording(write(tmp_path, reserved="EDF+D", annotations=marks), ("MLII",)).signal_mv) == 600
    marks = [edf_annotation(at) for at in (0.0, 1.02, 2.02)]
    read = read_recording(write(tmp_path, reserved="EDF+D", annotations=marks), ("MLII",))
    assert np.isnan(read.signal_mv).nonzero()[0].tolist() == [200, 201, 202, 203]


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ([edf_annotation(at) for at in (0, 2, 1)], "data record 3 begins before"),
        ([edf_annotation(at) for at in (0, 0.5, 1)], "data record 2 begins before"),
        ([edf_annotation(0), b"", edf_annotation(2)], "data record 2 does not say when it begins"),
        ([edf_annotation(0), b"+1", edf_annotation(2)], "data record 2 does not say when it begins"),
        ([edf_annotation(at) for at in ("+0", "+1", "+900000000000")], "claims 180000000000200 samples a lead"),
        ([edf_annotation(at) for at in ("+0", "+1", "+90000000000000")], "claims 9e+13 s"),
    ],
)
def test_times_of_data_records_that_cannot_be(tmp_path: Path, marks: list[bytes], words: str) -> None:
    assert words in fails(write(tmp_path, reserved="EDF+D", annotations=marks))


def test_edf_d_without_times(tmp_path: Path) -> None:
    assert "EDF+D without an annotation channel" in fails(write(tmp_path, reserved="EDF+D"))


def test_annotations_inside_the_file_are_marks(tmp_path: Path) -> None:
    """Onsets count from the file's start; the first data record begins 0.5 s after it."""
    marks = [
        edf_annotation(0.5) + edf_annotation(1.0, "N"),
        edf_annotation(1.5) + edf_annotation(1.905, "V", duration="0.1"),
        edf_annotation(2.5) + edf_annotation(3.0, "lead off"),
    ]
    recording = read_recording(write(tmp_path, reserved="EDF+C", annotations=marks), ("MLII",))
    read = read_annotation(recording)
    assert read.sample.tolist() == [100, 281, 500]
    assert read.symbol.tolist() == ["N", "V", '"']
    assert read.note == ("", "", "lead off")
    assert read_annotation(recording, "edf").sample.tolist() == [100, 281, 500]


def test_marks_behind_a_gap_stand_where_they_were_set(tmp_path: Path) -> None:
    marks = [edf_annotation(at) + edf_annotation(at + 0.25, "N") for at in (0, 2, 3)]
    recording = read_recording(write(tmp_path, reserved="EDF+D", annotations=marks), ("MLII",))
    at = read_annotation(recording).sample
    assert at.tolist() == [50, 450, 650]
    np.testing.assert_allclose(recording.signal_mv[at], [MLII_MV[50], MLII_MV[250], MLII_MV[450]])


def test_annotations_that_cannot_be_read(tmp_path: Path) -> None:
    def said(path: Path, annotator: str = "atr") -> str:
        with pytest.raises(RecordError) as caught:
            read_annotation(read_recording(path, ("MLII",)), annotator)
        return caught.value.line

    assert "r.atr: does not exist" in said(write(tmp_path))
    assert "holds no annotations" in said(write(tmp_path), "edf")
    times = [edf_annotation(at) for at in (0, 1, 2)]
    assert "holds no annotations" in said(write(tmp_path, reserved="EDF+C", annotations=times))
    late = [times[0] + edf_annotation(4.0, "N"), *times[1:]]
    assert "mark at sample 800; expected 0 to 599" in said(write(tmp_path, reserved="EDF+C", annotations=late))
    wild = [times[0] + b"+1\x14\xff\xfe\x14\0", *times[1:]]
    assert "annotations cannot be read" in said(write(tmp_path, reserved="EDF+C", annotations=wild))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"records": "2"}, "holds 3 data records and 0 bytes; expected 2 as its header says"),
        ({"records": "4"}, "cut short at 3 of 4 data records"),
        ({"records": "99999999"}, "cut short at 3 of 99,999,999"),
        ({"records": "-1"}, "was never closed"),
        ({"records": "0"}, "holds no samples"),
        ({"records": "three"}, "number of data records 'three'"),
        ({"records": ""}, "number of data records ''"),
        ({"duration": "0"}, "data records of 0 s"),
        ({"duration": "-1"}, "length of a data record '-1'"),
        ({"duration": "nan"}, "length of a data record 'nan'"),
        ({"duration": "1e-9"}, "sampling frequency 2e+11 Hz"),
        ({"duration": "100"}, "sampling frequency 2 Hz"),
        ({"channels": "9999"}, "a header of 768 bytes; expected 2560000"),
        ({"channels": "0"}, "number of signals '0'"),
        ({"channels": "-2"}, "number of signals '-2'"),
        ({"physical": ("0", "0")}, "maps -1000..1000 to 0..0"),
        ({"digital": ("5", "5")}, "maps 5..5"),
        ({"digital": ("1000", "-1000")}, "maps 1000..-1000"),
        ({"digital": ("low", "1000")}, "digital minimum of lead MLII 'low'"),
        ({"physical": ("nan", "1")}, "lead"),
    ],
)
def test_a_header_that_will_not_do(tmp_path: Path, how: dict[str, object], words: str) -> None:
    assert words in fails(write(tmp_path, **how))


def test_annotations_only_and_no_file(tmp_path: Path) -> None:
    path = write(tmp_path, [], reserved="EDF+C", annotations=[edf_annotation(0)], duration="0")
    assert "holds annotations only" in fails(path)
    assert "does not exist" in fails(tmp_path / "none.edf")
    (tmp_path / "text.edf").write_text("time,MLII\n" * 100)
    assert "is not EDF" in fails(tmp_path / "text.edf")


def _same(read: Recording, reference: np.ndarray, step_mv: float) -> None:
    assert read.signals_mv.shape == reference.shape
    assert np.abs(read.signals_mv - reference).max() <= step_mv


@pytest.mark.mitdb
def test_the_48_records_come_back_from_edf(mitdb: Path, tmp_path: Path) -> None:
    """WFDB to EDF by edfio, and back: within one step of the recorder (5 microvolt), every mark where it was."""
    for name in sorted(path.stem for path in mitdb.glob("???.hea")):
        source, marks = wfdb.rdrecord(str(mitdb / name)), wfdb.rdann(str(mitdb / name), "atr")
        signals = [
            edfio.EdfSignal(
                source.p_signal[:649_800, i],
                360,
                label=f"ECG {lead}",
                physical_dimension="mV",
                physical_range=(-5.12, 5.12),
                digital_range=(-1024, 1024),
            )
            for i, lead in enumerate(source.sig_name)
        ]
        kept = [(s, y) for s, y in zip(marks.sample, marks.symbol, strict=True) if s < 649_800]
        notes = [edfio.EdfAnnotation(int(s) / 360, None, y) for s, y in kept]
        edfio.Edf(signals, annotations=notes).write(tmp_path / f"{name}.edf")
        read = read_recording(tmp_path / f"{name}.edf", (source.sig_name[0],), every_lead=True)
        assert (read.leads, read.fs_hz) == (tuple(source.sig_name), 360.0)
        _same(read, source.p_signal[:649_800].T, 1 / 200)
        back = read_annotation(read)
        assert back.sample.tolist() == [int(s) for s, _ in kept]
        assert back.symbol.tolist() == [y for _, y in kept]
        (tmp_path / f"{name}.edf").unlink()
