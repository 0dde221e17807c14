"""What the benchmarks share: a cohort, runs and scores kept in a folder, results as JSON, tables.

Every script runs as ``python benchmarks/FOLDER/FILE.py``, from anywhere, and puts this folder on its path itself. It
calls the verbs of ``import ecgfed``; one that starts processes says why. What ``--work DIR`` holds already is not done
again, and what it holds of another question is refused.
"""

import argparse
import json
import math
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import ecgfed
from ecgfed.base.errors import EcgfedError, OptionError, RunError
from ecgfed.base.extras import is_installed
from ecgfed.base.files import read_json, write_json
from ecgfed.base.locks import locked

if TYPE_CHECKING:
    from ecgfed.core.evaluation.ec57 import BeatComparison

ROOT = Path(__file__).resolve().parents[1]
#: FedAvg with the server step GRP-FED has: what is left between them are GRP-FED's weights.
SAME_SERVER = {
    "lr": 0.02,
    "server_optimizer": "adam",
    "server_momentum": 0.9,
    "server_lr": 0.01,
    "server_schedule": "cosine",
}
#: Training for patients who take no part in it (docs/decisions/0035), but for its method and passes.
UNSEEN = {"local_steps": 4, "batch_size": 64, "eval_every": 0, "seed": 0, "rr": True, "window_share": 0.1}
#: FedGate's weights by loss, its default when the model in the package was trained (docs/decisions/0054).
BY_LOSS = {"q0": 1.0, "eta_q": 0.5}
#: So begin the names of what the flagship's benchmark makes from FedGate's global models when training is over.
OF_ITS_MODEL = "FedGate's global model, "
#: FedGate trained three times as long, and what is made from those global models.
LONGER = "FedGate, 60 passes"
LONGER_GRP = "GRP-FED, 60 passes"
WITH_SIXTY = (LONGER, LONGER_GRP)
OF_LONGER = "FedGate's global model of 60 passes, "
_DS1 = "101 106 108 109 112 114 115 116 118 119 122 124 201 203 205 207 208 209 215 220 223 230"
_DS2 = "100 103 105 111 113 117 121 123 200 202 210 212 213 214 219 221 222 228 231 232 233 234"
#: The records of MIT-BIH as de Chazal et al. 2004 divide them; 201 (DS1) and 202 (DS2) are one person.
DS1, DS2, PACED = tuple(_DS1.split()), tuple(_DS2.split()), ("102", "104", "107", "217")
#: How often seeds and patients are drawn anew for an interval, and what share of what comes out it holds.
DRAWS, INTERVAL = 2000, (0.025, 0.975)
#: What is kept of a run and too long to print.
_NOT_PRINTED = ("patients", "drawn", "curve", "cohort")
#: Options that do not change a result.
_NO_MATTER = ("workers", "collect", "known", "prepare", "prefix")


