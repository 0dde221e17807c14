"""``executor=``: two workers of dask on loopback write the files of a single process, also where one is killed."""

import os
import pickle
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_record
from refusals import refuses
from support import exported, snapshot
from torch import nn

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.base.executors import in_order
from ecgfed.core.nets.net_source import net_source

distributed = pytest.importorskip("distributed")
#: Recordings of the slow test, over 5,200: dask's scheduler holds 1,000 tasks of each worker and those that are open,
#: which half of them should exceed. Kilobytes of memory that each may take: its entry in the summary.
COUNT, ENTRY_KB = int(os.environ.get("ECGFED_RECORDINGS", "100000")), 1
SUMMARY = "predictions.summary.json"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class Progress(ecgfed.ProgressReporter):
    def __init__(self) -> None:
        self.updates: list[tuple[str, int, int | None]] = []
        self.warnings: list[str] = []

    def update(self, what: str, completed: int, total: int | None, item: str = "", **_: Any) -> None:
        self.updates.append((what, completed, total))

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def copies(records: Path, folder: Path, count: int) -> Path:
    for number in range(count):
        place = folder / f"{number // 1000:03}" / f"{number % 1000:03}"
        place.mkdir(parents=True)
        for end in ("hea", "dat", "atr"):
            os.link(records / f"p1.{end}", place / f"p1.{end}")
    return folder


def same_files(one: Path, two: Path) -> None:
    """Compare two folders; the summary names its own folder."""
    left, right = snapshot(one), snapshot(two)
    for files, folder in ((left, one), (right, two)):
        if SUMMARY in files:
            files[SUMMARY] = files[SUMMARY].replace(str(folder).encode(), b"OUT")
    assert left == right


def test_a_batch_has_the_files_of_a_single_process(client: Any, records: Path, tmp_path: Path) -> None:
    source = copies(records, tmp_path / "in", 6)
    (source / "broken.edf").write_bytes(b"0       ")
    alone, shared = Progress(), Progress()
    ecgfed.predict_batch(source, tmp_path / "alone", progress=alone)
    batch = ecgfed.predict_batch(source, tmp_path / "shared", executor=client.get_executor(), progress=shared)
    assert (len(batch.completed), len(batch.failed)) == (6, 1)
    same_files(tmp_path / "alone", tmp_path / "shared")
    assert shared.warnings == alone.warnings
    assert [update for update in alone.updates if update[0] == "recordings"] == shared.updates


def test_the_recordings_of_a_killed_worker_are_done_again(client: Any, records: Path, tmp_path: Path) -> None:
    source = copies(records, tmp_path / "in", 12)
    ecgfed.predict_batch(source, tmp_path / "alone", progress=Progress())
    pid = next(iter(client.run(os.getpid).values()))

    class Killer(Progress):
        def update(self, what: str, completed: int, total: int | None, item: str = "", **_: Any) -> None:
            super().update(what, completed, total)
            if completed == 1:
                os.kill(pid, signal.SIGKILL)

    ecgfed.predict_batch(source, tmp_path / "shared", executor=client.get_executor(), progress=Killer())
    assert pid not in client.run(os.getpid).values()
    same_files(tmp_path / "alone", tmp_path / "shared")


def test_an_interrupted_batch_goes_on_with_an_executor(client: Any, records: Path, tmp_path: Path) -> None:
    source, out = copies(records, tmp_path / "in", 4), tmp_path / "out"

    class Stop(Progress):
        def update(self, what: str, completed: int, total: int | None, item: str = "", **_: Any) -> None:
            if completed == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ecgfed.predict_batch(source, out, executor=client.get_executor(), progress=Stop())
    before = {file: file.stat().st_mtime_ns for file in out.rglob("000/p1.csv")}
    batch = ecgfed.predict_batch(source, out, executor=client.get_executor(), resume=True, progress=Progress())
    assert len(batch.completed) == 4
    assert {file: file.stat().st_mtime_ns for file in before} == before
    ecgfed.predict_batch(source, tmp_path / "alone", progress=Progress())
    same_files(tmp_path / "alone", out)


def test_a_cohort_and_seeds_have_the_files_of_a_single_process(client: Any, records: Path, tmp_path: Path) -> None:
    executor, short = client.get_executor(), {"method": "fedavg", "rounds": 1, "local_steps": 1, "workers": 1}
    one = ecgfed.prepare_folder(records, tmp_path / "one", workers=1)
    ecgfed.prepare_folder(records, tmp_path / "two", executor=executor)
    same_files(tmp_path / "one", tmp_path / "two")
    progress = Progress()
    ecgfed.train_seeds(one, (0, 1), tmp_path / "alone", progress=Progress(), **short)
    runs = ecgfed.train_seeds(one, (0, 1), tmp_path / "shared", executor=executor, progress=progress, **short)
    assert [run.path.name for run in runs] == ["seed-0", "seed-1"]
    assert progress.updates == [("seeds", 1, 2), ("seeds", 2, 2)]
    for file in tmp_path.rglob("timing.jsonl"):
        file.unlink()
    same_files(tmp_path / "alone", tmp_path / "shared")


