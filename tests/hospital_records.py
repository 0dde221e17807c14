"""Recordings of hospitals' formats that hold two known leads, and how one that will not do is refused."""

from pathlib import Path

import hospital_files as made
import numpy as np
import pytest

import ecgfed
from ecgfed.base.errors import EcgfedError
from ecgfed.domain.record.reader import read_recording

needs_pydicom = pytest.mark.skipif(
    not ecgfed.base.extras.is_installed("pydicom"), reason="pydicom (extra hospital) is not installed"
)
TIME = np.arange(600)
#: Two leads in whole steps: slow and fast, large and small, so that every length of code is met.
STEPS = [
    (400 * np.sin(TIME / 9) + 3000 * (TIME % 97 == 40)).round().astype(int).tolist(),
    (-90 * np.cos(TIME / 4) + 5 * (TIME % 3)).round().astype(int).tolist(),
]
#: The same in millivolt: 2.5 uV a step of the first, 5 of the second.
MV = np.array(STEPS) * np.array([[0.0025], [0.005]])
SAME_MV = np.array(STEPS) * 0.0025


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def ishne(**how: object) -> bytes:
    return made.ishne_bytes(STEPS, **how)  # type: ignore[arg-type]


def scp(**how: object) -> bytes:
    return made.scp_bytes(STEPS, **how)  # type: ignore[arg-type]


def aecg(**how: object) -> str:
    return made.aecg_text(STEPS, **how)  # type: ignore[arg-type]


def dicom(**how: object) -> bytes:
    return made.dicom_bytes(made.dicom_group(STEPS, **how))  # type: ignore[arg-type]


def fails(path: Path, leads: tuple[str, ...] = (), *, every: bool = True) -> str:
    with pytest.raises(EcgfedError) as caught:
        read_recording(path, leads, every_lead=every)
    line = str(caught.value)
    assert "\n" not in line
    assert path.name in line
    return line
