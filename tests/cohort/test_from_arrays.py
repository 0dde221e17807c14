"""Cohorts of your own arrays: every example once, with its own label, whatever the container; in memory or not."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses
from scipy.sparse import csr_matrix
from support import change_json, resealed
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import ecgfed
from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.domain.cohort.cohort import NOBODY, Cohort, held_in_memory
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.summary import summarise


class Pairs(IterableDataset[Any]):
    """Pairs one by one, without a length."""

    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


class Items(Dataset[Any]):
    """The same item 90 times."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def __len__(self) -> int:
        return 90

    def __getitem__(self, place: int) -> Any:
        return self.item


RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2, 3))
Y = np.arange(90) % 3
CLIENT = np.repeat([7, 3, 11], 30)


def same_rows(cohort: Cohort, examples: np.ndarray, label: np.ndarray, ids: np.ndarray) -> None:
    """Each row is the example that ``sample`` names, with its label and client."""
    rows = cohort.sample
    np.testing.assert_array_equal(cohort.examples, examples[rows])
    np.testing.assert_array_equal(cohort.label, label[rows])
    owned = cohort.client != NOBODY
    names = np.array([client.id for client in cohort.clients])
    np.testing.assert_array_equal(names[cohort.client[owned]], ids[rows][owned].astype(str))


@pytest.mark.parametrize(
    ("examples", "dtype"),
    [
        (X, "float32"),
        (X.astype(np.float16), "float32"),
        ((X > 0), "float32"),
        (RNG.integers(0, 256, (90, 1, 4, 4)).astype(np.uint8), "uint8"),
        (RNG.integers(-5, 5, (90, 6)).astype(np.int32), "int64"),
    ],
)
def test_every_example_is_there_once_in_memory_and_in_a_folder(
    tmp_path: Path, examples: np.ndarray, dtype: str
) -> None:
    memory = ecgfed.cohort_from_arrays(examples, Y, CLIENT)
    folder = ecgfed.cohort_from_arrays(examples, Y, CLIENT, out=tmp_path / "c")
    assert memory.fingerprint == folder.fingerprint == ecgfed.open_cohort(tmp_path / "c").fingerprint
    assert memory.in_memory
    assert not folder.in_memory
    assert memory.modality == "array"
    for cohort in (memory, folder):
        assert cohort.examples.dtype == dtype
        assert sorted(cohort.sample.tolist()) == list(range(90))
        same_rows(cohort, examples.astype(dtype), Y, CLIENT)
        assert [client.id for client in cohort.clients] == ["3", "7", "11"]  # in order of their numbers
        # each client has ten of each class: 2 to test, a tenth of the other 8 for validation
        for client in cohort.clients:
            for split, count in ((TEST, 2), (VALID, 1), (TRAIN, 7)):
                assert cohort.class_counts(client, split).tolist() == [count] * 3
    assert summarise(folder)["splits"] == {"train": 63, "valid": 9, "test": 18}


