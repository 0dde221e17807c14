"""The harness finds what is planted: a check that cannot fail is a defect."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from random import Random

import numpy as np
import pytest

from fuzz.cases import Case, Prepared, Tree, reseal, tree_of
from fuzz.child import Ended, Limits, Task, run_all, run_one
from fuzz.jobs import ARTEFACTS, Artefact, Job, mutations_of, why_unsealed
from fuzz.verdict import Outcome, judge, result_of

OLD = Path(__file__).parents[1] / "data" / "version-0.1"
LIMITS = Limits(seconds=30, idle_s=20, memory=8 << 30)
BY_NAME = {artefact.name: artefact for artefact in ARTEFACTS}
Action = Callable[[], object]


class Bench:
    """A folder with one file in it, as a case has, and actions in place of a command."""

    def __init__(self, home: Path, artefact: str = "cohort", victim: str = "cohort/label.npy") -> None:
        self.home, self.folder = home / "slot", home / "slot" / "a" / "case"
        for name in ("a/case", "tmp", "home", "bait"):
            (self.home / name).mkdir(parents=True)
        (self.folder / victim).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / victim).write_bytes(b"as it was")
        (self.home / "bait" / "secret").write_bytes(b"secret")
        self.case = Case(0, 0, BY_NAME[artefact], victim, Job("evaluate --quiet"))
        self.before: Tree = tree_of(self.folder)

    def run(self, action: Action, limits: Limits = LIMITS) -> Ended:
        return run_one(Task(self.home, self.folder, action), limits)

    def verdict(self, action: Action, limits: Limits = LIMITS, *, good: Action | None = None) -> Outcome:
        """Judge an action against what ``good`` gives: the output ``well``, unless it is said."""
        wanted = self.run(good or saying("well"))
        wanted_result = result_of(wanted, self.before, tree_of(self.folder), self.folder)
        prepared = Prepared(self.case, self.folder, "flip_bits", "", False, self.before, b"as it was")
        ended = self.run(action, limits)
        return judge(prepared, ended, tree_of(self.folder), (), lambda: wanted_result)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def saying(text: str, error: str = "", code: int = 0) -> Action:
    def say() -> None:
        sys.stdout.write(text)
        sys.stderr.write(error)
        raise SystemExit(code)

    return say


def test_one_line_and_exit_2_is_a_refusal(bench: Bench) -> None:
    found = bench.verdict(saying("", "ecgfed: note: old\necgfed: label.npy: has changed\n", 2))
    assert (found.verdict, found.why) == ("refused", "ecgfed: label.npy: has changed")


def test_a_batch_that_goes_on_ends_with_1_and_names_what_failed(bench: Bench) -> None:
    """docs/command-line.md: what cannot be used is listed, the rest is done, and the exit code is 1."""
    line, wanted = "ecgfed: note: failed: a.dat: is corrupt\n", ("refused", "exit", "unclear")
    batch = replace(bench.case, job=replace(bench.case.job, lists_failures=True))
    for case, error, verdict in zip((batch, bench.case, batch), (line, line, ""), wanted, strict=True):
        bench.case = case
        assert bench.verdict(saying("", error, 1)).verdict == verdict


def test_a_planted_traceback_is_found(bench: Bench) -> None:
    def fail() -> None:
        raise IndexError("planted")

    found = bench.verdict(fail)
    assert (found.verdict, found.why) == ("traceback", "IndexError: planted")


def test_a_planted_loop_and_a_wait_without_end_are_found(bench: Bench) -> None:
    def loop() -> None:
        while True:
            pass

    def wait() -> None:
        os.mkfifo("pipe")
        Path("pipe").read_bytes()

    assert bench.verdict(loop, Limits(seconds=0.5)).verdict == "hang"
    assert bench.verdict(wait, Limits(seconds=600, idle_s=0.5)).verdict == "hang"


def test_a_planted_memory_eater_is_found(bench: Bench) -> None:
    here = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def eat() -> None:
        eaten = [b"x" * (1 << 20) for _ in range(1500)]
        time.sleep(600)
        del eaten

    def taste() -> None:  # gone before anybody looks
        np.ones(300_000_000, np.float32)

    limits = Limits(seconds=30, idle_s=20, memory=here + (200 << 20))
    assert bench.verdict(eat, limits).verdict == "memory"
    assert bench.verdict(taste, limits).verdict == "memory"


def test_an_allocation_of_the_impossible_is_a_traceback_everywhere(bench: Bench) -> None:
    """However much a machine promises."""
    assert "MemoryError" in bench.verdict(lambda: np.empty(1 << 36, np.uint8)).why


def test_a_planted_silent_change_is_found_where_there_is_a_checksum(tmp_path: Path) -> None:
    assert Bench(tmp_path / "1").verdict(saying("other")).verdict == "silent"
    log = Bench(tmp_path / "2", "run", "run/history.jsonl").verdict(saying("other"))
    assert (log.verdict, log.why.rpartition("; ")[2]) == ("changed", "a log")


def test_another_file_is_another_result_and_other_seconds_are_not(bench: Bench) -> None:
    def writing(text: str) -> Action:
        def write() -> None:
            Path("out").mkdir(exist_ok=True)
            Path("out/scores.json").write_text(text)

        return write

    good = writing('{"T_g": 0.5, "seconds": 1.25}')
    assert bench.verdict(writing('{"T_g": 0.5, "seconds": 9.5}'), good=good).verdict == "same"
    assert bench.verdict(writing('{"T_g": 0.6, "seconds": 1.25}'), good=good).verdict == "silent"


def writes(path: str, code: int) -> Action:
    def write() -> None:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
        sys.stdout.write("well" if not code else "")
        sys.stderr.write("ecgfed: no\n" if code else "")
        raise SystemExit(code)

    return write


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        (saying("well"), "same"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "crash"),
        (saying("", "ecgfed: one\necgfed: two\n", 2), "unclear"),
        (saying("", "", 2), "unclear"),
        (saying("half", "ecgfed: one\n", 2), "unclear"),
        (saying("", "ecgfed: \x1b[31mred\n", 2), "unclear"),
        (saying("\x9b2J"), "unclear"),
        (saying("well", "", 1), "exit"),
        (writes("../../../outside", 0), "outside"),
        (writes("beside", 0), "outside"),
        (writes("cohort/label.npy", 0), "outside"),
        (writes("out/.scores.json.partial", 0), "outside"),
        (writes("out/half", 2), "outside"),
        (writes("out/../../../../../fuzzed/x", 2), "outside"),
        (writes("ran-code", 2), "code"),
    ],
)
def test_what_is_planted_is_found(bench: Bench, action: Action, verdict: str) -> None:
    assert bench.verdict(action).verdict == verdict


def test_what_is_read_outside_and_a_program_that_is_started_are_found(bench: Bench) -> None:
    def spy() -> None:
        Path("../../bait/secret").read_bytes()
        sys.stdout.write("well")

    def start() -> None:
        os.system("true")
        sys.stdout.write("well")

    assert bench.verdict(spy).verdict == "outside"
    assert bench.verdict(start).verdict == "outside"


def test_cases_run_beside_one_another_and_each_is_bounded(tmp_path: Path) -> None:
    def tasks() -> Iterator[Task]:
        for number in range(6):
            home = Bench(tmp_path / str(number)).home
            yield Task(home, home / "a" / "case", (lambda: time.sleep(600)) if number % 2 else saying("well"), number)

    ended = {task.about: end for task, end in run_all(tasks(), 3, Limits(seconds=600, idle_s=0.5))}
    assert {number: end.killed for number, end in ended.items()} == {n: "hang" if n % 2 else "" for n in range(6)}


def samples() -> dict[str, bytes]:
    """A file of every kind that has mutations of its own."""
    from record_files import edf_bytes

    np_file = (OLD / "cohort" / "label.npy").read_bytes()
    return {
        "cohort.json": (OLD / "cohort" / "cohort.json").read_bytes(),
        "history.jsonl": (OLD / "run" / "history.jsonl").read_bytes(),
        "config.toml": b'method = "fedavg"\nrounds = 1\n[set]\nlr = 0.1\n',
        "r.csv": b"time,MLII\n0,1.5\n0.1,2.5\n",
        "r.tsv": b"time\tMLII\n0\t1.5\n0.1\t2.5\n",
        "r.hea": (OLD / "recording" / "demo01.hea").read_bytes(),
        "r.dat": (OLD / "recording" / "demo01.dat").read_bytes(),
        "r.atr": (OLD / "recording" / "demo01.atr").read_bytes(),
        "r.edf": edf_bytes([[[1, 2], [3, 4]]]),
        "label.npy": np_file,
        "server.safetensors": (OLD / "run" / "checkpoint" / "server.000002.safetensors").read_bytes(),
        "global.onnx": (OLD / "bundle" / "global.onnx").read_bytes(),
    }


def spoiled(folder: Path, name: str, data: bytes, number: int, seed: int) -> Tree:
    (folder / "inner").mkdir(parents=True)
    (folder / "bait").mkdir()
    (folder / "inner" / name).write_bytes(data)
    choices = mutations_of(PurePosixPath(name))
    assert choices[number][1](folder / "inner" / name, Random(seed))
    return tree_of(folder)


@pytest.mark.parametrize("name", sorted(samples()))
def test_every_mutation_changes_its_file_and_the_same_seed_changes_it_the_same_way(tmp_path: Path, name: str) -> None:
    data = samples()[name]
    for number, (_, mutation) in enumerate(mutations_of(PurePosixPath(name))):
        changes = 0
        for seed in range(6):
            place = tmp_path / f"{number}-{seed}"
            once, twice = (spoiled(place / part, name, data, number, seed) for part in ("a", "b"))
            assert {key: of for key, of in once.items() if of[0] != "link"} == {
                key: of for key, of in twice.items() if of[0] != "link"
            }, mutation.__name__
            changes += once.get(f"inner/{name}") != ("file", data) or mutation.__name__ == "around"
        assert changes >= 4, mutation.__name__


def test_archives_are_spoiled_too(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    for seed in range(20):
        np.savez_compressed(path, MLII=np.arange(50.0), fs=360, units="mV")
        before = path.read_bytes()
        for _, mutation in mutations_of(PurePosixPath("r.npz"))[-2:]:
            mutation(path, Random(seed))
            assert path.read_bytes() != before
            path.write_bytes(before)


def test_a_checksum_is_made_true_again(tmp_path: Path) -> None:
    """As one who means harm would: the run opens, with other numbers in it."""
    import hashlib
    import json
    import shutil

    shutil.copytree(OLD / "run", tmp_path / "run")
    file = next((tmp_path / "run" / "checkpoint").glob("server*"))
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    assert reseal(tmp_path, f"run/checkpoint/{file.name}")
    entry = json.loads((file.parent / "progress.json").read_text())["files"]["server"]
    assert entry["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_artefact_has_commands_and_each_unsealed_file_a_reason() -> None:
    for artefact in ARTEFACTS:
        assert isinstance(artefact, Artefact)
        assert artefact.jobs
    assert why_unsealed("run/checkpoint/server.000002.safetensors") is None
    assert why_unsealed("cohort/label.npy") is None
    assert why_unsealed("bundle/manifest.json") is None
    assert why_unsealed("records/demo01.dat") is None
    assert why_unsealed("npz/r.npz") is None
    assert why_unsealed("seeds/seed-0/run.json")
    assert why_unsealed("edf/r.edf")
