"""``ecgfed prepare demo``: synthetic recordings and a cohort from them, both or neither."""

import json
import re
from pathlib import Path

import pytest
from support import Command, assert_full_disk, assert_refused, run_limited, snapshot

#: Three patients of one minute: N and V, L and V, N and A.
SMALL = ("--patients", 3, "--minutes", 1, "--workers", 1)
PROOF = "These patients are synthetic: it proves that the software runs, never that a method is good"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def meta(cohort: Path) -> dict[str, object]:
    return dict(json.loads((cohort / "cohort.json").read_text()))


def test_records_and_a_cohort_are_made_and_told(ecgfed: Command, tmp_path: Path) -> None:
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", *SMALL)
    assert said.code == 0, said.err
    assert names(tmp_path) == {"c", "c-records"}
    assert names(tmp_path / "c-records") == {f"demo0{n}.{kind}" for n in (1, 2, 3) for kind in ("hea", "dat", "atr")}
    lines = said.out.splitlines()
    (proof,) = [line for line in lines if PROOF in line]
    assert "made by ecgfed prepare demo, seed 0" in proof
    assert f"Wrote 3 records into {tmp_path / 'c-records'}." in lines
    (row,) = [line for line in lines if line.startswith("A ")]
    assert row.split()[-1] == "1"
    assert "3 clients, 12 classes, 2" in said.out
    assert f"Wrote {tmp_path / 'c'} in " in said.out
    about = meta(tmp_path / "c")
    assert (about["kind"], about["seed"], about["split"], about["leads"]) == ("demo", 0, "random", ["MLII"])
    assert "synthetic" in about


def test_the_records_are_read_as_any_others(ecgfed: Command, tmp_path: Path) -> None:
    assert ecgfed("prepare", "demo", "--out", tmp_path / "c", "--records", tmp_path / "r", *SMALL).code == 0
    assert ecgfed("prepare", "folder", tmp_path / "r", "--out", tmp_path / "f", "--workers", 1).code == 0
    assert meta(tmp_path / "f")["fingerprint"] == meta(tmp_path / "c")["fingerprint"]


def test_one_is_said_as_one(ecgfed: Command, tmp_path: Path) -> None:
    one = ("--patients", 1, "--minutes", 0.5, "--workers", 1)
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", *one)
    assert said.code == 0, said.err
    assert "Wrote 1 record into" in said.out
    assert "1 client, 12 classes, " in said.out
    assert not re.search(r"\b1 (clients|records|beats)\b", said.out)


def test_who_is_held_out_is_counted_by_prepare_and_by_train(ecgfed: Command, tmp_path: Path) -> None:
    """Nobody has to wonder why a training has a client less than its cohort."""
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", "--holdout", "demo02", *SMALL)
    assert "3 clients (1 held out), 12 classes, " in said.out
    said = ecgfed("train", tmp_path / "c", "--out", tmp_path / "run", "--method", "fedavg", "--rounds", 1, "--seed", 0)
    assert said.code == 0, said.err
    assert "fedavg on 2 of 3 clients (1 held out): 1 round of " in said.out + said.err


def test_a_line_names_some_and_counts_the_rest(ecgfed: Command, tmp_path: Path) -> None:
    """In MIT-BIH 28 pairs have no test beat; --json has all of them."""
    many = ("--patients", 18, "--minutes", 0.5, "--split", "chronological", "--workers", 1)
    missing = json.loads(ecgfed("prepare", "demo", "--out", tmp_path / "j", "--json", *many).out)["cells_without_test"]
    assert len(missing) > 6, "the test needs a cohort with more"
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", *many)
    (line,) = [line for line in said.error_lines if "pairs have no test beat" in line]
    named = ", ".join(":".join(pair) for pair in missing[:6])
    assert line.endswith(f"pairs have no test beat: {named} and {len(missing) - 6} more (--json has them all)")


