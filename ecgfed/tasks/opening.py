"""Open cohorts, and runs with their custom method if they have one."""

from concurrent.futures import Executor
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Method
from ecgfed.core.nets.net_source import NetFactory
from ecgfed.core.runs.run import Run, open_run
from ecgfed.core.runs.seeds import open_single_run, run_folders
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.progress import ProgressReporter

#: A custom method: its name, or its class.
Passed = str | type[Method] | None
#: A net of one's own: its name, its class, or a function that returns a module.
PassedNet = str | NetFactory | None


def opened_cohort(cohort: Cohort | Path | str, executor: Executor | None = None) -> Cohort:
    """Return a cohort, opened if it is a folder.

    Args:
        cohort: an opened cohort, or its folder.
        executor: whose workers open it again by its path.

    Raises:
        CohortError: it cannot be opened.
        OptionError: it is in memory, and there is an executor.
    """
    opened = cohort if isinstance(cohort, Cohort) else open_cohort(Path(cohort))
    if executor is not None and opened.in_memory:
        raise OptionError("executor", "a cohort in memory", "a cohort in a folder", "pass out= to cohort_from_arrays")
    return opened


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