def option(*names: str, **how: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an option of a benchmark, as ``argparse`` takes it."""
    return names, how


def benchmark(
    main: Callable[[argparse.Namespace], None],
    *options: tuple[tuple[str, ...], dict[str, Any]],
    standard: bool = True,
    source: str = "folder with the 48 MIT-BIH records",
    required: bool = True,
    results: str = "results.json",
) -> NoReturn:
    """Run a script's function with what its command line says; a user's mistake is one line, exit code 2.

    Args:
        main: the benchmark; its module's docstring is the help text.
        options: what it takes besides.
        standard: whether it takes ``--source``, ``--work`` and ``--results``.
        source: what ``--source`` is.
        required: whether it has to be named even where the cohort is there.
        results: the name of the results file, beside the script unless ``--results`` names another one.
    """
    doc, script = main.__globals__["__doc__"], Path(main.__globals__["__file__"])
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if standard:
        arguments.add_argument("--source", type=Path, required=required, help=source)
        arguments.add_argument("--work", type=Path, required=True, help="folder for what is made, and not made again")
        arguments.add_argument("--results", type=Path, default=script.with_name(results))
    for names, how in options:
        arguments.add_argument(*names, **how)
    try:
        main(arguments.parse_args())
    except EcgfedError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
    sys.exit()


def prepared(source: Path | None, work: Path, *, verb: str = "prepare_mitbih", **options: Any) -> ecgfed.Cohort:
    """Return the cohort in ``work``, made from ``source`` where it is not there yet.

    Args:
        source: the recordings or images; None where the cohort has to be there.
        work: the benchmark's folder.
        verb: ``prepare_mitbih`` or ``prepare_cifar10``.
        options: of the verb.

    Raises:
        OptionError: no source, or a cohort that was prepared with other options.
        EcgfedError: as the verb.
    """
    folder, note = work / "cohort", work / "cohort-options.json"
    of_mitbih = {"by": "patient"} if verb == "prepare_mitbih" else {}
    asked = json.loads(json.dumps({"verb": verb, **of_mitbih, **options}))  # tuples become lists, as in the file
    if not folder.is_dir():
        if source is None:
            raise OptionError("--source", "is missing", f"what {folder} is made from")
        work.mkdir(parents=True, exist_ok=True)
        write_json(note, asked)
        cohort: ecgfed.Cohort = getattr(ecgfed, verb)(source, folder, **options)
        return cohort
    found = read_json(note, RunError) if note.is_file() else asked
    if of_mitbih:  # a note without it is older than --by patient as the default
        found = {"by": "record", **found}
    if found != asked:
        raise OptionError("--work", f"{folder} was prepared with {found}", str(asked), "name another folder")
    return ecgfed.open_cohort(folder)


#: Which split of the beats a benchmark is run on; none is the random one of seed 0, which the pages have.
SPLIT_OPTIONS = (
    option("--split", choices=("chronological",), help="by time within each patient, in place of at random"),
    option("--split-seed", type=int, metavar="K", help="another random split of the same beats"),
)


def of_split(given: argparse.Namespace) -> argparse.Namespace:
    """Return what is asked with folders and results of its own where another split of the beats is named.

    ``prepare`` has the options of ``prepared``, ``prefix`` what the keys of finished runs begin with.

    Raises:
        OptionError: a chronological split with a seed.
    """
    seed = given.split_seed
    if given.split and seed is not None:
        raise OptionError("--split-seed", "with --split", "a random split, which has a seed", code="conflict")
    name = given.split or (f"split-{seed}" if seed else "")
    options = {"split": given.split} if given.split else {"seed": seed} if seed else {}
    changed = argparse.Namespace(**vars(given))
    changed.prepare, changed.prefix = options, f"{name}/" if name else ""
    if name:
        changed.work = given.work / name
        changed.results = given.results.with_name(f"{given.results.stem}-{name}.json")
    return changed


def trained(cohort: ecgfed.Cohort | Path, run: Path, **options: Any) -> ecgfed.Run:
    """Train, or go on with a run that is not finished; a finished one comes back as it is.

    Args:
        cohort: the cohort.
        run: the run's folder.
        options: of ``ecgfed.train``; a run that was begun with others is refused.

    Raises:
        EcgfedError: as ``ecgfed.train``.
    """
    return ecgfed.train(cohort, run, resume=(run / "run.json").is_file(), **options)


def scored(run: ecgfed.Run, split: str = "test", **options: Any) -> dict[str, Any]:
    """Return the scores of a run's last round; those that its folder holds are read, not made again.

    Args:
        run: the run.
        split: ``test`` or ``valid``.
        options: of ``ecgfed.evaluate`` that do not change its scores.

    Raises:
        EcgfedError: as ``ecgfed.evaluate``.
    """
    file = run.path / f"evaluation-{split}" / "scores.json"
    if file.is_file() and (found := read_json(file, RunError))["round"] == run.plan.rounds:
        return dict(found)
    return ecgfed.evaluate(run, split=split, **options).to_dict()


def known_runs(file: Path) -> dict[str, Any]:
    """Return the finished runs that a file keeps, none where there is no file.

    Raises:
        RunError: it is no JSON object of JSON objects.
    """
    found = read_json(file, RunError) if file.is_file() else {}
    if not isinstance(found, dict) or not all(isinstance(run, dict) for run in found.values()):
        raise RunError(file, "holds something else than finished runs", "a JSON object of them", "fetch it again")
    return found


def check_cohort(file: Path, key: str, run: dict[str, Any], cohort: ecgfed.Cohort) -> None:
    """Refuse a finished run of another cohort: a script shall not print what was measured on other recordings.

    Raises:
        RunError: it is of another one.
    """
    if run.get("cohort") != cohort.fingerprint:
        raise RunError(
            file,
            f"has {key} of another cohort than {cohort.path} ({str(run.get('cohort'))[:8]}...)",
            f"runs of {cohort.fingerprint[:8]}...",
            "move the file away, so that all is trained anew",
        )


def remembered(
    file: Path, key: str, make: Callable[[], dict[str, Any]], cohort: ecgfed.Cohort | None = None
) -> dict[str, Any]:
    """Return what ``file`` says of ``key``; where it says nothing, what ``make`` gives, which is then kept there.

    Args:
        file: a JSON file of finished runs, or none yet.
        key: the run.
        make: trains and scores it.
        cohort: what it is trained on, whose fingerprint is kept with it; a run of another one is refused.

    Raises:
        EcgfedError: ``file`` holds something else or cannot be written; and whatever ``make`` raises.
    """
    known = known_runs(file)
    if key in known and cohort is not None:
        check_cohort(file, key, known[key], cohort)
    if key not in known:
        made = json.loads(json.dumps(make()))
        if cohort is not None:
            made["cohort"] = cohort.fingerprint
        # its own lock, for the file's is for who writes it: of two scripts at once none loses the other's run
        with locked(file.with_name(f"{file.name}.remembered"), wait_s=60):
            known = {**known_runs(file), key: made}
            write_json(file, known)
        print(key, {name: value for name, value in made.items() if name not in _NOT_PRINTED}, flush=True)
    return dict(known[key])


def compared(record: Path, marks: ecgfed.Annotation, **options: Any) -> "BeatComparison":
    """Compare annotations with a WFDB record's own, as EC57 has it.

    Args:
        record: the record.
        marks: the annotations under test.
        options: of ``ecgfed.core.evaluation.ec57.compare``.
    """
    from ecgfed.core.evaluation.ec57 import compare
    from ecgfed.domain.record.wfdb_files import read_annotation
    from ecgfed.domain.record.wfdb_header import read_header

    header, reference = read_header(record), read_annotation(record)
    return compare(reference, marks, float(header.fs), samples=int(header.sig_len), record=record.name, **options)


def ec57_scores(
    source: Path, folder: Path, names: Sequence[str], *, start_s: float, suffix: str = "ecgfed", mapping: str = "aami5"
) -> dict[str, Any]:
    """Return the EC57 scores of several records together, gross and average.

    Args:
        source: the records with their reference annotations.
        folder: the annotations under test, ``NAME.SUFFIX``.
        names: which records.
        start_s: end of the learning period, seconds; EC57 says 300.
        suffix: of the annotations under test.
        mapping: a name from ``ecgfed.core.evaluation.ec57.MAPPINGS``.
    """
    from ecgfed.core.evaluation.ec57 import CLASSES, MATCH_S, aggregate
    from ecgfed.domain.record.wfdb_files import read_annotation_file

    comparisons = [
        compared(source / name, read_annotation_file(folder / f"{name}.{suffix}"), start_s=start_s, mapping=mapping)
        for name in names
    ]
    about = {"reference": "atr", "test": suffix, "mapping": mapping, "start_s": start_s, "match_s": MATCH_S}
    return {**about, "classes": list(CLASSES), **aggregate(comparisons).as_json()}


def worst_tenth(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the mean of the lowest tenth of the patients (seeds,), one at least, of scores (seeds, patients)."""
    found = np.sort(scores, axis=1)[:, : math.ceil(scores.shape[1] / 10)].mean(axis=1)
    return np.asarray(found, np.float64)


def bootstrap(
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], float], seeds: int, patients: int
) -> dict[str, float]:
    """Return a statistic of seeds and patients, and its 95% interval: ``mean``, ``low``, ``high``.

    Both are drawn with replacement; the same draws each time, so that two answers on the same beats are paired.

    Args:
        statistic: of the numbers of the drawn seeds (seeds,) and patients (patients,).
        seeds: how many there are.
        patients: how many there are.
    """
    rng = np.random.default_rng(0)
    drawn = [statistic(rng.integers(0, seeds, seeds), rng.integers(0, patients, patients)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, INTERVAL)
    mean = statistic(np.arange(seeds), np.arange(patients))
    return {"mean": float(mean), "low": float(low), "high": float(high)}


def t_interval(differences: Sequence[float]) -> dict[str, float]:
    """Mean of paired differences, two at least, and its 95% interval by Student's t."""
    mean = float(np.mean(differences))
    half = float(stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def command(given: argparse.Namespace) -> str:
    """Return the command that gives a script's results: its options without the folders and files."""
    script = Path(sys.argv[0]).resolve()
    words = ["python", str(script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name)]
    for name, value in vars(given).items():
        if value is None or value is False or isinstance(value, Path) or name in _NO_MATTER:
            continue
        values = () if value is True else value if isinstance(value, list | tuple) else (value,)
        words += [f"--{name.replace('_', '-')}", *(f"{v:g}" if isinstance(v, float) else str(v) for v in values)]
    return shlex.join(words)


def environment() -> dict[str, Any]:
    """Return what results were made with: machine, processor, cores, versions."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.is_file() else []
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    versions = {name: version(name) for name in ("ecgfed", "numpy", "torch") if is_installed(name)}
    cores, python = os.cpu_count(), platform.python_version()
    return {"machine": platform.machine(), "processor": processor, "cores": cores, "python": python, **versions}


def save(given: argparse.Namespace, results: dict[str, Any]) -> None:
    """Write results, what they were made with and the command that gives them into ``--results``.

    Raises:
        StorageError: the disk refuses; the file is as it was.
    """
    write_json(given.results, {"command": command(given), "environment": environment(), **results})


def needs_flower() -> None:
    """End in one line, exit code 2, where Flower is not installed; before a script imports the network."""
    if not is_installed("flwr"):
        print("this script needs Flower: 'make flower', then run it with .venv-flower/bin/python", file=sys.stderr)
        sys.exit(2)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(map(str, line))} |" for line in (columns, ["---"] * len(columns), *rows)]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(*table(columns, rows), sep="\n", flush=True)


def short(value: float) -> str:
    """Return three figures, ``37.6``, from 100 on as a whole number with commas, ``17,400``."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def mean_of(values: Iterable[float | None]) -> str:
    """Return the mean of the values that are there, ``0.934``, or ``-`` where there is none."""
    there = [value for value in values if value is not None]
    return f"{statistics.fmean(there):.3f}" if there else "-"


def interval(difference: dict[str, float]) -> str:
    """Return a difference with its interval, ``+0.033 (-0.007 to +0.077)``."""
    return f"{difference['mean']:+.3f} ({difference['low']:+.3f} to {difference['high']:+.3f})"


def with_interval(value: dict[str, float]) -> str:
    """Return a score with its interval, ``0.895 (0.861 to 0.925)``."""
    return f"{value['mean']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return the lines of a section that a reader unfolds; it renders on GitHub and in the site alike."""
    return ['<details markdown="1">', f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def spread_of(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean and standard deviation over seeds, ``mean`` and ``sd``; no deviation, None, of a single one."""
    return {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}


def of_spread(value: dict[str, Any]) -> str:
    """Return a mean with its standard deviation, ``0.934 ± 0.004``; ``0.934`` where it is of one seed."""
    return f"{value['mean']:.3f}" + (f" ± {value['sd']:.3f}" if value["sd"] is not None else "")


def results_of(folder: str, name: str = "results.json") -> dict[str, Any] | None:
    """Return what a results file of a benchmark's folder holds; None where it has not been run.

    Raises:
        RunError: it is no JSON object.
    """
    file = ROOT / "benchmarks" / folder / name
    return dict(read_json(file, RunError)) if file.is_file() else None


def kept_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of scores with local models: macro-F1, accuracies, the local models' without each patient."""
    local = result["local_models"]
    return {
        "scores": result["scores"],
        "accuracies": result["accuracies"],
        "local_models": local and {key: value for key, value in local.items() if key != "fairness"},
    }
