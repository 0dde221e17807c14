"""Bounded work and memory of the C sources: no heap, no recursion, stack and work of the longest call."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from mcu_sources import CORTEX_M4, HERE, MONITOR, SOURCES, STRICT, build, lines_of, tool
from numpy.typing import NDArray
from test_c_stream import a_minute

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
#: Functions that are called through pointers, by the function that calls them; the firmware's own are leaves.
POINTERS = {
    "report": ("on_peak",),
    "ecgfed_qrs_r_peak": ("extremum",),
    "notify": ("firmware_on_announced",),
    "predict": ("on_beat",),
    "infer": ("firmware_inference",),
    "ecgfed_push_uv": ("on_sample",),
    "judge": ("on_quality",),
    "on_beat": ("firmware_on_beat",),
    "release": ("firmware_on_watched",),
}
#: Most beats of one call: a second holds 8 that are 0.14 s apart, and one may wait from before; the end of a stretch
#: decides on five seconds at once, and completes the last beat.
PUSH_BEATS, FINISH_BEATS = 9, 5 * 8 + 2


@pytest.fixture(scope="module")
def call_graph(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[str]], dict[str, int]]:
    """Return who calls whom, and the bytes of stack of each function, as GCC says for a Cortex-M4."""
    folder = tmp_path_factory.mktemp("calls")
    calls: dict[str, set[str]] = {}
    stack: dict[str, int] = {}
    for name in (*SOURCES, *MONITOR):
        command = [tool("arm-none-eabi-gcc"), *STRICT, *CORTEX_M4, "-fno-inline", "-fcallgraph-info=su"]
        subprocess.run([*command, "-c", "-o", folder / f"{name}.o", sources / name], check=True, cwd=folder)
        text = (folder / f"{name}.ci").read_text("utf-8")
        for title, label in re.findall(r'node: \{ title: "([^"]+)" label: "([^"]*)"', text):
            if used := re.search(r"(\d+) bytes \((\w+)\)", label):
                assert used[2] == "static", label
                stack[title.rpartition(":")[2]] = int(used[1])
        for source, target in re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            calls.setdefault(source.rpartition(":")[2], set()).add(target.rpartition(":")[2])
    return calls, stack


def test_no_function_calls_itself(call_graph: tuple[dict[str, set[str]], dict[str, int]]) -> None:
    calls, _ = call_graph
    indirect = {name for name, targets in calls.items() if "__indirect_call" in targets}
    assert indirect == set(POINTERS)
    deepest = _deepest(*call_graph)
    assert {"ecgfed_push", "ecgfed_finish", "ecgfed_rate_push"} <= set(deepest)
    assert max(deepest.values()) < 2048


def _deepest(calls: dict[str, set[str]], stack: dict[str, int]) -> dict[str, int]:
    """Return the most bytes of stack from each function down; raises AssertionError where one calls itself."""
    found: dict[str, int] = {}

    def from_here(name: str, above: tuple[str, ...]) -> int:
        assert name not in above, f"{' -> '.join((*above, name))}"
        if name not in found:
            targets = (calls.get(name, set()) - {"__indirect_call"}) | set(POINTERS.get(name, ()))
            below = max((from_here(target, (*above, name)) for target in targets), default=0)
            found[name] = stack.get(name, 0) + below
        return found[name]

    for name in stack:
        from_here(name, ())
    return found


def hard_signals() -> dict[str, NDArray[np.float64]]:
    """Signals with as many waves as a detector can be given."""
    random = np.random.default_rng(1)
    time_s = np.arange(60 * 360) / 360
    trains = {f"{rate} a second": np.exp(-0.5 * (((time_s * rate) % 1 - 0.5) / rate / 0.01) ** 2) for rate in (5, 7, 9)}
    fast, _ = synthetic_signal("NV" * 150, seed=2, rr_s=0.2)
    steps = np.where(random.random(len(time_s)) < 0.02, 900.0, 0.0)
    return {**trains, "beats": a_minute(), "fast": fast, "noise": random.standard_normal(len(time_s)), "steps": steps}


@pytest.fixture(scope="module")
def work(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("work") / "work"
    return build(sources, out, "gcc", "-O1", "-fsanitize-coverage=trace-pc", main=HERE / "work_main.c")


def test_the_longest_call_is_bounded(work: Path) -> None:
    """Work is counted in basic blocks. It does not grow with a recording's length, nor with what is recorded."""
    usual = _most(work, a_minute())
    for name, signal_mv in hard_signals().items():
        found = _most(work, signal_mv)
        assert found["push"][1] <= PUSH_BEATS, name
        assert found["finish"][1] <= FINISH_BEATS, name
        assert found["push"][0] <= PUSH_BEATS * usual["push"][0], name
        longer = _most(work, np.tile(signal_mv, 5))
        assert longer["push"][1] <= PUSH_BEATS, name
        assert longer["push"][0] <= PUSH_BEATS * usual["push"][0], name


def test_the_call_that_ends_a_stretch_is_bounded(work: Path) -> None:
    for name, signal_mv in hard_signals().items():
        cut = np.concatenate([signal_mv[:7777], np.full(30, np.nan), signal_mv[:7777]])
        assert _most(work, cut)["push"][1] <= FINISH_BEATS, name


def _most(work: Path, signal_mv: NDArray[np.float64]) -> dict[str, tuple[int, int]]:
    """Return basic blocks and beats of the longest push, and of the end."""
    return {name: (int(blocks), int(beats)) for name, blocks, beats in lines_of(work, signal_mv)}
