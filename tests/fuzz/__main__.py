"""``python -m fuzz``, from tests/: run cases, print the table, fail where one harms (what ``make fuzz`` runs)."""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

os.environ["COLUMNS"] = "120"  # a table is as wide wherever it is printed
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.cases import Prepared, action_of, copied, pick, prepare, task_of, tree_of  # noqa: E402
from fuzz.child import Limits, Task, run_all, run_one  # noqa: E402
from fuzz.jobs import ARTEFACTS, Artefact, Job  # noqa: E402
from fuzz.verdict import BAD, GOOD, Outcome, Result, counted, forbidden, judge, result_of  # noqa: E402
from fuzz.world import make_world, warm_up  # noqa: E402


def main() -> int:
    """Run the cases that the options ask for; 1 where one of them failed."""
    options = _options()
    with _workplace(options.keep) as place:
        began = time.monotonic()
        _one_thread()
        warm_up(Path("/nowhere"))
        world = options.world.resolve() if options.world else place / "made" / "world"
        if not world.is_dir():
            make_world(world)
        warm_up(world)
        print(f"{len(list(world.rglob('*')))} files ready in {time.monotonic() - began:.0f} s", flush=True)
        numbers = range(options.cases) if options.case is None else [options.case]
        outcomes = list(_run(world, place, numbers, options))
        outcomes.sort(key=lambda outcome: outcome.number)
        if options.case is not None:
            print(json.dumps([asdict(one) for one in outcomes], indent=1, ensure_ascii=True))
        return _report(outcomes, options, time.monotonic() - began)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many; default 2000")
    parser.add_argument("--seed", type=int, default=0, help="of the series; default 0")
    parser.add_argument("--case", type=int, help="run one case again, and show all of it")
    parser.add_argument("--only", default="", help="cases of these artefacts: bundle,zip bundle; all methods: method")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a case may take; default 60")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time; default one a core")
    parser.add_argument("--json", type=Path, help="write the table and every failure there")
    parser.add_argument("--world", type=Path, help="make the untouched artefacts there, once for many calls")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    return parser.parse_args()


@contextlib.contextmanager
def _workplace(keep: Path | None) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of cases are written and thrown away."""
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="ecgfed-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder).resolve()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)


def baseline(world: Path, home: Path, artefact: Artefact, job: Job, limits: Limits) -> Result:
    """Return what a command gives of the untouched artefact; raises RuntimeError where it does not end well."""
    folder = copied(world, home, (*artefact.holds, *job.needs))
    before = tree_of(folder)
    ended = run_one(Task(home, folder, action_of(job)), limits)
    if ended.code or ended.killed or forbidden(ended, artefact, job):
        raise RuntimeError(f"untouched, 'ecgfed {job.line}' gives {ended}")
    return result_of(ended, before, tree_of(folder), folder)


class _Baselines:
    """What each command gives of what is untouched, found when it is first asked for."""

    def __init__(self, world: Path, home: Path, limits: Limits) -> None:
        self.world, self.home, self.limits = world, home, limits
        self.known: dict[str, Result] = {}

    def of(self, artefact: Artefact, job: Job) -> Result:
        if job.line not in self.known:
            self.known[job.line] = baseline(self.world, self.home, artefact, job, self.limits)
        return self.known[job.line]


def _run(world: Path, place: Path, numbers: range | list[int], options: argparse.Namespace) -> Iterator[Outcome]:
    last = time.monotonic() + options.seconds
    limits = Limits(seconds=options.limit)
    baselines = _Baselines(world, place / "baseline", limits)
    free: SimpleQueue[Path] = SimpleQueue()
    for slot in range(options.jobs + 1):
        free.put(place / f"slot-{slot}")

    def tasks() -> Iterator[Task]:
        for number in numbers:
            if time.monotonic() > last:
                return
            name = pick(world, options.seed, number)[0].artefact.name
            if options.only and not any(
                name == only or name.startswith(f"{only} ") for only in options.only.split(",")
            ):
                continue
            home = free.get()
            prepared = prepare(world, home, options.seed, number)
            yield task_of(prepared, home)

    for task, ended in run_all(tasks(), options.jobs, limits):
        prepared: Prepared = task.about
        # asked for of every case: a command that refuses the untouched artefact too would never be found out
        wanted = baselines.of(prepared.case.artefact, prepared.case.job)
        outcome = judge(prepared, ended, tree_of(prepared.folder), _strays(task.home), lambda wanted=wanted: wanted)
        if outcome.verdict in BAD:
            print(f"case {outcome.number}: {outcome.verdict}: {_told(outcome)}", flush=True)
        free.put(task.home)
        yield outcome


def _strays(home: Path) -> list[str]:
    """Return what lies around a case's folder and nobody put there."""
    ours = {"a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/case", "tmp", "home", "bait", "stdout", "stderr", "told"}
    found = []
    for path in home.rglob("*"):
        name = path.relative_to(home).as_posix()
        if name not in ours and not name.startswith(("a/b/c/d/case/", "bait/")):
            found.append(name)
    return found


def _told(outcome: Outcome) -> str:
    return f"ecgfed {outcome.command}; {outcome.victim}: {outcome.what}; {outcome.why}".encode(
        "ascii", "backslashreplace"
    ).decode()


def _mean_seconds(outcomes: list[Outcome]) -> dict[str, float]:
    """Return how long each command took on average, the longest first."""
    took: dict[str, list[float]] = {}
    for outcome in outcomes:
        took.setdefault(outcome.command, []).append(outcome.seconds)
    means = {command: round(sum(of) / len(of), 2) for command, of in took.items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def _report(outcomes: list[Outcome], options: argparse.Namespace, seconds: float) -> int:
    counts = counted(outcomes)
    failed = [outcome for outcome in outcomes if outcome.verdict in BAD]
    print(f"\n{len(outcomes):6,}  cases, seed {options.seed}, in {seconds:.0f} s")
    for name, meaning in {**GOOD, **BAD}.items():
        print(f"{counts[name]:6,}  {meaning}")
    artefacts = {
        one.name: counted(outcome for outcome in outcomes if outcome.artefact == one.name) for one in ARTEFACTS
    }
    if options.json is not None:
        table = {
            "cases": len(outcomes),
            "seed": options.seed,
            "seconds": round(seconds),
            "peak_mb": max((outcome.peak_mb for outcome in outcomes), default=0),
            "verdicts": counts,
            "by_artefact": artefacts,
            "mean_seconds": _mean_seconds(outcomes),
            "failures": [asdict(outcome) for outcome in failed],
        }
        options.json.write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")
    if failed:
        print(f"\nOne again, alone: make fuzz SEED={options.seed} CASE={failed[0].number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
