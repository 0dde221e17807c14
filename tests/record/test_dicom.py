"""DICOM: numbers, units, groups, transfer syntaxes, and files that will not do."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest
from hospital_records import MV, STEPS, dicom, fails, needs_pydicom, written
from refusals import refuses

from ecgfed.base.errors import EcgfedError
from ecgfed.domain.record.reader import read_recording


@needs_pydicom
def test_dicom_numbers_units_and_padding(tmp_path: Path) -> None:
    channels = [
        made.dicom_channel(("5.6.3-9-61", "SCPECG", "Lead III"), sensitivity="1.25", factor="2", baseline="100"),
        made.dicom_channel(("", "", "Lead aVL (Goldberger)"), sensitivity="0.005", unit="mV"),
    ]
    raw = made.dicom_bytes(made.dicom_group(STEPS, channels, padding=STEPS[0][7]))
    read = read_recording(written(tmp_path, "r.dcm", raw), every_lead=True)
    assert read.leads == ("III", "aVL")
    gaps = np.array(STEPS) == STEPS[0][7]
    expected = np.where(gaps, np.nan, MV + np.array([[0.1], [0]]))
    np.testing.assert_allclose(read.signals_mv, expected, atol=1e-9)
    for bits, numbers in ((32, "SL"), (16, "SS")):
        raw = made.dicom_bytes(made.dicom_group(STEPS, bits=bits, numbers=numbers))
        read = read_recording(written(tmp_path, "r.dcm", raw), every_lead=True)
        np.testing.assert_allclose(read.signals_mv, MV, atol=1e-9)


@needs_pydicom
@pytest.mark.parametrize(
    ("kind", "padding", "step"),
    [("SS", -32768, -32768), ("US", 32768, -32768), ("SL", -32768, -32768), ("SL", -40000, None), ("SS", -7, -7)],
)
def test_dicom_padding_as_a_number(tmp_path: Path, kind: str, padding: int, step: int | None) -> None:
    """The standard says bytes; some recorders write the number."""
    lead = [5, -32768, -7, 0, *[3] * 600]
    group = made.dicom_group([lead], [made.dicom_channel()], padding=padding, padding_as=kind)
    read = read_recording(written(tmp_path, "r.dcm", made.dicom_bytes(group)))
    expected = [np.nan if value == step else value * 0.0025 for value in lead]
    np.testing.assert_allclose(read.signal_mv, expected, atol=1e-9)


@needs_pydicom
def test_dicom_padding_of_several_numbers_is_refused(tmp_path: Path) -> None:
    group = made.dicom_group(STEPS) + made.element(0x5400, 0x100A, "SS", b"\0\0\1\0")
    assert "has the padding" in fails(written(tmp_path, "r.dcm", made.dicom_bytes(group)))


@needs_pydicom
def test_dicom_groups(tmp_path: Path) -> None:
    """Twelve leads in groups of three that begin together are one recording; a median beat is none."""
    names = ["I", "II", "III", "aVR"]
    channels = [made.dicom_channel((f"2:{code}", "MDC", "x")) for code in (1, 2, 61, 62)]
    parts = [made.dicom_group([STEPS[0]], [channel]) for channel in channels]
    beat = made.dicom_group([STEPS[0][:300]], channels[:1], kind="DERIVED")
    late = made.dicom_group([STEPS[0][:300]], [made.dicom_channel(("2:3", "MDC", "V1"))], offset="5000")
    read = read_recording(written(tmp_path, "r.dcm", made.dicom_bytes(*parts, beat, late)), every_lead=True)
    assert list(read.leads) == names
    assert read.skipped == ("V1: another part of 0.6 s",)
    assert "holds 1 waveform, none as it was recorded" in fails(written(tmp_path, "r.dcm", made.dicom_bytes(beat)))


@needs_pydicom
@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"])
def test_dicom_that_pydicom_wrote(tmp_path: Path, syntax: str) -> None:
    """The same file in each transfer syntax, as pydicom itself writes it."""
    import pydicom

    read = pydicom.dcmread(written(tmp_path, "own.dcm", dicom()))
    read.file_meta.TransferSyntaxUID = pydicom.uid.UID(syntax)
    path = tmp_path / "r.dcm"
    implicit = syntax == "1.2.840.10008.1.2"
    pydicom.dcmwrite(path, read, implicit_vr=implicit, little_endian=True, force_encoding=True)
    np.testing.assert_allclose(read_recording(path, every_lead=True).signals_mv, MV, atol=1e-9)


@needs_pydicom
def test_a_deflated_file_is_weighed(tmp_path: Path) -> None:
    more = made.element(9, 0x1001, "OB", bytes(64 << 20))
    raw = made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.1.99", more=more)
    assert len(raw) < 200_000
    assert "deflated bytes that inflate to more than" in fails(written(tmp_path, "r.dcm", raw))
    whole = made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.1.99")
    np.testing.assert_allclose(read_recording(written(tmp_path, "r.dcm", whole), every_lead=True).signals_mv, MV)


@needs_pydicom
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: made.dicom_bytes(made.dicom_group(STEPS), sop_class="1.2.840.10008.5.1.4.1.1.7"), "DICOM of class"),
        (lambda: made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.2"), "transfer syntax"),
        (lambda: made.dicom_bytes(), "holds 0 waveforms"),
        (lambda: dicom(samples=601), "2400 bytes of samples; expected 2404"),
        (lambda: dicom(samples=2**32 - 1), "claims 4,294,967,295 samples"),
        (lambda: dicom(samples=0), "claims 0 samples"),
        (lambda: dicom(data=b""), "0 bytes of samples"),
        (lambda: dicom(numbers="MB"), "samples of 16 bits, 'MB'"),
        (lambda: dicom(fs="0"), "sampling frequency 0.0 Hz"),
        (lambda: dicom(fs="1e400"), "sampling frequency inf Hz"),
        (lambda: dicom(fs="fast"), "cannot be read as DICOM"),
        (lambda: dicom(channels=[made.dicom_channel()]), "defines 1 channel; expected 2"),
        (lambda: dicom(channels=[made.dicom_channel(sensitivity=None)] * 2), "is in 'steps of no unit'"),
        (lambda: dicom(channels=[made.dicom_channel(unit="mm[Hg]")] * 2), "is in 'mm[Hg]'"),
        (lambda: dicom(channels=[made.dicom_channel(skew="2")] * 2), "is 2 samples out of step with the others"),
        (lambda: dicom(channels=[made.dicom_channel(factor="nan")] * 2), "has sensitivity nan"),
        (lambda: dicom(channels=[made.dicom_channel(sensitivity="0")] * 2), "has sensitivity 0"),
        (lambda: made.dicom_bytes(more=made.sequence(0x40, 0x555, *[b""] * 10)), "holds 0 waveforms"),
    ],
)
def test_dicom_that_will_not_do(tmp_path: Path, make: Callable[[], bytes], words: str) -> None:
    assert words in fails(written(tmp_path, "r.dcm", make()))


@needs_pydicom
def test_sequences_deep_in_one_another(tmp_path: Path) -> None:
    inside = b""
    for _ in range(3000):
        inside = made.sequence(0x40, 0x555, inside)
    raw = made.dicom_bytes(made.dicom_group(STEPS), more=inside)
    path = written(tmp_path, "r.dcm", raw)
    np.testing.assert_allclose(read_recording(path, every_lead=True).signals_mv, MV)  # never taken apart
    nested = made.sequence(0x5400, 0x100, inside)
    fails(written(tmp_path, "r.dcm", made.dicom_bytes(more=nested)))


@needs_pydicom
def test_reading_dicom_opens_no_socket(tmp_path: Path) -> None:
    """pydicom loads requests where it is installed, and that binds a socket to look for IPv6."""
    path = written(tmp_path, "r.dcm", dicom())
    code = (
        "import sys\n"
        "def hook(event, about):\n    if event.startswith('socket.'): raise SystemExit(event)\n"
        "sys.addaudithook(hook)\n"
        "from ecgfed.domain.record.reader import read_recording\n"
        f"print(read_recording({str(path)!r}).leads)\n"
        "assert 'urllib3' not in sys.modules and 'requests' not in sys.modules\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "('II',)\n"), ended.stderr


def test_dicom_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.base.extras.is_installed", lambda package: package != "pydicom")
    path = written(tmp_path, "r.dcm", dicom())
    with refuses(EcgfedError, "missing-extra"):
        read_recording(path)


def test_gigabytes_of_zeros_behind_a_file_are_not_taken_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "r.dcm", made.dicom_bytes(made.dicom_group([[0] * 600, [1] * 600])))
    with path.open("r+b") as stream:
        stream.truncate(1 << 30)
    assert "zeros where an element should begin" in fails(path)
