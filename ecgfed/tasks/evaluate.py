"""``evaluate``: score a run and write the scores beside it."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import MissingExtraError, RunError, param
from ecgfed.base.files import check_new_folder, replacing_file, replacing_folder, write_json, write_text
from ecgfed.base.locks import locked
from ecgfed.base.options import flat_options, merged
from ecgfed.base.text import count_of, listed, safe_row
from ecgfed.core.config import ScoringOptions
from ecgfed.core.evaluation.metrics import Metric, resolve_metrics
from ecgfed.core.evaluation.result import Scores
from ecgfed.core.evaluation.scenarios import evaluate as score
from ecgfed.core.evaluation.tables import PredictionCollector
from ecgfed.core.federation.plan import worker_count
from ecgfed.core.methods.own_losses import LOSS_PIN, is_loaded
from ecgfed.core.personal.apply import personal_of
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.document import read_document
from ecgfed.core.runs.draws import write_draws
from ecgfed.core.runs.evaluations import SCHEMA_VERSION
from ecgfed.core.runs.history import read_history
from ecgfed.core.runs.intervals import Draws
from ecgfed.core.runs.own_functions import OWN_FUNCTIONS
from ecgfed.core.runs.run import Run
from ecgfed.core.runs.seed_names import name_of_seed
from ecgfed.core.runs.seeds import check_same
from ecgfed.domain.cohort.cohort import Cohort, held_in_memory
from ecgfed.domain.cohort.split import SPLIT_NAMES
from ecgfed.tasks.opening import Passed, PassedNet, all_runs
from ecgfed.tasks.progress import SILENT, ProgressReporter


def cohort_of(run: Run, cohort: Cohort | Path | str | None = None) -> Cohort:
    """Return the cohort of a run, which may have been moved; raises RunError, CohortError."""
    if isinstance(cohort, Cohort):
        return run.cohort(cohort)
    if cohort is None and held_in_memory(run.fingerprint) is None and not run.cohort_path.is_dir():
        problem = f"its cohort {run.cohort_path} does not exist"
        action = f"pass its new path with {param('cohort')}, or one made again of the same arrays"
        raise RunError(run.path, problem, action=action)
    return run.cohort(None if cohort is None else Path(cohort))


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(ScoringOptions)
def evaluate(
    run: Run | Path | str,
    *,
    cohort: Cohort | Path | str | None = None,
    personal: str | type | None = None,
    metrics: Mapping[str, Metric | str] | Iterable[str] | None = None,
    out: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    method: Passed = None,
    net: PassedNet = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Scores:
    """Score a run on a split: T_g, T_p, T_r, T_l, per class and per patient; write JSON, CSV and curves beside the run.

    Args:
        run: a run, its folder, or a folder of several seeds (``train_seeds``).
        cohort: its cohort, if it was moved.
        personal: the personalization method, a name of ``ecgfed.core.personal`` or your own class (also
            ``FILE.py:CLASS``), or ``method`` for the personal models of the run's method; default the one of the run's
            method.
        metrics: further metrics: ``auroc`` and ``auprc`` by name, and functions as ``{"name": f}``. ``f(truth,
            probabilities)`` takes (n,) int64 class numbers and (n, classes) float32 probabilities, and returns a
            number or one for each class, NaN where it is not defined (``ecgfed.core.evaluation.metrics``).
        out: a new folder for the files; default ``RUN/evaluation-SPLIT``, with the name of ``personal`` appended if it
            is not the default; an earlier evaluation of the same name is replaced.
        overwrite: replace an existing ``out``.
        workers: number of threads; default one per core.
        method: the run's method, ``FILE.py:CLASS`` or the class, if it is custom; it is never loaded from the run.
        net: the same of a net of your own, ``FILE.py:CLASS``, its class or a function that returns a module.
        progress: receives progress, notes and warnings.
        options: the fields of ``ScoringOptions``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line.

    Examples:
        >>> import ecgfed
        >>> scores = ecgfed.evaluate("run", split="valid")
        >>> 0 <= scores.T_g <= 1
        True
    """
    scoring = merged(ScoringOptions, None, options, "evaluate")
    split, leave_out = scoring.split, scoring.leave_out
    if personal is not None:
        personal_by_name(personal)
    measured = resolve_metrics(metrics)
    runs = all_runs(run, method, progress, net)
    check_same(runs)
    if out is not None:
        check_new_folder(Path(out), overwrite=overwrite)
    if len(runs) > 1:
        _check_all(runs, cohort)
    results, predictions, draws = [], [], []
    for single_run in runs:
        collector = PredictionCollector()
        with run_locked(single_run) if out is None else nullcontext():
            opened, state = cohort_of(single_run, cohort), single_run.state()
            personal_model, fitter = personal_of(single_run, personal)
            trains = is_loaded(str(getattr(single_run.method.settings, "risk", "")), single_run.meta.get(LOSS_PIN))
            if scoring.local_models and not trains:
                progress.note("Local models are not scored: the run's loss is somebody's own code, not loaded here.")
            scores = score(
                single_run,
                opened,
                state,
                SPLIT_NAMES.index(split),
                protocol=scoring.protocol,
                workers=worker_count(workers),
                local=scoring.local_models and trains,
                leave_out=leave_out,
                personal=fitter,
                metrics=measured,
                collector=collector,
                on_progress=lambda completed, total: progress.update("patients", completed, total),
            )
            unused = [name for name in single_run.meta.get(OWN_FUNCTIONS, {}) if name != "sampler"]
            if scores["local_models"] and unused:
                progress.note(f"Local models were trained for one more round without the run's {listed(unused)}.")
            result = {
                "run": str(single_run.path),
                "method": single_run.method.name,
                "modality": opened.modality,
                "cohort_fingerprint": opened.fingerprint,
                "split": split,
                "round": state.round,
                "protocol": scoring.protocol,
                "leave_out": leave_out,
                "personal": personal_model,
                **scores,
            }
            folder = _folder(single_run, split, leave_out, personal_model) if out is None else Path(out)
            if out is not None and len(runs) > 1:
                folder = folder / name_of_seed(single_run.path)
            _write(folder, single_run, result, collector.draws, progress)
            progress.note(f"Wrote {folder}.")
            results.append(result)
            predictions.append(collector.columns())
            draws.append(collector.draws)
    return Scores(tuple(results), tuple(predictions), tuple(draws))


def _check_all(runs: Sequence[Run], cohort: Cohort | Path | str | None) -> None:
    """Check that all runs can be scored before any scores are written; raises EcgfedError."""
    for run in runs:
        cohort_of(run, cohort)
        state = run.state()
        for client in state.client_states:
            state.client_states[client]
        read_history(run.path, state.round)


@contextmanager
def run_locked(run: Run) -> Iterator[None]:
    """Hold the run's lock while it is scored; raises LockedError, and RunError if another run has replaced it."""
    with locked(run.path, shared=True):
        if read_document(run.path).identity != run.identity:
            raise RunError(run.path, "was replaced by another run meanwhile", action="evaluate it again")
        yield


