"""What a file states, and all that it leaves open, at once."""

from pathlib import Path

import numpy as np
import pytest

from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.domain.record.checks import NotStatedError
from ecgfed.domain.record.file_summary import file_summary
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import ReadOptions

N = 500
STEPS = np.round(512 + 100 * np.sin(np.arange(N) / 7)).astype(int)


def board(folder: Path, times: list[str], name: str = "millis", lead: str = "ecg") -> Path:
    """Write a table as a hobby board does: a clock and the steps of its converter."""
    path = folder / "board.csv"
    rows = [f"{at},{value}" for at, value in zip(times, STEPS, strict=True)]
    path.write_text("\n".join([f"{name},{lead}", *rows] if name else rows) + "\n")
    return path


def how_of_array() -> ReadOptions:
    return ReadOptions(250, "200(512)/mV", ("II",))


def missing(problem: RecordError) -> list[str | None]:
    return [one.parameter for one in getattr(problem, "missing", ())]


def test_all_that_a_table_leaves_open_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("ecg,resp\n" + "".join(f"{value},1\n" for value in STEPS))
    facts = file_summary(path)
    assert [problem.parameter for problem in facts.missing] == ["fs_hz", "units"]
    assert (facts.leads, facts.columns, facts.fs_hz, facts.recording) == (("ecg",), ("ecg", "resp"), None, None)
    with pytest.raises(NotStatedError) as caught:
        read_recording(path)
    assert (caught.value.code, missing(caught.value)) == ("not-stated", ["fs_hz", "units"])
    assert "fs_hz" in str(caught.value)
    assert "units" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_stated_at_all(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{value},{value}\n" for value in STEPS))
    assert [problem.parameter for problem in file_summary(path).missing] == ["columns", "fs_hz", "units"]
    how = ReadOptions(fs_hz=250, units="200(512)/mV", columns=("II", ""))
    facts = file_summary(path, how=how)
    assert facts.missing == ()
    assert facts.recording is not None
    np.testing.assert_allclose(facts.recording.signal_mv, (STEPS - 512) / 200)
    np.save(tmp_path / "a.npy", STEPS)
    assert [problem.parameter for problem in file_summary(tmp_path / "a.npy").missing] == ["columns", "fs_hz", "units"]


@pytest.mark.parametrize("name", ["millis", "time", "timestamp", "t_ms", "Zeit", "uptime", "time (ms)"])
def test_a_clock_in_milliseconds_gives_the_rate_and_is_no_lead(tmp_path: Path, name: str) -> None:
    """With the jitter of a board that is late by a millisecond now and then."""
    late = np.random.default_rng(0).integers(0, 2, N)
    path = board(tmp_path, [str(7000 + 4 * i + extra) for i, extra in enumerate(late.tolist())], name)
    facts = file_summary(path)
    assert facts.fs_hz == 250
    assert facts.leads == ("ecg",)
    assert [problem.parameter for problem in facts.missing] == ["units"]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("millis", 4),
        ("milliseconds", 4),
        ("msec", 4),
        ("ms", 4),
        ("micros", 4000),
        ("Microseconds", 4000),
        ("us", 4000),
    ],
)
@pytest.mark.parametrize("rows", [5, 500])
def test_a_clock_named_by_its_unit_is_no_lead_in_a_short_table_either(
    tmp_path: Path, name: str, step: int, rows: int
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{name},ecg\n" + "".join(f"{i * step},{i % 3}\n" for i in range(rows)))
    facts = file_summary(path, how=ReadOptions(units="mV"))
    assert (facts.leads, facts.fs_hz, facts.missing) == (("ecg",), 250, ())


def test_a_clock_without_a_header(tmp_path: Path) -> None:
    facts = file_summary(board(tmp_path, [str(4 * i) for i in range(N)], ""))
    assert (facts.fs_hz, facts.leads) == (250, ("column 2",))
    assert [problem.parameter for problem in facts.missing] == ["columns", "units"]


@pytest.mark.parametrize("name", ["timestamp", "row", "no"])
def test_numbers_that_may_count_samples_are_no_clock_and_no_lead(tmp_path: Path, name: str) -> None:
    path = board(tmp_path, [str(i) for i in range(N)], name)
    facts = file_summary(path)
    assert (facts.fs_hz, facts.leads) == (None, ("ecg",))
    assert read_recording(path, how=ReadOptions(125, "200/mV")).fs_hz == 125


def test_the_rate_that_is_stated_stands_for_that_of_an_uneven_clock(tmp_path: Path) -> None:
    path = board(tmp_path, [str(4 * i + 300 * (i > 250)) for i in range(N)])
    with pytest.raises(EcgfedError):
        read_recording(path, how=ReadOptions(units="200/mV"))
    assert read_recording(path, how=ReadOptions(125, "200/mV")).fs_hz == 125


def test_a_lead_that_rises_is_still_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("MLII,V1\n" + "".join(f"{i / 1000},{i / 1000}\n" for i in range(N)))
    assert read_recording(path, how=ReadOptions(250, "mV"), every_lead=True).leads == ("MLII", "V1")


def test_a_header_states_the_start(tmp_path: Path) -> None:
    (tmp_path / "r.hea").write_text("r 1 250 500 10:20:30 05/11/2021\nr.dat 16 200/mV 16 0 0 0 0 II\n")
    np.zeros(500, "<i2").tofile(tmp_path / "r.dat")
    assert file_summary(tmp_path / "r.hea").start == "2021-11-05T10:20:30"
    assert file_summary(tmp_path / "r").leads == ("II",)
