"""``evaluate --held-out``: score a run on patients who took no part in its training."""

from pathlib import Path

from ecgfed.base.files import write_json
from ecgfed.base.options import merged
from ecgfed.core.config import ScoringOptions
from ecgfed.core.evaluation.held_out import evaluate_held_out as score
from ecgfed.core.evaluation.result import Scores
from ecgfed.core.federation.plan import worker_count
from ecgfed.core.runs.intervals import Draws
from ecgfed.core.runs.run import Run
from ecgfed.core.runs.seeds import check_same
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.tasks.evaluate import cohort_of, run_locked
from ecgfed.tasks.opening import Passed, PassedNet, all_runs
from ecgfed.tasks.progress import SILENT, ProgressReporter

#: Written into the run's folder.
FILE_NAME = "held-out.json"


def evaluate_held_out(
    run: Run | Path | str,
    *,
    cohort: Cohort | Path | str | None = None,
    protocol: str = ScoringOptions.protocol,
    leave_out: str = ScoringOptions.leave_out,
    workers: int | None = None,
    method: Passed = None,
    net: PassedNet = None,
    progress: ProgressReporter = SILENT,
) -> Scores:
    """Score the global model of a run on all beats of the patients held out, and write ``held-out.json`` beside it.

    Args:
        run: a run, its folder, or a folder of several seeds.
        cohort: its cohort, if it was moved.
        protocol: as in ``ScoringOptions``.
        leave_out: as in ``ScoringOptions``.
        workers: number of threads; default one per core.
        method: as in ``evaluate``.
        net: as in ``evaluate``.
        progress: receives progress, notes and warnings.

    Returns:
        Scores with ``T_g`` and, as ``mean("T_p_global")``, the mean over patients.

    Raises:
        EcgfedError: as ``evaluate``; nobody is held out.

    Examples:
        >>> import ecgfed
        >>> cohort = ecgfed.prepare_demo("some-out", patients=4, minutes=1, holdout=["demo01", "demo02"])
        >>> run = ecgfed.train(cohort, "without-them", method="fedavg", rounds=1, local_steps=1)
        >>> ecgfed.evaluate_held_out(run).results[0]["patients"]
        2
    """
    merged(ScoringOptions, None, {"protocol": protocol, "leave_out": leave_out}, "evaluate_held_out")  # checks them
    runs = all_runs(run, method, progress, net)
    check_same(runs)
    results, draws = [], []
    for single_run in runs:
        drawn: Draws = {}
        with run_locked(single_run):
            opened, state = cohort_of(single_run, cohort), single_run.state()
            scores = score(
                single_run,
                opened,
                state,
                protocol=protocol,
                workers=worker_count(workers),
                leave_out=leave_out,
                draws=drawn,
            )
            about = {"run": str(single_run.path), "method": single_run.method.name, "modality": opened.modality}
            result = {**about, "split": "held-out", "round": state.round, "leave_out": leave_out, **scores}
            identity = {"run_identity": single_run.identity, "cohort_fingerprint": opened.fingerprint}
            write_json(single_run.path / FILE_NAME, {**identity, **result, "run": single_run.path.resolve().name})
        progress.note(f"Wrote {single_run.path / FILE_NAME}.")
        results.append(result)
        draws.append(drawn)
    return Scores(tuple(results), draws=tuple(draws))
