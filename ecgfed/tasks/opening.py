"""Open runs, with their custom method if they have one."""

from pathlib import Path

from ecgfed.core.methods.base import Method
from ecgfed.core.nets.net_source import NetFactory
from ecgfed.core.runs.run import Run, open_run
from ecgfed.core.runs.seeds import open_single_run, run_folders
from ecgfed.tasks.progress import ProgressReporter

#: A custom method: its name, or its class.
Passed = str | type[Method] | None
#: A net of one's own: its name, its class, or a function that returns a module.
PassedNet = str | NetFactory | None


def single_run(run: Run | Path | str, method: Passed, progress: ProgressReporter, net: PassedNet = None) -> Run:
    """Return a run, opened if it is a folder; raises RunError, also for a folder of several seeds."""
    return run if isinstance(run, Run) else warn_if_unpinned(open_single_run(Path(run), method, net), progress)


def all_runs(run: Run | Path | str, method: Passed, progress: ProgressReporter, net: PassedNet = None) -> list[Run]:
    """Return a run, or the runs of all seeds in a folder; raises RunError."""
    if isinstance(run, Run):
        return [run]
    return [warn_if_unpinned(open_run(folder, method, net), progress) for folder in run_folders(Path(run))]


def warn_if_unpinned(run: Run, progress: ProgressReporter) -> Run:
    """Return the run; warn if the file of its method or net cannot be verified."""
    if run.unpinned:
        progress.warn(f"{run.path} does not say the SHA-256 of its {run.unpinned}'s file: it cannot be verified")
    return run
