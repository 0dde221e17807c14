"""Which records a command was given: paths of records, or folders of them."""

from pathlib import Path

from ecgfed.errors import RecordError


def record_paths(given: list[Path]) -> list[Path]:
    """Return record paths without suffix, those of a folder in order of name; raises RecordError for an empty one."""
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path.with_suffix("") if path.suffix in {".hea", ".dat"} else path)
            continue
        inside = sorted(header.with_suffix("") for header in path.glob("*.hea"))
        if not inside:
            raise RecordError(path, "holds no record", "WFDB headers (RECORD.hea)", "check the folder")
        found += inside
    return list(dict.fromkeys(found))
