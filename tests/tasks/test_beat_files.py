"""Numbers of a beat's line: rounded all at once, as Python rounds them one by one; what is no number is refused."""

import json

import numpy as np
import pytest

from ecgfed.tasks.beat_files import beats_as_json, beats_as_table, rounded


def test_rounding_is_pythons() -> None:
    rng = np.random.default_rng(0)
    for values in (
        rng.random(50_000),
        rng.random(50_000).astype(np.float32),
        np.arange(50_000) / 360.0,
        np.arange(50_000) / 257.0,
        (rng.integers(0, 20_000, 20_000) + 0.5) / 1e4,  # middles between two decimals, as far as a double is one
        np.arange(20_000) / 2e4,
        rng.random(1000) * 1e7,
        np.empty(0),
    ):
        assert rounded(values) == [round(value, 4) for value in values.astype(np.float64).tolist()]


def test_what_is_no_number_is_refused() -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"{wrong} is not finite"):
            b"".join(beats_as_json({}, [{"sample": [1, 2], "time_s": [0.5, wrong]}]))


@pytest.mark.parametrize("beats", [0, 1, 30])
def test_files_of_beats_are_what_json_and_csv_write_at_once(beats: int) -> None:
    columns = {
        "sample": list(range(beats)),
        "time_s": [round(at / 7, 4) for at in range(beats)],
        "class": ['=1+1"é%s'] * beats,
    }
    blocks = [{name: values[at : at + 7] for name, values in columns.items()} for at in range(0, beats, 7)]
    about = {"record": "x", "patient": None, "classes": ["N", "V"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    wanted = json.dumps({**about, "beats": rows}, indent=1, ensure_ascii=False) + "\n"
    assert b"".join(beats_as_json(about, blocks)).decode() == wanted
    lines = b"".join(beats_as_table(blocks)).decode().splitlines()
    assert lines == (["sample,time_s,class"] if beats else []) + [
        f'{row["sample"]},{row["time_s"]},"\'=1+1""é%s"' for row in rows
    ]
