"""Long records made of real ones: MIT-BIH resampled to 250 Hz, one record after the other, around and around.

No public Holter recording is at hand. Beats, noise, gaps between electrodes and rhythms are real; that a patient's
record begins anew every half hour is not.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed import read_recording

FS_HZ = 250
#: Steps of MIT-BIH a millivolt, and the step of 0 mV.
GAIN, ZERO = 200, 1024
LEADS = ("MLII", "V1")
#: Records with MLII and V1, quiet and noisy, sinus rhythm and atrial fibrillation, many ectopic beats and none.
RECORDS = ("100", "105", "106", "108", "119", "200", "203", "208", "210", "213", "221", "222", "228", "233")
_PIECE_S = 1800
_EDF_RECORD_S = 1


def pieces(source: Path, records: Sequence[str] = RECORDS) -> list[NDArray[np.int16]]:
    """Return each record at 250 Hz as (samples, 2) int16 steps of 5 microvolt."""
    from scipy.signal import resample_poly

    made = []
    for name in records:
        recording = read_recording(source / name, LEADS[:1], every_lead=True)
        signals = [resample_poly(np.nan_to_num(lead), FS_HZ, 360) for lead in recording.signals_mv]
        made.append(np.rint(np.stack(signals, axis=1) * GAIN).astype(np.int16) + np.int16(ZERO))
    return made


def stream(parts: Sequence[NDArray[np.int16]], samples: int, leads: int) -> Iterator[NDArray[np.int16]]:
    """Yield (n, leads) pieces, one record after the other, until there are ``samples``."""
    number = 0
    while samples > 0:
        part = parts[number % len(parts)][:samples, :leads]
        yield part
        samples -= len(part)
        number += 1


def write_wfdb(path: Path, parts: Sequence[NDArray[np.int16]], hours: float, *, leads: int = 2, fmt: int = 16) -> Path:
    """Write a WFDB record of format 16 or 212 (two leads) and return its path without suffix."""
    samples = round(hours * 3600 * FS_HZ)
    path.parent.mkdir(parents=True, exist_ok=True)
    total = np.zeros(leads, np.int64)
    with path.with_suffix(".dat").open("wb") as out:
        for part in stream(parts, samples, leads):
            total += part.sum(axis=0, dtype=np.int64)
            out.write(_packed(part) if fmt == 212 else part.astype("<i2").tobytes())
    lines = [f"{path.name} {leads} {FS_HZ} {samples}"]
    for lead, added in zip(LEADS[:leads], total.tolist(), strict=True):
        checksum = (added + 2**15) % 2**16 - 2**15
        lines.append(f"{path.name}.dat {fmt} {GAIN}({ZERO})/mV 12 {ZERO} 0 {checksum} 0 {lead}")
    path.with_suffix(".hea").write_text("\n".join(lines) + "\n")
    return path


def _packed(part: NDArray[np.int16]) -> bytes:
    """Pack pairs of 12 bits into three bytes (signal(5), format 212)."""
    flat = part.astype(np.int32).ravel()
    flat = flat[: len(flat) // 2 * 2] & 0xFFF
    first, second = flat[::2], flat[1::2]
    out = np.empty((len(first), 3), np.uint8)
    out[:, 0], out[:, 1], out[:, 2] = first & 0xFF, (first >> 8) | (second >> 8) << 4, second & 0xFF
    return out.tobytes()


def write_edf(path: Path, parts: Sequence[NDArray[np.int16]], hours: float, *, leads: int = 2) -> Path:
    """Write an EDF file, data records of one second, and return its path."""
    seconds = round(hours * 3600)
    low, high = -32768, 32767
    scale = f"{(low - ZERO) / GAIN:.3f}", f"{(high - ZERO) / GAIN:.3f}"
    count = leads
    header = f"{'0':<8}{'X X X X':<80}{'Startdate X X X X':<80}01.01.8500.00.00{256 * (count + 1):<8}{'':<44}"
    header += f"{seconds:<8}{_EDF_RECORD_S:<8}{count:<4}"
    for width, values in (
        (16, [f"ECG {lead}" for lead in LEADS[:leads]]),
        (80, [""] * count),
        (8, ["mV"] * count),
        (8, [scale[0]] * count),
        (8, [scale[1]] * count),
        (8, [str(low)] * count),
        (8, [str(high)] * count),
        (80, [""] * count),
        (8, [str(FS_HZ * _EDF_RECORD_S)] * count),
        (32, [""] * count),
    ):
        header += "".join(f"{value:<{width}}" for value in values)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        out.write(header.encode("ascii"))
        left = np.empty((0, leads), np.int16)
        for part in stream(parts, seconds * FS_HZ, leads):
            held = np.concatenate([left, part])
            whole = len(held) // FS_HZ * FS_HZ
            out.write(held[:whole].reshape(-1, FS_HZ, leads).transpose(0, 2, 1).astype("<i2").tobytes())
            left = held[whole:]
    return path
