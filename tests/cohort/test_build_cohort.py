"""From recordings to a cohort folder: what goes in comes out, whatever the workers, or nothing is left behind."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import PATIENTS, write_record
from record_files import cut, flip_byte
from refusals import refuses

from ecgfed.base.errors import CohortError, OptionError, RecordError, StorageError
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.sources import PrepareOptions, Source

DEFAULT = PrepareOptions()


def build(records: Path, out: Path, options: PrepareOptions = DEFAULT, *, workers: int = 1) -> Cohort:
    build_cohort(folder_sources(records), out, options, kind="folder", workers=workers)
    return open_cohort(out)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_each_patient_is_a_client_with_its_own_beats(cohort_path: Path) -> None:
    cohort = open_cohort(cohort_path)
    assert [client.id for client in cohort.clients] == list(PATIENTS)
    for client, symbols in zip(cohort.clients, PATIENTS.values(), strict=True):
        mine = cohort.label[cohort.client == client.index]
        assert "".join(cohort.classes[i] for i in mine) == symbols
    assert cohort.meta["class_counts"] == {
        cls: sum(symbols.count(cls) for symbols in PATIENTS.values()) for cls in BUILT_IN["mitbih12"].classes
    }
    assert len(cohort.label) == sum(map(len, PATIENTS.values()))
    assert (np.diff(cohort.client) >= 0).all()
    for client in cohort.clients:
        assert (np.diff(cohort.sample[cohort.client == client.index]) > 0).all()


def test_the_contract_is_written_down(cohort_path: Path) -> None:
    meta = json.loads((cohort_path / "cohort.json").read_text())
    assert (meta["schema_version"], meta["fs_hz"], meta["window_samples"], meta["r_index"]) == (1, 360.0, 256, 100)
    assert (meta["units"], meta["normalised"], meta["split"], meta["seed"]) == ("mV", False, "random", 0)
    assert meta["kind"] == "folder"
    assert "0.5-40 Hz" in meta["filter"]
    assert meta["classes"] == list("NLRV/AFfjaEJ")


@pytest.mark.parametrize("peaks", ["annotated", pytest.param("detected", marks=pytest.mark.slow)])
def test_the_folder_does_not_depend_on_the_workers(records: Path, tmp_path: Path, peaks: str) -> None:
    options = PrepareOptions(BeatOptions(("MLII",), peaks))
    one, two = (build(records, tmp_path / str(n), options, workers=n) for n in (1, 2))
    assert one.fingerprint == two.fingerprint
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_the_fingerprint_follows_the_seed_and_the_split(records: Path, cohort_path: Path, tmp_path: Path) -> None:
    again = build(records, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(cohort_path)
    prints = {again.fingerprint}
    prints.add(build(records, tmp_path / "seed", PrepareOptions(seed=1)).fingerprint)
    prints.add(build(records, tmp_path / "chronological", PrepareOptions(split="chronological")).fingerprint)
    assert len(prints) == 3


def test_a_clients_split_does_not_depend_on_who_else_is_there(records: Path, cohort_path: Path, tmp_path: Path) -> None:
    sources = [source for source in folder_sources(records) if source.id == "p3"]
    build_cohort(sources, tmp_path / "c", DEFAULT, kind="folder")
    whole = open_cohort(cohort_path)
    np.testing.assert_array_equal(open_cohort(tmp_path / "c").split, whole.split[whole.client == 2])


def test_two_clients_of_the_same_beats_are_not_split_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_record(tmp_path / "r", name, "N" * 60)
    cohort = build(tmp_path / "r", tmp_path / "c")
    assert cohort.split[:60].tolist() != cohort.split[60:].tolist()


def test_a_held_out_client_is_in_the_cohort_but_not_in_the_federation(records: Path, tmp_path: Path) -> None:
    cohort = build(records, tmp_path / "c", PrepareOptions(holdout=("p2", "p4")))
    assert [client.id for client in cohort.clients] == ["p1", "p2", "p3", "p4"]
    assert [client.id for client in cohort.federation] == ["p1", "p3"]
    held = {client.index for client in cohort.clients if client.holdout}
    for part in range(3):
        assert not held & set(cohort.client[cohort.pool(part)].tolist())
    assert len(cohort.rows(cohort.clients[1], 0)) > 0


@pytest.mark.parametrize("holdout", [("p9",), ("p1", "p9", "p8")])
def test_an_unknown_held_out_client_is_refused(records: Path, tmp_path: Path, holdout: tuple[str, ...]) -> None:
    with refuses(OptionError, "unknown-choice", "holdout"):
        build(records, tmp_path / "c", PrepareOptions(holdout=holdout))


def test_holding_everyone_out_is_refused(records: Path, tmp_path: Path) -> None:
    with refuses(OptionError, "invalid-value", "holdout"):
        build(records, tmp_path / "c", PrepareOptions(holdout=tuple(PATIENTS)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [1, 2])
def test_several_records_of_one_patient_are_one_client(records: Path, tmp_path: Path, version: int) -> None:
    source = Source("p", "Ann", (records / "p1", records / "p3"))
    options = PrepareOptions(BeatOptions(("MLII",), "annotated", rr_version=version), split="chronological")
    build_cohort([source], tmp_path / "c", options, kind="folder")
    cohort = open_cohort(tmp_path / "c")
    (client,) = cohort.clients
    assert (client.patient, client.records) == ("Ann", ("p1", "p3"))
    # 115 beats, 60 in p1: the last 23 test, from beat 32 of p3 on; before a gap of 6 s the 9.2 of the rest are valid
    at_s = wfdb.rdann(str(records / "p3"), "atr").sample / 360
    valid = np.flatnonzero(at_s <= at_s[32] - 6)[-9:]
    train = np.flatnonzero(at_s <= at_s[valid[0]] - 6)
    kept = [*train, *valid, *range(32, 55)]
    symbols = PATIENTS["p1"] + "".join(PATIENTS["p3"][i] for i in kept)
    assert "".join(cohort.classes[i] for i in cohort.label) == symbols
    assert cohort.record.tolist() == [0] * 60 + [1] * len(kept)
    assert cohort.split.tolist() == [0] * (60 + len(train)) + [1] * 9 + [2] * 23
    assert cohort.meta["records"][1]["excluded"]["beats"]["excluded"] == {"split_gap": 55 - len(kept)}
    # Intervals reach neither from one recording into the other, nor across a gap.
    firsts = np.cumsum([0, 60, len(train), 9])
    lasts = np.array([*firsts[1:], len(symbols)]) - 1
    rr = dict(zip(RR_NAMES[version], cohort.rr.T, strict=True))
    if version == 2:
        assert np.flatnonzero(rr["void_next"]).tolist() == lasts.tolist()
        assert np.flatnonzero(rr["void_previous"]).tolist() == firsts.tolist()
        return
    assert (cohort.rr[lasts, 1] == cohort.rr[lasts, 0]).all()
    assert (cohort.rr[firsts, 0] == cohort.rr[firsts, 1]).all()


def test_a_patient_without_a_beat_of_any_class_is_left_out_and_named(tmp_path: Path) -> None:
    write_record(tmp_path / "r", "a", "VVVV")
    write_record(tmp_path / "r", "b", "NNVN")
    write_record(tmp_path / "r", "c", "VV")
    labels = dataclasses.replace(BUILT_IN["mitbih12"], classes=("N", "A"), symbols={"N": "N", "A": "A"})
    cohort = build(tmp_path / "r", tmp_path / "c", PrepareOptions(labels=labels))
    assert [client.id for client in cohort.clients] == ["b"]
    assert cohort.meta["without_beats"] == ["a", "c"]
    assert cohort.client.tolist() == [0, 0, 0]
    assert [record["left_out"] for record in cohort.meta["records"]] == [{"V": 4}, {"V": 1}, {"V": 2}]


@pytest.mark.parametrize("holdout", [(), ("b",)])
def test_no_beat_to_train_on_is_an_empty_cohort(tmp_path: Path, holdout: tuple[str, ...]) -> None:
    write_record(tmp_path / "r", "a", "VVVV")
    write_record(tmp_path / "r", "b", "NNN" if holdout else "VV")
    labels = dataclasses.replace(BUILT_IN["mitbih12"], classes=("N", "A"), symbols={"N": "N", "A": "A"})
    with refuses(CohortError, "no-beats", "classes"):
        build(tmp_path / "r", tmp_path / "c", PrepareOptions(labels=labels, holdout=holdout))
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_no_source_at_all_is_refused(tmp_path: Path) -> None:
    with refuses(CohortError, "invalid-cohort"):
        build_cohort([], tmp_path / "c", DEFAULT, kind="folder")


def test_detected_peaks_are_labelled_by_the_annotation(records: Path, tmp_path: Path) -> None:
    cohort = build(records, tmp_path / "c", PrepareOptions(BeatOptions(("MLII",))))
    assert (cohort.meta["peaks"], cohort.meta["detector"]) == ("detected", "ecgfed")
    for record in cohort.meta["records"]:
        missed, symbols = record["annotations_without_peak"], PATIENTS[record["name"]]
        assert record["beats"] + missed == len(symbols)
        assert missed <= symbols.count("V") + 3  # the synthetic V is so wide that xqrs takes it for a T wave
    assert cohort.meta["class_counts"]["N"] >= 0.95 * sum(text.count("N") for text in PATIENTS.values())


def test_an_option_that_cannot_be_is_refused() -> None:
    with refuses(OptionError, "unknown-choice", "split"):
        PrepareOptions(split="half")  # type: ignore[arg-type]
    with refuses(OptionError, "unknown-choice", "peaks"):
        BeatOptions(peaks="guessed")


class StoppedError(Exception):
    """What a progress call raises here."""


@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt])
def test_a_build_stopped_half_way_leaves_nothing(records: Path, tmp_path: Path, error: type[BaseException]) -> None:
    def stop(_name: str, done: int, total: int) -> None:
        assert total == 4
        if done == 3:
            lock, partial = sorted((path.name for path in tmp_path.iterdir()), reverse=True)
            assert lock == ".c.lock"
            assert partial.endswith(".c.partial")
            raise error

    with pytest.raises(error):
        build_cohort(folder_sources(records), tmp_path / "c", DEFAULT, kind="folder", workers=1, on_progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_leaves_what_was_there(records: Path, cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "cohort.json").write_text("mine")

    def refuse(counts: dict[str, int]) -> None:
        assert counts == open_cohort(cohort_path).meta["class_counts"]
        raise CohortError("here", "not as published")

    with refuses(CohortError, "invalid-cohort"):
        build_cohort(
            folder_sources(records), tmp_path / "c", DEFAULT, kind="folder", workers=1, overwrite=True, check=refuse
        )
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert (tmp_path / "c" / "cohort.json").read_text() == "mine"


def test_what_a_killed_build_left_is_cleared_away(records: Path, cohort_path: Path, tmp_path: Path) -> None:
    """kill -9 leaves the temporary folder; the next build starts it anew."""
    (tmp_path / ".c.partial").mkdir()
    (tmp_path / ".c.partial" / "beats.npy").write_bytes(b"half")
    (tmp_path / ".c.partial" / "junk").write_bytes(b"junk")
    build(records, tmp_path / "c")
    assert contents(tmp_path / "c") == contents(cohort_path)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_record_comes_home_from_a_worker(records: Path, tmp_path: Path, workers: int) -> None:
    for path in records.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    flip_byte(tmp_path / "p3.dat", 0)
    cut(tmp_path / "p4.dat", 300)
    with pytest.raises(RecordError, match=r"p3\.dat: checksum of lead MLII") as caught:
        build(tmp_path, tmp_path / "out" / "c", workers=workers)
    assert isinstance(caught.value, RecordError)
    assert not (tmp_path / "out" / "c").exists()


class Killer(str):
    """Ends the worker process that unpickles it, as the system does when memory runs out."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (9,)


def test_a_killed_worker_is_one_line_and_leaves_nothing(records: Path, tmp_path: Path) -> None:
    options = PrepareOptions(BeatOptions(("MLII",), "annotated", annotator=Killer("atr")))
    with refuses(CohortError, "invalid-cohort", "workers"):
        build(records, tmp_path / "c", options, workers=2)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_storage_error(records: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with refuses(StorageError, "storage"):
        build(records, tmp_path / "file" / "c")
