"""Tell recordings, folders of them and run folders apart in the argument of ``ecgfed report``."""

from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.core.runs.document import FILE_NAME
from ecgfed.core.runs.seeds import is_run
from ecgfed.domain.record.wfdb_header import record_base


def find_run(path: Path) -> Path | None:
    """Return the run's folder that a path names; None for a recording, or a folder of recordings.

    A run is a folder with a ``run.json`` (or that file), or one with the runs of several seeds.

    Raises:
        OptionError: the path could name a run and a recording.
    """
    if path.name == FILE_NAME and path.is_file():
        return path.parent
    if not path.is_dir():
        return None
    if not is_run(path):
        return None
    header = Path(f"{record_base(path)}.hea")
    if header.exists():
        problem = f"{path} is the folder of a run, and {header} a recording"
        raise OptionError("source", problem, "one of them", f"say {header}, or {path / FILE_NAME}")
    return path


def is_folder_of_recordings(path: Path) -> bool:
    """Whether a path that names no run is a folder of recordings: no WFDB record of its name lies beside it."""
    return path.is_dir() and not Path(f"{record_base(path)}.hea").exists()
