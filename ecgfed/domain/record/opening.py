"""Opening a recording: a short one is read at once, a long one stays on the disk and is read by blocks."""

from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.domain.record.edf_files import open_long_edf
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.numpy_files import is_npz, open_npy
from ecgfed.domain.record.reader import format_of, named_errors, preferring, read_recording
from ecgfed.domain.record.recording import AnyRecording, LongRecording, ReadOptions, Recording, read_options
from ecgfed.domain.record.wfdb_blocks import open_wfdb

#: Samples of a lead from which on a recording stays on the disk: 70 minutes at 250 Hz, 8 MB a lead.
LONG = 1 << 20


@renamed_parameters("0.3", "0.5", least="min_samples")
def open_recording(
    path: Path | str,
    leads: str | Sequence[str] | None = None,
    *,
    every_lead: bool = False,
    how: ReadOptions | None = None,
    min_samples: int | None = None,
) -> AnyRecording:
    """Open a recording as ``read_recording`` does, but read one of ``min_samples`` samples or more lazily, in blocks.

    WFDB records of one segment in an uncompressed format, EDF, BDF and ``.npy`` files can be read in blocks. Other
    formats and shorter recordings are read at once. Both ways return the same samples, bit for bit.

    Args:
        path: as of ``read_recording``; so are all arguments but the last.
        leads: see there.
        every_lead: see there.
        how: see there.
        min_samples: samples of a lead from which on the recording stays on the disk; default ``LONG``.

    Returns:
        A ``LongRecording``, or a ``Recording``.

    Raises:
        RecordError: as ``read_recording``; a checksum that a WFDB header states has been compared.
        OptionError: see there.
        MissingExtraError: see there.

    Examples:
        >>> import ecgfed
        >>> ecgfed.open_recording("cohort-records/demo01").read(0, 360).shape
        (1, 360)
    """
    selection, how, min_samples = lead_list(leads), read_options(how), LONG if min_samples is None else min_samples
    long: LongRecording | None = None
    if isinstance(path, str | Path):
        path, kind = Path(path), format_of(path)
        with named_errors(path):
            if kind == "wfdb":
                long = open_wfdb(path, selection, every_lead=every_lead, how=how, min_samples=1)
                if long is not None and long.samples < min_samples:  # faster than reading it by the wfdb package
                    return _in_memory(long)
            elif kind == "edf":
                long = open_long_edf(path, selection, every_lead=every_lead, how=how, min_samples=min_samples)
            elif kind == "numpy" and path.is_file() and not is_npz(path):
                long = open_npy(path, selection, every_lead=every_lead, how=how, min_samples=min_samples)
    return long or read_recording(path, selection, every_lead=every_lead, how=how)


def _in_memory(recording: LongRecording) -> Recording:
    """Return a recording with all its samples in memory."""
    return Recording(
        recording.name,
        recording.path,
        recording.lead,
        recording.leads,
        recording.fs_hz,
        recording.signals_mv,
        recording.comments,
        recording.files,
        recording.skipped,
        recording.requested_as,
        recording.notes,
    )


def open_every_lead(
    path: Path | str, preferred: tuple[str, ...], *, how: ReadOptions | None = None, min_samples: int | None = None
) -> AnyRecording:
    """Open all leads; the chosen one is the first of ``preferred`` that is there, else the recording's first ECG."""
    return preferring(
        lambda leads: open_recording(path, leads, every_lead=True, how=how, min_samples=min_samples), preferred
    )
