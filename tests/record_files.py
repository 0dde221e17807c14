"""Records written byte by byte from the WFDB specification (header, signal, annot), and ways to spoil a copy."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wfdb

#: Annotation codes of annot(5).
CODES = {"N": 1, "L": 2, "R": 3, "a": 4, "V": 5, "F": 6, "A": 8, "E": 10, "j": 11, "/": 12, "~": 14, "+": 28}
SKIP, AUX = 59, 63
END = b"\0\0"


def encode_212(samples: Sequence[int]) -> bytes:
    """Two 12-bit two's complement samples in three bytes: low byte, both high nibbles, low byte."""
    out = bytearray()
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        a, b = first & 0xFFF, second & 0xFFF
        out += bytes([a & 0xFF, (a >> 8) | (b >> 8) << 4, b & 0xFF])
    return bytes(out)


def write_212(
    folder: Path,
    name: str,
    channels: Sequence[Sequence[int]],
    *,
    leads: Sequence[str] = ("MLII", "V1"),
    fs: str = "360",
    fmt: str = "212",
    gain: str = "200(1024)/mV",
    comments: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Path:
    """Write a record in format 212 from whole numbers, its checksums summed here; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = [value for frame in zip(*channels, strict=True) for value in frame]
    (folder / f"{name}.dat").write_bytes(encode_212(samples))
    lines = [f"{name} {len(channels)} {fs} {len(channels[0])}"]
    for lead, channel in zip(leads, channels, strict=True):
        lines.append(f"{name}.dat {fmt} {gain} 12 1024 {channel[0]} {sum(channel) % 65536} 0 {lead}")
    lines += [f"# {comment}" for comment in comments]
    (folder / f"{name}.hea").write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return folder / name


def write_signals(
    folder: Path,
    name: str,
    signals_mv: np.ndarray,
    *,
    fs_hz: float,
    leads: Sequence[str] = ("MLII",),
    units: Mapping[str, str] = {},
    **how: Any,
) -> Path:
    """Write leads (leads, samples), mV unless ``units`` differ, by wfdb: format 16, 1000 steps a unit."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(leads)
    given = {"fmt": "16", "adc_gain": 1000.0, "baseline": 0} | how
    each = {key: [value] * count for key, value in given.items() if key != "comments"}
    about = {"sig_name": list(leads), "units": [units.get(lead, "mV") for lead in leads]}
    about["comments"] = given.get("comments", [])
    wfdb.wrsamp(name, fs=fs_hz, p_signal=np.atleast_2d(signals_mv).T, write_dir=str(folder), **about, **each)
    return folder / name


def write_leads(
    folder: Path, name: str, leads: Mapping[str, np.ndarray], *, fs_hz: float = 360.0, units: Mapping[str, str] = {}
) -> Path:
    """Write leads by name as ``write_signals`` does."""
    return write_signals(folder, name, np.stack(list(leads.values())), fs_hz=fs_hz, leads=list(leads), units=units)


def mark(symbol: str, interval: int) -> bytes:
    """One annotation ``interval`` samples (below 1024) after the one before."""
    return (CODES[symbol] << 10 | interval).to_bytes(2, "little")


def skip(interval: int) -> bytes:
    """A longer wait: a SKIP word, then 32 bits with the high half first."""
    return (
        (SKIP << 10).to_bytes(2, "little") + (interval >> 16).to_bytes(2, "little") + interval.to_bytes(4, "little")[:2]
    )


def aux(text: bytes) -> bytes:
    """Text that belongs to the mark before, padded to an even length."""
    return (AUX << 10 | len(text)).to_bytes(2, "little") + text + b"\0" * (len(text) % 2)


def copy_record(source: Path, to: Path) -> Path:
    """Copy a record's header, signal and annotation into a folder; return its new path."""
    to.mkdir(parents=True, exist_ok=True)
    for path in source.parent.glob(f"{source.name}.*"):
        shutil.copyfile(path, to / path.name)
    return to / source.name


def flip_byte(path: Path, at: int) -> None:
    """Turn over the bits of one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Keep the first ``size`` bytes."""
    path.write_bytes(path.read_bytes()[:size])


def edit(path: Path, old: str, new: str) -> None:
    """Replace a piece of a text file that must occur in it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def r_waves(fs_hz: float, r_s: Sequence[float], duration_s: float) -> np.ndarray:
    """A clean ECG in mV with a Gaussian R wave of 1 mV at each time, the same curve at any sampling frequency."""
    t = np.arange(round(duration_s * fs_hz)) / fs_hz
    signal = np.zeros(len(t))
    for at in r_s:
        signal += np.exp(-0.5 * ((t - at) / 0.015) ** 2) - 0.2 * np.exp(-0.5 * ((t - at - 0.05) / 0.02) ** 2)
        signal += 0.15 * np.exp(-0.5 * ((t - at - 0.25) / 0.05) ** 2)
    return signal


def edf_annotation(onset: float | str, text: str = "", *, duration: str = "") -> bytes:
    """One time-stamped annotation list of EDF+: onset, duration where there is one, text, each with its end byte."""
    written = onset if isinstance(onset, str) else f"{onset:+.10g}"
    return (written + (f"\x15{duration}" if duration else "") + f"\x14{text}\x14").encode() + b"\0"


def edf_bytes(
    signals: Sequence[Sequence[Sequence[int]]],
    *,
    labels: Sequence[str] = ("ECG MLII", "ECG V1"),
    units: Sequence[str] = ("mV", "mV"),
    physical: tuple[str, str] = ("-5", "5"),
    digital: tuple[str, str] = ("-1000", "1000"),
    duration: str = "1",
    reserved: str = "",
    records: str | None = None,
    channels: str | None = None,
    annotations: Sequence[bytes] = (),
    annotation_bytes: int = 60,
    sample_bytes: int = 2,
    patient: str = "MCH-0234567 F 02-MAY-1951 Haagse_Harry",
) -> bytes:
    """Return an EDF file from the specification (Kemp 1992): ``signals[channel][data record]`` are whole numbers.

    ``annotations`` are the bytes of the channel 'EDF Annotations' in each data record. With three bytes a sample it is
    BDF (BioSemi), whose first byte is 255.
    """
    kind = "EDF" if sample_bytes == 2 else "BDF"
    number = len(signals[0]) if signals else len(annotations)
    names, n = list(labels[: len(signals)]), len(signals) + bool(annotations)
    samples = [len(channel[0]) for channel in signals] + [annotation_bytes // sample_bytes] * bool(annotations)
    own = bool(annotations)
    main = [
        ("0" if kind == "EDF" else "\xffBIOSEMI", 8),
        (patient, 80),
        ("Startdate 02-MAR-2002 X X X", 80),
        ("02.03.02", 8),
        ("12.00.00", 8),
        (str(256 * (n + 1)), 8),
        (reserved, 44),
        (str(number) if records is None else records, 8),
        (duration, 8),
        (str(n) if channels is None else channels, 4),
    ]
    fields = [
        (names + [f"{kind} Annotations"] * own, 16),
        (["AgAgCl"] * n, 80),
        (list(units[: len(signals)]) + [""] * own, 8),
        ([physical[0]] * len(signals) + ["-1"] * own, 8),
        ([physical[1]] * len(signals) + ["1"] * own, 8),
        ([digital[0]] * len(signals) + ["-32768"] * own, 8),
        ([digital[1]] * len(signals) + ["32767"] * own, 8),
        (["HP:0.05Hz"] * n, 80),
        ([str(count) for count in samples], 8),
        ([""] * n, 32),
    ]
    out = b"".join(text.encode("latin-1").ljust(width) for text, width in main)
    out += b"".join(text.encode("latin-1").ljust(width) for texts, width in fields for text in texts)
    for record in range(number):
        for channel in signals:
            wide = np.array(channel[record], dtype="<i4")
            out += wide.view(np.uint8).reshape(-1, 4)[:, :sample_bytes].tobytes()
        if annotations:
            out += annotations[record].ljust(annotation_bytes, b"\0")
    return out
