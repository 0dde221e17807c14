"""Groups of alike beats: the tree is scipy's Ward, beats that stand for others are the nearest."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import write_record
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from ecgfed.domain.labels import groups as module
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.likeness import Points


def points(at: np.ndarray) -> Points:
    return Points(at, {"shape": slice(0, at.shape[1])}, np.full((len(at), 5), 0.2))


def blobs(beats: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(7, 4))[rng.integers(7, size=beats)] * 4 + rng.normal(size=(beats, 4))


def members(groups: Groups) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(len(groups))]
    for beat, leaf in enumerate(groups.leaf.tolist()):
        for group in groups.path(leaf):
            found[group].add(beat)
    return found


@pytest.mark.parametrize("leaves", [1, 2, 9, 40])
def test_the_smallest_groups_are_wards_clusters(leaves: int) -> None:
    at = blobs(300)
    groups = group_beats(points(at), leaves)
    theirs = fcluster(linkage(at, "ward"), leaves, "maxclust")
    ours = {frozenset(np.flatnonzero(groups.leaf == leaf).tolist()) for leaf in np.unique(groups.leaf).tolist()}
    assert ours == {frozenset(np.flatnonzero(theirs == one).tolist()) for one in np.unique(theirs)}
    assert len(groups) == 2 * leaves - 1


def test_each_group_is_its_two_parts_and_its_beat_the_one_nearest_the_middle() -> None:
    at = blobs(200, seed=3)
    groups = group_beats(points(at), 30)
    inside = members(groups)
    assert inside[0] == set(range(200))
    for group, parts in enumerate(groups.children):
        assert groups.size[group] == len(inside[group])
        if parts:
            first, second = (inside[part] for part in parts)
            assert not first & second
            assert first | second == inside[group]
            assert all(part > group for part in parts)
        own = sorted(inside[group])
        middle = at[own].mean(0)
        assert groups.beat[group] == min(own, key=lambda beat: (round(np.square(at[beat] - middle).sum(), 9), beat))


DIGEST = """
import sys
import ecgfed
from ecgfed.domain.labels.page import _digest
for record in sys.argv[1:]:
    print(_digest(ecgfed.label(record).grouped.groups))
"""


def digests(records: list[Path], threads: int) -> str:
    """Return what tells the trees of some recordings apart, made with so many threads of the linear algebra."""
    told = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    command = [sys.executable, "-c", DIGEST, *map(str, records)]
    return subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, check=True).stdout


def test_the_tree_does_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    """Sums over many windows have other last bits then, and two beats are equally far from their middle."""
    records = [write_record(tmp_path, f"r{seed}", "NNNNV" * 30, seed=seed) for seed in range(3)]
    assert digests(records, 1) == digests(records, 2)


@pytest.mark.mitdb
def test_nor_does_that_of_a_real_recording(mitdb: Path) -> None:
    records = [mitdb / name for name in ("100", "208", "232")]
    assert digests(records, 1) == digests(records, 2)


@pytest.mark.parametrize("beats", [1, 2, 3])
def test_few_beats_are_groups_of_one(beats: int) -> None:
    groups = group_beats(points(blobs(beats)), 100)
    assert len(np.unique(groups.leaf)) == beats
    assert groups.size[0] == beats


def test_equal_beats_are_joined_too() -> None:
    groups = group_beats(points(np.zeros((50, 3))), 10)
    assert groups.size[0] == 50
    assert groups.size[np.unique(groups.leaf)].sum() == 50


def test_of_many_beats_each_is_with_the_nearest_that_stands_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_JOINED", 40)
    at = blobs(500, seed=5)
    at[123] += 60.0  # one beat unlike all others is found by its distance
    chosen, nearest = module._joined(at, 0)
    assert len(chosen) <= 40
    np.testing.assert_array_equal(nearest, cdist(at, at[chosen], "sqeuclidean").argmin(1))
    assert 123 in chosen
    groups = group_beats(points(at), 20)
    assert int(groups.size[groups.leaf[123]]) == 1
    again = group_beats(points(at), 20)
    np.testing.assert_array_equal(groups.leaf, again.leaf)
    assert not np.array_equal(groups.beat, group_beats(points(at), 20, seed=1).beat)


def test_many_equal_beats_need_few_to_stand_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_JOINED", 40)
    at = np.repeat(np.eye(3), 100, axis=0)
    groups = group_beats(points(at), 20)
    assert groups.size[0] == 300
    for kind in range(3):
        assert len(np.unique(groups.leaf[kind * 100 : kind * 100 + 100])) >= 1
    assert not set(groups.leaf[:100].tolist()) & set(groups.leaf[100:200].tolist())