def test_containers_hold_the_same() -> None:
    class Pairs(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
        def __len__(self) -> int:
            return 90

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return torch.tensor(X[index]), int(Y[index])

    class Table:
        """What Hugging Face's ``datasets.Dataset`` offers: names of columns, and columns by name."""

        column_names = ("pixels", "digit", "writer")
        columns = {"pixels": X.tolist(), "digit": [f"c{y}" for y in Y], "writer": CLIENT.tolist()}  # noqa: RUF012

        def __getitem__(self, name: str) -> list[Any]:
            return self.columns[name]

    Table.column_names = list(Table.column_names)  # type: ignore[assignment]
    expected = ecgfed.cohort_from_arrays(X, Y, CLIENT).fingerprint
    assert ecgfed.cohort_from_arrays(torch.tensor(X), torch.tensor(Y), CLIENT.tolist()).fingerprint == expected
    assert ecgfed.cohort_from_arrays([*X], Y.tolist(), CLIENT).fingerprint == expected
    assert ecgfed.cohort_from_arrays(Pairs(), None, CLIENT).fingerprint == expected
    named = ecgfed.cohort_from_arrays(Table(), "digit", "writer")
    assert (named.fingerprint, named.classes) == (expected, ("c0", "c1", "c2"))
    mapping = {"x": X, "y": Y, "who": CLIENT, "part": ["train"] * 90}
    table = ecgfed.cohort_from_arrays(mapping, "y", "who", split="part")
    assert (table.split != TEST).all()


def test_names_of_classes_and_clients() -> None:
    text = np.array(["no", "yes", "maybe"])[Y]
    assert ecgfed.cohort_from_arrays(X, text, CLIENT).classes == ("maybe", "no", "yes")
    ordered = ecgfed.cohort_from_arrays(X, text, CLIENT.astype(str), classes=["no", "yes", "maybe", "never"])
    assert ordered.classes == ("no", "yes", "maybe", "never")
    same_rows(ordered, X.astype(np.float32), Y, CLIENT)
    assert [client.id for client in ordered.clients] == ["11", "3", "7"]
    assert ecgfed.cohort_from_arrays(X, Y + 5, CLIENT).classes == ("5", "6", "7")


def test_a_chronological_split_and_a_given_one() -> None:
    cohort = ecgfed.cohort_from_arrays(X, Y, CLIENT, split="chronological")
    for client in cohort.clients:
        first, last = (cohort.sample[cohort.rows(client, split)] for split in (TRAIN, TEST))
        assert first.max() < last.min()
    parts = np.array(["train", "valid", "test"])[RNG.integers(0, 3, 90)]
    given = ecgfed.cohort_from_arrays(X, Y, CLIENT, split=parts)
    np.testing.assert_array_equal(np.array(["train", "valid", "test"])[given.split], parts[given.sample])
    # without any valid, a tenth of the training examples of each client and class is drawn
    drawn = ecgfed.cohort_from_arrays(X, Y, CLIENT, split=np.zeros(90, int))
    assert [int((drawn.split == VALID)[drawn.client == i].sum()) for i in range(3)] == [3, 3, 3]
    assert not (ecgfed.cohort_from_arrays(X, Y, CLIENT, split=[0] * 90, valid_share=0).split == VALID).any()


def test_times_order_a_chronological_split_and_leave_a_gap() -> None:
    """At 0, 1, ..., 19 in any order: 0 to 11 train, 12 in a gap, 13 and 14 valid, 15 in a gap, 16 to 19 test."""
    time = np.random.default_rng(1).permutation(20)
    table = {"x": np.arange(40.0)[:, None], "at": np.tile(time, 2), "who": np.repeat([0, 1], 20)}
    cohort = ecgfed.cohort_from_arrays(table, np.arange(40) % 2, "who", "chronological", time="at", gap=2.0)
    at = table["at"][cohort.sample]
    for client in cohort.clients:
        of = [sorted(at[cohort.rows(client, part)].tolist()) for part in (TRAIN, VALID, TEST)]
        assert of == [list(range(12)), [13, 14], [16, 17, 18, 19]]
    assert (cohort.meta["left_over"], cohort.meta["in_gap"], cohort.meta["split_gap"]) == (4, 4, 2.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("time", {"time": np.arange(90.0)}),
        ("time", {"split": "chronological", "time": np.arange(89.0)}),
        ("time", {"split": "chronological", "time": np.full(90, np.nan)}),
        ("gap", {"split": "chronological", "gap": 1.0}),
        ("gap", {"split": "chronological", "time": np.arange(90.0), "gap": -1.0}),
    ],
)
def test_times_that_cannot_be_used_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=name):
        ecgfed.cohort_from_arrays(X, Y, CLIENT, **options)


def test_a_common_test_set_is_drawn_to_each_clients_mix() -> None:
    label = np.concatenate([np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [5, 15]), np.tile([0, 1], 40), [0, 1]])
    client = np.concatenate([np.full(40, 0), np.full(20, 1), np.full(80, -1), [-1, -1]])
    split = np.array(["train"] * 60 + ["test"] * 80 + ["train"] * 2)
    cohort = ecgfed.cohort_from_arrays(np.arange(142.0)[:, None], label, client, split=split)
    assert cohort.has_common_pool
    assert cohort.meta["left_over"] == 2
    assert len(cohort.pool(TEST)) == 80
    # 40 test examples of each class; the mixes are 3:1 and 1:3, so all of the larger class and a third of the other
    assert cohort.class_counts(cohort.clients[0], TEST).tolist() == [40, 13]
    assert cohort.class_counts(cohort.clients[1], TEST).tolist() == [13, 40]
    assert not set(cohort.sample[cohort.pool(TEST)]) & set(range(60))


def test_a_class_without_test_examples_takes_no_test_examples_of_others_away() -> None:
    """Client 0 has classes 0, 1 and 2 in shares of 3 to 1 to 1; the common test set has 30 of class 0 and 30 of 1."""
    label = np.concatenate([np.repeat([0, 1, 2], [30, 10, 10]), np.tile([0, 1], 30)])
    client, split = np.repeat([0, -1], [50, 60]), np.repeat(["train", "test"], [50, 60])
    cohort = ecgfed.cohort_from_arrays(np.arange(110.0)[:, None], label, client, split=split)
    assert cohort.class_counts(cohort.clients[0], TEST).tolist() == [30, 10, 0]