def _folder(run: Run, split: str, leave_out: str, personal: str) -> Path:
    without = "" if leave_out == "nothing" else f"-without-{leave_out}"
    suffix = "" if personal == run.method.personal else f"-{personal}"
    return run.path / f"evaluation-{split}{without}{suffix}"


def _write(folder: Path, run: Run, result: Mapping[str, Any], draws: Draws, progress: ProgressReporter) -> None:
    with replacing_folder(folder, overwrite=True) as partial:
        identity = {"schema_version": SCHEMA_VERSION, "run_identity": run.identity}
        write_json(partial / "scores.json", {**identity, **result, "run": run.path.resolve().name})
        write_draws(partial, draws)
        write_text(partial / "per_patient.csv", _csv(result["per_patient"]))
        write_text(partial / "per_class.csv", _csv(result["per_class"]))
        if "per_site" in result:
            write_text(partial / "per_site.csv", _csv(result["per_site"]))
        history = read_history(run.path, result["round"])
        try:
            from ecgfed.reports.curves import draw_learning_curves

            with replacing_file(partial / "learning_curves.png") as png:
                draw_learning_curves(history, png, f"{run.method.name}, {count_of(result['patients'], 'client')}")
        except MissingExtraError as problem:  # a missing figure must not lose the scores
            progress.note(f"Without learning_curves.png: {problem}")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(safe_row, rows))
    return stream.getvalue()