def test_json_says_it_to_a_script_and_quiet_says_nothing(ecgfed: Command, tmp_path: Path) -> None:
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", "--json", *SMALL)
    assert said.code == 0
    value = json.loads(said.out)
    assert (value["synthetic"], value["clients"], value["cohort"]) == (True, 3, str(tmp_path / "c"))
    assert {name for name, count in value["classes"].items() if count} == {"N", "V", "L", "A"}
    assert said.error_lines == []
    said = ecgfed("prepare", "demo", "--out", tmp_path / "q", "--quiet", *SMALL)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_the_seed_decides_everything(ecgfed: Command, tmp_path: Path) -> None:
    for out, seed, workers in (("a", 4, 1), ("b", 4, 1), ("c", 5, 1)):
        arguments = ("--seed", seed, "--patients", 2, "--minutes", 0.5, "--workers", workers, "--quiet")
        assert ecgfed("prepare", "demo", "--out", tmp_path / out, *arguments).code == 0
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")
    assert snapshot(tmp_path / "a-records") == snapshot(tmp_path / "b-records")
    assert snapshot(tmp_path / "a-records") != snapshot(tmp_path / "c-records")
    assert "seed 4" in (tmp_path / "a-records" / "demo01.hea").read_text()


@pytest.mark.slow
def test_the_whole_demo_in_worker_processes(ecgfed: Command, tmp_path: Path) -> None:
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", "--workers", 2)
    assert said.code == 0, said.err
    assert "12 clients, 12 classes, 5,505 beats" in said.out
    assert said.error_lines == ["ecgfed: note: clients with one class only: demo05"]  # as two of MIT-BIH's have
    assert ecgfed("prepare", "demo", "--out", tmp_path / "d", "--workers", 1, "--quiet").code == 0
    assert snapshot(tmp_path / "c") == snapshot(tmp_path / "d")


def test_a_packed_demo_still_says_what_it_is(ecgfed: Command, tmp_path: Path) -> None:
    pack = tmp_path / "demo.npz"
    said = ecgfed("prepare", "demo", "--out", tmp_path / "c", "--split", "chronological", "--pack", pack, *SMALL)
    assert said.code == 0
    assert f"Packed into {pack}" in said.out
    said = ecgfed("prepare", "unpack", pack, "--out", tmp_path / "u")
    assert PROOF in said.out
    assert meta(tmp_path / "u")["split"] == "chronological"


def test_overwrite_replaces_both(ecgfed: Command, tmp_path: Path) -> None:
    for name in ("c", "c-records"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("mine")
    before = snapshot(tmp_path)
    assert_refused(ecgfed("prepare", "demo", "--out", tmp_path / "c", *SMALL), "--records", "c-records is not empty")
    arguments = ("--out", tmp_path / "c", "--records", tmp_path / "r", *SMALL)
    assert_refused(ecgfed("prepare", "demo", *arguments), "--out", "is not empty", "--overwrite")
    assert snapshot(tmp_path) == before  # not even --records was made
    command = ("prepare", "demo", "--out", tmp_path / "c", "--overwrite", *SMALL)
    assert_refused(ecgfed(*command), "mine.txt, which ecgfed did not write")
    assert snapshot(tmp_path) == before
    (tmp_path / "c" / "cohort.json").write_text("an older one's")
    (tmp_path / "c-records" / "demo09.hea").write_text("an older one's")
    assert ecgfed(*command).code == 0
    assert names(tmp_path) == {"c", "c-records"}
    assert "mine.txt" not in names(tmp_path / "c") | names(tmp_path / "c-records")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--patients", 0), ("--patients: 0", "1 to 1000")),
        (("--patients", "x"), ("--patients",)),
        (("--minutes", 0), ("--minutes: 0", "0.5 to 60")),
        (("--minutes", -2), ("--minutes: -2",)),
        (("--minutes", "nan"), ("--minutes: nan",)),
        (("--seed", -1), ("--seed", "0")),
        (("--split", "half"), ("--split", "'half'", "random, chronological")),
        (("--records", "c"), ("--records", "overlap")),
        (("--records", "c/records"), ("--records", "overlap", "neither in the other")),
        (("--records", "."), ("--records", "overlap")),
        (("--records", "taken.txt"), ("--records", "taken.txt is a file")),
    ],
)
def test_an_option_that_will_not_do(
    ecgfed: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.txt").write_text("mine")
    assert_refused(ecgfed("prepare", "demo", "--out", "c", "--workers", 1, *options), *words)
    assert snapshot(tmp_path) == {"taken.txt": b"mine"}
    assert names(tmp_path) == {"taken.txt"}


@pytest.mark.parametrize(("limit", "file"), [(20_000, "c-records"), (100_000, "c")], ids=["a record", "the beats"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, limit: int, file: str) -> None:
    """The system's own limit on a file's size stands in for a full disk: writing fails in the middle."""
    assert_full_disk(run_limited(limit, "prepare", "demo", "--out", tmp_path / "c", *SMALL), file)
    assert names(tmp_path) == set()