def test_a_cohort_in_memory_lives_as_long_as_somebody_holds_it() -> None:
    cohort = ecgfed.cohort_from_arrays(X + 1, Y, CLIENT)
    fingerprint = cohort.fingerprint
    assert held_in_memory(fingerprint) is cohort
    with pytest.raises(ValueError, match="read-only"):
        cohort.examples[0] = 0
    del cohort
    gc.collect()
    assert held_in_memory(fingerprint) is None


@pytest.mark.parametrize(
    ("changed", "code", "parameter"),
    [
        ({"X": X[:, 0, 0]}, "invalid-value", "X"),
        ({"X": [[1.0], [2.0, 3.0]]}, "invalid-value", "X"),
        ({"X": np.where(X[4, 1, 1] == X, np.nan, X)}, "invalid-value", "X"),
        ({"X": X.astype(str)}, "invalid-value", "X"),
        ({"X": X * 1e300}, "invalid-value", "X"),
        ({"y": None}, "missing", "y"),
        ({"y": Y[:-1]}, "invalid-value", "y"),
        ({"y": Y + 0.5}, "invalid-value", "y"),
        ({"y": Y, "classes": ["a", "b"]}, "invalid-value", "y"),
        ({"y": Y * 0}, "invalid-value", "y"),
        ({"y": np.where(Y == 1, np.nan, Y)}, "invalid-value", "y"),
        ({"y": pd.Series(["a", None, "b"] * 30)}, "invalid-value", "y"),
        ({"y": np.eye(3)[Y]}, "invalid-value", "y"),
        ({"X": (example for example in X)}, "invalid-value", "X"),
        ({"X": Pairs(), "y": None}, "invalid-value", "X"),
        ({"X": DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y))), "y": None}, "invalid-value", "X"),
        ({"X": Items({"signal": X[0], "label": 0}), "y": None}, "invalid-value", "X"),
        ({"X": Items({"signal": X[0], "label": 0})}, "invalid-value", "X"),
        ({"X": Items((X[0], 0, 1)), "y": None}, "invalid-value", "X"),
        ({"X": Items((X[0], X[0], 1))}, "invalid-value", "X"),  # a net of two inputs would lose one
        ({"X": Items(X[0]), "y": None}, "invalid-value", "X"),
        ({"X": torch.tensor(X).to_sparse()}, "invalid-value", "X"),
        ({"X": csr_matrix(X[:, 0])}, "invalid-value", "X"),
        ({"X": np.ma.masked_greater(X, 1)}, "invalid-value", "X"),
        ({"X": X.astype(complex)}, "invalid-value", "X"),
        ({"X": None}, "invalid-value", "X"),
        ({"X": "examples.npy"}, "invalid-value", "X"),
        ({"classes": ["a", "b", "a"]}, "invalid-value", "classes"),
        ({"client": np.full(90, -1)}, "invalid-value", "client"),
        ({"client": np.where(CLIENT == 3, -2, CLIENT)}, "invalid-value", "client"),
        ({"client": np.where(CLIENT == 3, "../x", "a")}, "invalid-value", "client"),
        ({"client": np.array(["a", "A", "b"])[Y]}, "invalid-value", "client"),
        ({"split": "later"}, "unknown-choice", "split"),
        ({"split": [3] * 90}, "invalid-value", "split"),
        ({"split": ["test"] * 90}, "invalid-value", "split"),
        ({"split": [2, *[0] * 88, 2], "client": [-1, *CLIENT[1:]]}, "invalid-value", "split"),
        ({"X": {"a": X, "b": X}}, "invalid-value", "X"),
        ({"X": {"a": X}, "y": "label"}, "unknown-choice", "y"),
        ({"valid_share": 1.5}, "invalid-value", "valid_share"),
        ({"test_share": "0.2"}, "invalid-value", "test_share"),
        ({"seed": -1}, "invalid-value", "seed"),
        ({"seed": 1.5}, "invalid-value", "seed"),
        ({"split": "chronological", "time": np.arange(90), "gap": "1"}, "invalid-value", "gap"),
        ({"y": pd.Series([None, *["a", "b"] * 44, "a"], dtype="string")}, "invalid-value", "y"),
        ({"X": np.full((90, 2), 2**63, np.uint64)}, "invalid-value", "X"),  # int64 would make it negative
    ],
)
def test_what_cannot_be_a_cohort_is_refused(changed: dict[str, Any], code: str, parameter: str) -> None:
    with refuses(OptionError, code, parameter):
        ecgfed.cohort_from_arrays(**{"X": X, "y": Y, "client": CLIENT, **changed})


