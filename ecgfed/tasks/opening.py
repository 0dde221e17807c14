"""Opening a run that a person named, with their own method where it has one."""

from pathlib import Path

from ecgfed.core.methods.base import Method
from ecgfed.core.runs.run import Run, open_run
from ecgfed.core.runs.seeds import open_single_run, run_folders
from ecgfed.tasks.watch import Watch

#: A run's own method: as a person names it, or its class.
Passed = str | type[Method] | None


def one_run(run: Run | Path | str, method: Passed, watch: Watch) -> Run:
    """Return a run; of its folder the run in it. Raises RunError, for a folder of several seeds too."""
    return run if isinstance(run, Run) else told(open_single_run(Path(run), method), watch)


def every_run(run: Run | Path | str, method: Passed, watch: Watch) -> list[Run]:
    """Return a run, or those of the seeds in a folder; raises RunError."""
    if isinstance(run, Run):
        return [run]
    return [told(open_run(folder, method), watch) for folder in run_folders(Path(run))]


def told(run: Run, watch: Watch) -> Run:
    """Return the run; warn where nobody can tell whether its own method's file is the one it was made with."""
    if run.unpinned:
        watch.warn(
            f"{run.path} does not say the SHA-256 of its method's file: nobody can tell whether this is the same one"
        )
    return run