def test_results_come_in_order_and_few_tasks_are_open() -> None:
    submitted = 0

    def arguments() -> Iterator[tuple[int]]:
        nonlocal submitted
        for number in range(1000):
            submitted += 1
            yield (number,)

    with ThreadPoolExecutor(3) as pool:
        for number, result in enumerate(in_order(pool, lambda n: n * n, arguments(), at_once=10)):
            assert result == number * number
            assert submitted <= number + 10


def rss_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.slow
def test_memory_does_not_grow_with_100_000_recordings(client: Any, tmp_path: Path) -> None:
    """Hard links to one short recording; the entries of the summary are on the disk."""
    write_record(tmp_path / "one", "p1", "N" * 10)
    source = copies(tmp_path / "one", tmp_path / "in", COUNT)
    used_kb: dict[int, int] = {}

    class Memory(Progress):
        def update(self, what: str, completed: int, total: int | None, item: str = "", **_: Any) -> None:
            used_kb[completed] = rss_kb()

    batch = ecgfed.predict_batch(source, tmp_path / "out", executor=client.get_executor(), progress=Memory())
    assert len(batch.completed) == COUNT
    assert used_kb[COUNT] - used_kb[COUNT // 2] < ENTRY_KB * (COUNT // 2)
    shutil.rmtree(tmp_path / "out")


class Pickling(Executor):
    """Runs tasks at once, as a process would receive them; notes their size."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = pickle.dumps((function, args, kwargs))
        self.sizes.append(len(task))
        future: Future[Any] = Future()
        function, args, kwargs = pickle.loads(task)
        future.set_result(pickle.loads(pickle.dumps(function(*args, **kwargs))))
        return future


def test_a_task_holds_no_manifest(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask's scheduler holds many tasks. The manifest of the model in the package has 45 kB."""
    monkeypatch.chdir(tmp_path)
    executor = Pickling()
    batch = ecgfed.predict_batch(records, "out", executor=executor, progress=Progress())
    assert (len(batch.completed), len(executor.sizes)) == (4, 4)
    assert max(executor.sizes) < 4000


def test_a_bundle_that_changes_during_a_batch_is_refused(fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(exported(fedavg_run), tmp_path / "bundle")

    class Changing(Pickling):
        def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            manifest = bundle / "manifest.json"
            manifest.write_text(manifest.read_text().replace('"rounds": ', '"rounds": 1', 1))
            return super().submit(function, *args, **kwargs)

    batch = ecgfed.predict_batch(records, tmp_path / "out", bundle=bundle, executor=Changing(), progress=Progress())
    assert (len(batch.completed), len(batch.failed)) == (0, 4)


@pytest.fixture
def processes() -> Iterator[ProcessPoolExecutor]:
    """Python's own pool of one process; forked ones would inherit torch's threads."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


def test_a_database_has_the_files_of_a_single_process(processes: ProcessPoolExecutor, tmp_path: Path) -> None:
    for name in ("801", "802", "803", "804"):
        write_record(tmp_path / "svdb", name, "NNNV" * 8, fs_hz=128, leads=("ECG1", "ECG2"), seed=int(name))
    for name, how in {"one": {"workers": 1}, "two": {"executor": processes}}.items():
        with pytest.warns(match="differ from the published database"):
            ecgfed.prepare_database("svdb", tmp_path / "svdb", tmp_path / name, **how)  # type: ignore[arg-type]
    same_files(tmp_path / "one", tmp_path / "two")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x).relu())


def test_what_cannot_be_sent_to_a_process_is_named(processes: ProcessPoolExecutor, tmp_path: Path) -> None:
    y = np.arange(90) % 3
    cohort = ecgfed.cohort_from_arrays(
        np.random.default_rng(0).normal(size=(90, 4)), y, np.arange(90) % 3, out=tmp_path / "cohort"
    )

    class Local(Net):
        """Of a function: no other process can import it."""

    short: dict[str, Any] = {"method": "fedavg", "rounds": 1, "local_steps": 1, "workers": 1}
    for number, (name, value) in enumerate({"net": Local, "lr_schedule": lambda a, b: 1.0}.items()):
        own = {"net": Net, name: value}
        with refuses(OptionError, "invalid-value", name):
            ecgfed.train_seeds(cohort, [0], tmp_path / f"seeds{number}", executor=processes, **own, **short)
        with refuses(OptionError, "invalid-value", name):
            ecgfed.sweep(cohort, {"lr": [0.1]}, tmp_path / f"sweep{number}", executor=processes, **own, **short)
    with refuses(OptionError, "invalid-value", "grid"):
        grid: dict[str, Any] = {"net": [Net, Local]}
        ecgfed.sweep(cohort, grid, tmp_path / "sweep", executor=processes, **short)


def test_a_class_of_the_script_is_the_same_on_a_spawned_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spawned workers call the script ``__mp_main__``; its file may change, so no digest is recorded."""
    sources = []
    for module in ("__main__", "__mp_main__"):
        monkeypatch.setattr(Net, "__module__", module)
        sources.append(net_source(Net))
    assert sources[0] == sources[1]
    assert (sources[0].origin, sources[0].sha256) == ("__main__:Net", "")