def test_tensors_and_objects_that_numpy_does_not_take_as_they_are() -> None:
    """bfloat16 has 8 bits: X rounded to it is what arrives."""
    rounded = torch.tensor(X, dtype=torch.float32).bfloat16()
    expected = ecgfed.cohort_from_arrays(rounded.float().numpy(), Y, CLIENT).fingerprint
    objects = np.empty(90, object)
    objects[:] = [example.float().numpy() for example in rounded]
    for same in (rounded, list(rounded), rounded.requires_grad_(), objects):
        assert ecgfed.cohort_from_arrays(same, torch.tensor(Y).bfloat16(), CLIENT).fingerprint == expected
    assert (ecgfed.partition(torch.tensor(Y).bfloat16(), "iid") == ecgfed.partition(Y, "iid")).all()
    assert ecgfed.cohort_from_arrays(X, Y > 0, CLIENT).classes == ("False", "True")


@pytest.mark.parametrize("y", [np.where(Y == 1, np.nan, Y), [1, None, 2], [[1], [1, 2]], (v for v in Y), Y + 0.5, 3])
def test_labels_that_cannot_be_divided_are_refused(y: Any) -> None:
    with refuses(OptionError, "invalid-value", "y"):
        ecgfed.partition(y, "iid", clients=2)


@pytest.mark.parametrize(
    ("name", "value"), [("clients", 2.5), ("clients", "3"), ("seed", 1.5), ("alpha", "a"), ("shards", 1.5)]
)
def test_options_of_a_partition_of_another_type_are_refused(name: str, value: Any) -> None:
    with refuses(OptionError, "invalid-value", name):
        ecgfed.partition(Y, "shards" if name == "shards" else "dirichlet", **{"clients": 3, name: value})


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "split": "chronological",
        "time": np.arange(90),
        "gap": np.float32(2),
        "seed": np.int64(3),
    }
    assert ecgfed.cohort_from_arrays(X, Y, CLIENT, out=tmp_path / "c", **options).meta["split_gap"] == 2


def test_classes_of_floats_have_the_order_that_whole_numbers_have() -> None:
    by_float, by_int = (
        ecgfed.cohort_from_arrays(X, Y.astype(kind), CLIENT, classes=[kind(c) for c in (2, 0, 1)])
        for kind in (float, int)
    )
    assert by_float.classes == by_int.classes == ("2", "0", "1")
    np.testing.assert_array_equal(by_float.label, by_int.label)


def test_a_folder_with_another_shape_than_it_says_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "c"
    ecgfed.cohort_from_arrays(X, Y, CLIENT, out=out)
    for form in ({"dtype": "float32", "shape": [3, 2]}, {"dtype": "object", "shape": [2, 3]}, {"dtype": "float32"}):
        change_json(out / "cohort.json", example=form)
        resealed(out)
        with pytest.raises(EcgfedError):
            ecgfed.open_cohort(out)


def test_classes_that_are_numbers_are_those_that_y_holds() -> None:
    examples, y = np.zeros((6, 2)), np.array([3, 7, 7, 3, 7, 3])
    cohort = ecgfed.cohort_from_arrays(examples, y, [0] * 6, classes=[7, 3])
    assert cohort.classes == ("7", "3")
    assert np.array_equal(np.array([7, 3])[cohort.label], y[cohort.sample])


@pytest.mark.parametrize(
    ("name", "value"), [("classes", 3), ("classes", "abc"), ("split", [True, False, False, True, False, True])]
)
def test_what_could_be_meant_otherwise_is_refused(name: str, value: Any) -> None:
    with refuses(OptionError, "invalid-value", name):
        ecgfed.cohort_from_arrays(np.zeros((6, 2)), [0, 1] * 3, [0] * 6, **{name: value})


def test_a_data_frame_has_its_features_in_columns() -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(30, 3)), columns=["a", "b", "c"])
    by_array = ecgfed.cohort_from_arrays(frame.to_numpy(), np.arange(30) % 2, np.arange(30) % 3)
    frame["label"], frame["site"] = np.arange(30) % 2, np.arange(30) % 3
    assert ecgfed.cohort_from_arrays(frame, "label", "site").fingerprint == by_array.fingerprint
    waves = pd.DataFrame({"wave": list(draw.normal(size=(30, 4))), "label": np.arange(30) % 2, "site": 0})
    stacked = ecgfed.cohort_from_arrays(np.stack(waves["wave"]), waves["label"], waves["site"])
    assert ecgfed.cohort_from_arrays(waves, "label", "site").fingerprint == stacked.fingerprint
