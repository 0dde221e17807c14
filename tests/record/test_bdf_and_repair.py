"""BDF, and EDF and BDF that were cut short or never closed; files by the specification, compared with edfio."""

from collections.abc import Callable
from pathlib import Path

import edfio
import numpy as np
import pytest
from record_files import edf_annotation, edf_bytes
from refusals import refuses

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.reader import format_of, open_recording, read_annotation, read_comments, read_recording
from ecgfed.domain.record.recording import ReadOptions

REPAIR = ReadOptions(repair=True)
STEPS = np.random.default_rng(8).integers(-(2**23), 2**23, (2, 4, 250))  # (channels, data records, samples)
STEPS[0, 0, :2] = -(2**23), 2**23 - 1
#: 10 mV over all steps of an amplifier of 24 bits.
DIGITAL, PHYSICAL = ("-8388608", "8388607"), ("-5000", "5000")


def bdf(folder: Path, name: str = "r.bdf", **how: object) -> Path:
    options: dict[str, object] = {"units": ("uV", "uV"), "physical": PHYSICAL, "digital": DIGITAL, "sample_bytes": 3}
    path = folder / name
    path.write_bytes(edf_bytes(STEPS.tolist(), **(options | how)))  # type: ignore[arg-type]
    return path


def edf(folder: Path, name: str = "r.edf", **how: object) -> Path:
    path = folder / name
    path.write_bytes(edf_bytes((STEPS // 2**16).tolist(), **({"digital": ("-128", "127")} | how)))  # type: ignore[arg-type]
    return path


def mv(steps: np.ndarray) -> np.ndarray:
    """By hand: 10 mV over 2^24 - 1 steps."""
    return (steps.reshape(len(steps), -1) + 2**23) * (10.0 / (2**24 - 1)) - 5.0


def fails(path: Path, how: ReadOptions | None = None) -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        open_recording(path, "MLII", how=how)
    with pytest.raises(RecordError):
        read_recording(path, "MLII", how=how)
    return caught.value.code, caught.value.parameter


def test_bdf_is_edf_of_24_bits(tmp_path: Path) -> None:
    path = bdf(tmp_path)
    recording = read_recording(path, "MLII", every_lead=True)
    assert (recording.fs_hz, recording.leads) == (250, ("MLII", "V1"))
    np.testing.assert_allclose(recording.signals_mv, mv(STEPS), atol=1e-12)
    reference = edfio.read_bdf(path)
    np.testing.assert_allclose(recording.signals_mv * 1000, [one.data for one in reference.signals], atol=1e-9)
    long = open_recording(path, "MLII", every_lead=True, min_samples=100)
    assert long.is_lazy
    for start, stop in ((0, 1000), (1, 2), (249, 251), (600, 990), (999, 1000)):
        np.testing.assert_array_equal(long.read(start, stop), recording.signals_mv[:, start:stop])


@pytest.mark.parametrize("name", ["r.rec", "r", "1.2.840.7", "r.edf"])
def test_bdf_under_any_name(tmp_path: Path, name: str) -> None:
    path = bdf(tmp_path, name)
    assert format_of(path) == "edf"
    assert read_recording(path).name == (name if name[0] == "1" else "r")
    assert "patient: MCH-0234567 F 02-MAY-1951 Haagse_Harry" in read_comments(path)


def test_annotations_and_gaps_of_bdf_plus(tmp_path: Path) -> None:
    times = [edf_annotation(at) + edf_annotation(at + 0.5, "N") for at in (0, 1, 3, 4)]
    path = bdf(tmp_path, reserved="BDF+D", annotations=times)
    recording = read_recording(path, "MLII")
    assert recording.samples == 1250
    assert np.isnan(recording.signal_mv[500:750]).all()
    np.testing.assert_allclose(recording.signal_mv[750:], mv(STEPS)[0, 500:], atol=1e-12)
    assert read_annotation(recording).sample.tolist() == [125, 375, 875, 1125]


@pytest.mark.parametrize("make", [bdf, edf])
def test_a_file_that_was_cut_short_is_repaired(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    whole = read_recording(path, "MLII").signal_mv
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    assert fails(path) == ("invalid-record", "repair")
    for opened in (read_recording(path, "MLII", how=REPAIR), open_recording(path, "MLII", how=REPAIR, min_samples=1)):
        np.testing.assert_array_equal(opened.signal_mv, whole[:750])
        (note,) = opened.notes
        assert note.startswith("repaired: 3 of 4 data records were read; the last 1 are missing; ")
    path.write_bytes(data)
    assert read_recording(path, "MLII", how=REPAIR).notes == ()
    path.write_bytes(data + b"\0" * 7)
    assert fails(path) == ("invalid-record", "repair")
    repaired = read_recording(path, "MLII", how=REPAIR)
    assert repaired.samples == 1000
    assert repaired.notes == ("repaired: 7 bytes after the 4 data records that the header states were not read",)


def test_a_file_that_was_never_closed_is_repaired(tmp_path: Path) -> None:
    times = [edf_annotation(at) + edf_annotation(at + 0.5, "N") for at in range(4)]
    path = edf(tmp_path, records="-1", reserved="EDF+C", annotations=times)
    assert fails(path) == ("invalid-record", "repair")
    recording = read_recording(path, "MLII", how=REPAIR)
    assert recording.samples == 1000
    assert recording.notes == ("repaired: the file was never closed; its 4 whole data records were read",)
    assert read_annotation(recording).sample.tolist() == [125, 375, 625, 875]
    path.write_bytes(path.read_bytes()[:1030])
    assert fails(path, REPAIR) == ("invalid-record", None)


def test_repair_does_not_guess_a_header(tmp_path: Path) -> None:
    path = edf(tmp_path)
    path.write_bytes(path.read_bytes()[:700])
    assert fails(path, REPAIR) == ("invalid-record", None)
    assert fails(edf(tmp_path, records="-5"), REPAIR) == ("invalid-record", None)
    assert fails(edf(tmp_path, records="1.5"), REPAIR) == ("invalid-record", None)


@pytest.mark.parametrize(
    ("how", "field", "point"),
    [
        ({"physical": ("-5,0", "5")}, "physical minimum of lead MLII", "-5.0"),
        ({"physical": ("-5", "5,25")}, "physical maximum of lead MLII", "5.25"),
        ({"duration": "1,0"}, "length of a data record", "1.0"),
    ],
)
def test_a_decimal_comma_is_named_with_its_field_and_what_to_write(
    tmp_path: Path, how: dict[str, object], field: str, point: str
) -> None:
    with pytest.raises(RecordError, match=f"{field} '.*write {point} into the header"):
        open_recording(edf(tmp_path, **how), "MLII")


@pytest.mark.parametrize("text", ["abc", "", "1e999", "nan", "0x10", "1_0", "5 5", "--5", "1.5.2"])
@pytest.mark.parametrize("field", ["physical", "digital", "duration", "records", "channels"])
def test_no_field_of_the_header_ends_in_an_error_of_python(tmp_path: Path, field: str, text: str) -> None:
    value: object = (text, "200") if field in ("physical", "digital") else text[:4]
    code, _ = fails(edf(tmp_path, **{field: value}))
    assert code == "invalid-record"


def test_a_broken_range_of_another_channel_does_not_matter(tmp_path: Path) -> None:
    path = edf(tmp_path)
    data = bytearray(path.read_bytes())
    at = 256 + 2 * 104 + 8  # the second channel's physical minimum
    data[at : at + 8] = b"-5,0    "
    path.write_bytes(data)
    assert read_recording(path, "MLII").lead == "MLII"
    with refuses(RecordError, "invalid-record"):
        read_recording(path, "MLII", every_lead=True)


@pytest.mark.parametrize("onset", ["+" + "9" * 90, "+" + "9" * 300, "-" + "9" * 90, "+1" + "0" * 400])
def test_an_onset_that_no_recording_has(tmp_path: Path, onset: str) -> None:
    times = [edf_annotation(0) + edf_annotation(onset, "N"), *(edf_annotation(at) for at in (1, 2, 3))]
    path = edf(tmp_path, reserved="EDF+C", annotations=times, annotation_bytes=500)
    with pytest.raises(RecordError) as caught:
        read_annotation(read_recording(path, "MLII"))
    assert "an annotation at" in caught.value.line
