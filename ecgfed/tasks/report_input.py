"""Tell recordings from run folders in the argument of ``ecgfed report``."""

from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.core.runs.document import FILE_NAME
from ecgfed.core.runs.seeds import is_run
from ecgfed.domain.record.wfdb_header import record_base


def find_run(path: Path) -> Path | None:
    """Return the run's folder that a path names; None for a recording.

    A run is a folder with a ``run.json`` (or that file), or one with the runs of several seeds. Any other folder is
    refused, unless a WFDB record of the same name lies beside it.

    Raises:
        OptionError: the path could name either, or is a folder that is neither.
    """
    if path.name == FILE_NAME and path.is_file():
        return path.parent
    if not path.is_dir():
        return None
    header = Path(f"{record_base(path)}.hea")
    if not is_run(path):
        if header.exists():
            return None
        problem = f"{path} is a folder without a {FILE_NAME}"
        raise OptionError("source", problem, "a recording's file, or the folder of a run", "name one recording in it")
    if header.exists():
        problem = f"{path} is the folder of a run, and {header} a recording"
        raise OptionError("source", problem, "one of them", f"say {header}, or {path / FILE_NAME}")
    return path
