"""``evaluate``: a run in, scores and files beside the run out."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ecgfed.base.errors import MissingExtraError, OptionError, RunError
from ecgfed.base.files import check_new_folder, replacing_file, replacing_folder, write_json, write_text
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of, safe_row
from ecgfed.core.evaluation.result import Scores
from ecgfed.core.evaluation.scenarios import PROTOCOLS
from ecgfed.core.evaluation.scenarios import evaluate as score
from ecgfed.core.federation.plan import worker_count
from ecgfed.core.personal.apply import personal_name
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.document import read_document
from ecgfed.core.runs.evaluations import SCHEMA_VERSION
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.core.runs.run import Run
from ecgfed.core.runs.seeds import check_same
from ecgfed.domain.cohort.cohort import LEAVE_OUT, Cohort
from ecgfed.domain.cohort.split import SPLIT_NAMES, TRAIN
from ecgfed.tasks.opening import Passed, every_run
from ecgfed.tasks.watch import NOBODY, Watch


def cohort_of(run: Run, cohort: Cohort | Path | str | None = None) -> Cohort:
    """Return the cohort a run was trained on, which may have moved; raises RunError, CohortError."""
    if isinstance(cohort, Cohort):
        return run.cohort(cohort.path)
    if cohort is None and not run.cohort_path.is_dir():
        problem = f"its cohort {run.cohort_path} is not there any more"
        raise RunError(run.path, problem, action="say where it lies now with --cohort")
    return run.cohort(None if cohort is None else Path(cohort))


def evaluate(
    run: Run | Path | str,
    *,
    cohort: Cohort | Path | str | None = None,
    split: str = "test",
    protocol: str = "ensemble",
    local_models: bool = True,
    leave_out: str = "nothing",
    personal: str | None = None,
    out: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    method: Passed = None,
    watch: Watch = NOBODY,
) -> Scores:
    """Score a run on one split: T_g, T_p, T_r, T_l, per class and per patient; JSON, CSV and curves beside the run.

    Args:
        run: a run, its folder, or a folder of several seeds (``train_seeds``).
        cohort: its cohort, where it has moved.
        split: ``test`` or ``valid``.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        local_models: score each client's model after local training too, where the global model is everybody's.
        leave_out: ``nothing`` or ``poor-quality``: beats that are not scored.
        personal: how each patient's answer is made from the global model, a name of ``ecgfed.core.personal``, or
            ``method`` for what the method keeps; default what the method is made for.
        out: a new folder for the files; default ``RUN/evaluation-SPLIT`` (with another answer than the method's usual
            one its name behind it), made anew each time.
        overwrite: replace ``out`` where it exists.
        workers: threads; default one a core.
        method: the run's own method, ``FILE.py:CLASS`` or its class, where it is somebody's own: never loaded because
            the run names it.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> scores = ecgfed.evaluate("run", split="valid")
        >>> 0 <= scores.T_g <= 1
        True
    """
    if split not in SPLIT_NAMES or split == SPLIT_NAMES[TRAIN]:
        raise OptionError("--split", f"{split!r}", "test or valid")
    if protocol not in PROTOCOLS:
        raise OptionError("--global", f"{protocol!r}", f"one of {', '.join(PROTOCOLS)}")
    if leave_out not in LEAVE_OUT:
        raise OptionError("--leave-out", f"{leave_out!r}", f"one of {', '.join(LEAVE_OUT)}")
    if personal is not None:
        personal_by_name(personal)
    runs = every_run(run, method, watch)
    check_same(runs)
    if out is not None:
        check_new_folder(Path(out), overwrite=overwrite)
    if len(runs) > 1:
        _check_all(runs, cohort)
    results = []
    for single_run in runs:
        with _run_locked(single_run) if out is None else nullcontext():
            opened, state, personal_model = (
                cohort_of(single_run, cohort),
                single_run.state(),
                personal_name(single_run, personal),
            )
            scores = score(
                single_run,
                opened,
                state,
                SPLIT_NAMES.index(split),
                protocol=protocol,
                workers=worker_count(workers),
                local=local_models,
                leave_out=leave_out,
                personal=personal_by_name(personal_model),
                progress=lambda completed, total: watch.progress("patients", completed, total),
            )
            result = {
                "run": str(single_run.path),
                "method": single_run.method.name,
                "modality": opened.modality,
                "cohort_fingerprint": opened.fingerprint,
                "split": split,
                "round": state.round,
                "protocol": protocol,
                "leave_out": leave_out,
                "personal": personal_model,
                **scores,
            }
            folder = _folder(single_run, split, leave_out, personal_model) if out is None else Path(out)
            if out is not None and len(runs) > 1:
                folder = folder / single_run.path.name
            _write(folder, single_run, result, watch)
            watch.note(f"Wrote {folder}.")
            results.append(result)
    return Scores(tuple(results))


def _check_all(runs: Sequence[Run], cohort: Cohort | Path | str | None) -> None:
    """Refuse runs of which one cannot be scored, before the scores of another are written; raises EcgfedError."""
    for run in runs:
        cohort_of(run, cohort)
        state = run.state()
        for client in state.client_states:
            state.client_states[client]
        read_lines(run.path / HISTORY, state.round)


@contextmanager
def _run_locked(run: Run) -> Iterator[None]:
    """Let nobody train or replace a run while its scores are made and put into its folder.

    Raises:
        LockedError: somebody trains it.
        RunError: somebody has put another one in its place since it was opened.
    """
    with locked(run.path, shared=True):
        if read_document(run.path).identity != run.identity:
            raise RunError(run.path, "was replaced by another run just now", action="evaluate it again")
        yield


def _folder(run: Run, split: str, leave_out: str, personal: str) -> Path:
    without = "" if leave_out == "nothing" else f"-without-{leave_out}"
    suffix = "" if personal == run.method.personal else f"-{personal}"
    return run.path / f"evaluation-{split}{without}{suffix}"


def _write(folder: Path, run: Run, result: Mapping[str, Any], watch: Watch) -> None:
    with replacing_folder(folder, overwrite=True) as partial:
        identity = {"schema_version": SCHEMA_VERSION, "run_identity": run.identity}
        write_json(partial / "scores.json", {**identity, **result, "run": run.path.resolve().name})
        write_text(partial / "per_patient.csv", _csv(result["per_patient"]))
        write_text(partial / "per_class.csv", _csv(result["per_class"]))
        history = read_lines(run.path / HISTORY, result["round"])
        try:
            from ecgfed.reports.curves import draw_learning_curves

            with replacing_file(partial / "learning_curves.png") as png:
                draw_learning_curves(history, png, f"{run.method.name}, {count_of(result['patients'], 'client')}")
        except MissingExtraError as problem:  # a figure is no reason to lose the scores
            watch.note(f"Without learning_curves.png: {problem}")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(safe_row, rows))
    return stream.getvalue()
