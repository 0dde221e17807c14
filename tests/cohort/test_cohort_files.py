"""The cohort on disk: what was written comes back, and a damaged one is one line that names the file."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from ecgfed.base.errors import CohortError
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.summary import summarise
from ecgfed.domain.cohort.writer import CohortWriter

#: The contract's arrays: name, type, what one beat takes.
CONTRACT = {
    "beats": ("float32", (1, 256)),
    "rr": ("float32", (4,)),
    "label": ("int16", ()),
    "client": ("int32", ()),
    "record": ("int32", ()),
    "sample": ("int64", ()),
    "split": ("uint8", ()),
    "flags": ("uint8", ()),
}


def rows(beats: int, client: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "beats": rng.normal(size=(beats, 1, 256)).astype(np.float32),
        "rr": rng.random((beats, 4)).astype(np.float32),
        "label": rng.integers(0, 3, beats).astype(np.int16),
        "client": np.full(beats, client, np.int32),
        "record": np.full(beats, client, np.int32),
        "sample": np.sort(rng.integers(0, 10**6, beats)),
        "split": rng.integers(0, 3, beats).astype(np.uint8),
        "flags": rng.integers(0, 4, beats).astype(np.uint8),
    }


META: dict[str, Any] = {
    "kind": "test",
    "clients": [
        {"id": "a", "patient": "A", "records": ["a"], "holdout": False},
        {"id": "b", "patient": "B", "records": ["b"], "holdout": True},
    ],
    "label_map": BUILT_IN["aami5"].as_json(),
}


def write(folder: Path) -> list[dict[str, np.ndarray]]:
    folder.mkdir()
    blocks = [rows(5, 0, 1), rows(3, 1, 2)]
    with CohortWriter(folder) as writer:
        for block in blocks:
            writer.append(**block)
        writer.finish(META)
    return blocks


def fails(folder: Path) -> tuple[str, str | None]:
    with pytest.raises(CohortError) as caught:
        open_cohort(folder)
    return caught.value.code, caught.value.parameter


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    blocks = write(tmp_path / "c")
    cohort = open_cohort(tmp_path / "c")
    for name, (dtype, tail) in CONTRACT.items():
        whole = np.concatenate([block[name] for block in blocks])
        found = getattr(cohort, name)
        np.testing.assert_array_equal(found, whole)
        np.testing.assert_array_equal(np.load(tmp_path / "c" / f"{name}.npy", allow_pickle=False), whole)
        assert found.dtype == np.dtype(dtype)
        assert found.shape == (8, *tail)
    assert {path.name for path in (tmp_path / "c").iterdir()} == {f"{name}.npy" for name in CONTRACT} | {"cohort.json"}
    assert isinstance(cohort.beats, np.memmap)
    assert cohort.classes == ("N", "S", "V", "F", "Q")
    assert [(c.index, c.id, c.patient, c.holdout) for c in cohort.clients] == [
        (0, "a", "A", False),
        (1, "b", "B", True),
    ]


def test_the_fingerprint_is_the_hash_of_the_arrays_hashes(tmp_path: Path) -> None:
    write(tmp_path / "c")
    cohort = open_cohort(tmp_path / "c")
    hashes = {name: hashlib.sha256(getattr(cohort, name).tobytes()).hexdigest() for name in CONTRACT}
    assert cohort.meta["sha256"] == hashes
    assert cohort.fingerprint == hashlib.sha256("".join(hashes[name] for name in sorted(hashes)).encode()).hexdigest()


def test_rows_and_pools_leave_out_who_is_held_out(tmp_path: Path) -> None:
    blocks = write(tmp_path / "c")
    cohort = open_cohort(tmp_path / "c")
    assert [client.id for client in cohort.federation] == ["a"]
    for part in range(3):
        mine = np.flatnonzero(blocks[0]["split"] == part)
        theirs = 5 + np.flatnonzero(blocks[1]["split"] == part)
        assert cohort.rows(cohort.clients[0], part).tolist() == mine.tolist()
        assert cohort.rows(cohort.clients[1], part).tolist() == theirs.tolist()
        assert cohort.pool(part).tolist() == mine.tolist()
        expected = [int((blocks[0]["label"][mine] == cls).sum()) for cls in range(5)]
        assert cohort.class_counts(cohort.clients[0], part).tolist() == expected


def test_a_client_by_its_id(tmp_path: Path) -> None:
    write(tmp_path / "c")
    cohort = open_cohort(tmp_path / "c")
    assert cohort.client_by_id("b").index == 1
    with refuses(CohortError, "unknown-patient"):
        cohort.client_by_id("z")


def test_the_summary_by_hand(tmp_path: Path) -> None:
    """Client a: N N N V with one N in the test. Client b: one S in train. Two cells without a test beat."""
    folder = tmp_path / "c"
    folder.mkdir()
    a, b = rows(4, 0, 1), rows(1, 1, 2)
    a |= {"label": np.array([0, 0, 0, 2]), "split": np.array([0, 1, 2, 0]), "flags": np.array([1, 0, 2, 3])}
    b |= {"label": np.array([1]), "split": np.array([0]), "flags": np.array([0])}
    with CohortWriter(folder) as writer:
        writer.append(**a)
        writer.append(**b)
        writer.finish(META)
    assert summarise(open_cohort(folder)) == {
        "clients": 2,
        "beats": 5,
        "classes": {"N": 3, "S": 1, "V": 1, "F": 0, "Q": 0},
        "splits": {"train": 3, "valid": 1, "test": 1},
        "classes_per_client": 1.5,
        "cells": 3,
        "cells_without_test": [["a", "V"], ["b", "S"]],
        "cells_without_train": [],
        "one_class": ["b"],
        "no_test": ["b"],
        "holdout": ["b"],
        "padded": 2,
        "poor_quality": 2,
        "unlabelled": 0,
        "record_labels": {},
        "leads": {},
        "other_leads": {"examples": 0, "leads": {}},
        "sites": {},
    }


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_schema_version_is_refused(tmp_path: Path, version: object) -> None:
    write(tmp_path / "c")
    meta = json.loads((tmp_path / "c" / "cohort.json").read_text())
    (tmp_path / "c" / "cohort.json").write_text(json.dumps({**meta, "schema_version": version}))
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "\x00"])
def test_a_cohort_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "c")
    (tmp_path / "c" / "cohort.json").write_text(text)
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


@pytest.mark.parametrize("key", ["beats", "clients", "label_map", "fingerprint"])
def test_a_cohort_file_that_lacks_something_says_what(tmp_path: Path, key: str) -> None:
    write(tmp_path / "c")
    meta = json.loads((tmp_path / "c" / "cohort.json").read_text())
    del meta[key]
    (tmp_path / "c" / "cohort.json").write_text(json.dumps(meta))
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_a_missing_array_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / "c")
    (tmp_path / "c" / f"{name}.npy").unlink()
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


@pytest.mark.parametrize("kept", [0, 5, 40, 127, 128, 200])
def test_a_truncated_array_is_named(tmp_path: Path, kept: int) -> None:
    write(tmp_path / "c")
    whole = (tmp_path / "c" / "beats.npy").read_bytes()
    (tmp_path / "c" / "beats.npy").write_bytes(whole[:kept])
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


def test_a_damaged_header_of_any_kind_is_named(tmp_path: Path) -> None:
    """Random bytes in the 128 of the header: what still opens must still be what was written."""
    write(tmp_path / "c")
    path = tmp_path / "c" / "label.npy"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused: list[str] = []
    for _ in range(300):
        damaged = bytearray(whole)
        for at in rng.integers(0, 128, 2):
            damaged[at] = int(rng.integers(0, 256))
        path.write_bytes(damaged)
        try:
            assert len(open_cohort(tmp_path / "c").label) == 8
        except CohortError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all("label.npy" in line for line in refused)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("beats", np.zeros((8, 256), np.float32)),
        ("rr", np.zeros((8, 4))),
        ("label", np.zeros(7, np.int16)),
        ("client", np.array([0, 0, 1, 0, 0, 0, 0, 0], np.int32)),
        ("client", np.full(8, 2, np.int32)),
        ("label", np.full(8, 5, np.int16)),
        ("label", np.full(8, -1, np.int16)),
    ],
)
def test_an_array_that_does_not_fit_is_named(tmp_path: Path, name: str, array: np.ndarray) -> None:
    write(tmp_path / "c")
    np.save(tmp_path / "c" / f"{name}.npy", array)
    assert fails(tmp_path / "c") == ("invalid-cohort", None)


def test_an_empty_cohort_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    with CohortWriter(folder) as writer:
        writer.finish({**META, "clients": []})
    assert fails(folder) == ("invalid-cohort", None)


@pytest.mark.parametrize("kind", ["missing", "file", "empty folder"])
def test_what_is_no_cohort_says_how_to_make_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c"
    if kind == "file":
        path.write_text("x")
    elif kind == "empty folder":
        path.mkdir()
    assert fails(path) == ("invalid-cohort", None)


def test_the_writer_refuses_rows_that_do_not_fit(tmp_path: Path) -> None:
    tmp_path.joinpath("c").mkdir()
    with CohortWriter(tmp_path / "c") as writer:
        with pytest.raises(ValueError, match="one length"):
            writer.append(**{**rows(3, 0, 0), "label": np.zeros(2)})
        with pytest.raises(ValueError, match="one length"):
            writer.append(label=np.zeros(2))
        with pytest.raises(ValueError, match=r"rows of shape \(2, 256\)"):
            writer.append(**{**rows(3, 0, 0), "beats": np.zeros((3, 2, 256))})
