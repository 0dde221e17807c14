"""Standard streams that a shell closed, and a machine without memory: no traceback, and the right exit code."""

import errno
import subprocess
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from support import ECGFED, Command, assert_refused

from ecgfed.base.errors import RunError
from ecgfed.base.safe_io import read_bounded


def in_a_shell(line: str) -> tuple[int, str]:
    """Run a line of sh in which ECGFED is the installed command; its exit code, and what it left on stderr."""
    done = subprocess.run(["sh", "-c", line], env={"ECGFED": ECGFED}, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    assert in_a_shell(f'"$ECGFED" --version {closed}') == (0, "")
    code, said = in_a_shell(f'"$ECGFED" nosuch {closed}')
    assert code == 2
    assert "Traceback" not in said


def test_what_is_printed_to_a_closed_stream_lies_in_no_file(tmp_path: Path) -> None:
    """The next file that is opened would have its number."""
    out = tmp_path / "records"
    code, said = in_a_shell(f'"$ECGFED" prepare demo --out {tmp_path}/c --records {out} --patients 2 --minutes 1 >&-')
    assert (code, "Traceback" in said) == (0, False), said
    assert not any(b"Wrote" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("pipe", ["| true", "2>&1 | true"])
def test_a_reader_that_went_away_is_no_traceback(pipe: str) -> None:
    assert in_a_shell(f'(sleep 1; "$ECGFED" --help) {pipe}') == (0, "")
    _, said = in_a_shell(f'(sleep 1; "$ECGFED" nosuch) {pipe}')
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8.00 GiB for an array"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("can't start new thread"),
    ],
)
def test_too_little_memory_is_one_line(ecgfed: Command, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*given: object, **more: object) -> None:
        raise error

    monkeypatch.setattr("ecgfed.core.runs.summary.find_runs", fails)
    assert_refused(ecgfed("runs", "list", "."), "not enough memory", "ulimit -v", type(error).__name__)


def test_a_worker_that_was_killed_is_one_line(ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object, **more: object) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    monkeypatch.setattr("ecgfed.core.runs.summary.find_runs", fails)
    assert_refused(ecgfed("runs", "list", "."), "a worker process was ended")


def test_our_own_mistakes_stay_tracebacks(ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object, **more: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("ecgfed.core.runs.summary.find_runs", fails)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        ecgfed("runs", "list", ".")


def test_a_bound_is_no_buffer(tmp_path: Path) -> None:
    """A run's history may have 2 GiB; reading one of a few bytes asks for a few bytes."""
    (tmp_path / "small").write_bytes(b"few")
    assert read_bounded(tmp_path / "small", 1 << 60, RunError) == b"few"
