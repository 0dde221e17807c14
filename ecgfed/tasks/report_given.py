"""What a person named to ``ecgfed report``: a recording, or a run's folder."""

from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.core.runs.document import FILE_NAME
from ecgfed.core.runs.seeds import is_run
from ecgfed.domain.record.wfdb_header import record_base


def run_given(path: Path) -> Path | None:
    """Return the run's folder that a path names; None where it names a recording.

    A run is a folder with a ``run.json`` (or that file), or one with the runs of several seeds. A folder that holds
    neither is no recording, unless a WFDB record of its name lies beside it.

    Raises:
        OptionError: it may be meant as either, or is a folder that is neither.
    """
    if path.name == FILE_NAME and path.is_file():
        return path.parent
    if not path.is_dir():
        return None
    header = Path(f"{record_base(path)}.hea")
    if not is_run(path):
        if header.exists():
            return None
        found = f"{path} is a folder without a {FILE_NAME}"
        raise OptionError("RECORD", found, "a recording's file, or the folder of a run", "name one recording in it")
    if header.exists():
        found = f"{path} is the folder of a run, and {header} a recording"
        raise OptionError("RECORD", found, "one of them", f"say {header}, or {path / FILE_NAME}")
    return path
