"""Which records a command was given: paths of records, or folders of them."""

from pathlib import Path

from ecgfed.errors import RecordError
from ecgfed.record.wfdb_header import record_base, segment_names


def record_paths(given: list[Path]) -> list[Path]:
    """Return recordings' paths, WFDB records without suffix; of a folder its WFDB records in order of name.

    Segments are parts of the record that names them. Raises RecordError for a folder without a record.
    """
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(record_base(path))
            continue
        headers = sorted(path.glob("*.hea"))
        parts = {name for header in headers for name in segment_names(header)}
        inside = [record_base(header) for header in headers if header.stem not in parts]
        if not inside:
            raise RecordError(path, "holds no record", "WFDB headers (RECORD.hea)", "check the folder, or name files")
        found += inside
    return list(dict.fromkeys(found))
