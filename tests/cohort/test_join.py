"""Cohorts joined into sites: the very beats of each, one set of classes, and nothing that does not go together."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Said, write_record

import ecgfed
from ecgfed.base.errors import CohortError, EcgfedError, OptionError
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.join import join_cohorts as join
from ecgfed.domain.cohort.summary import lead_counts, leads_line, summarise


def prepared(
    folder: Path,
    name: str,
    records: dict[str, str],
    *,
    seed: int = 0,
    lead: str = "MLII",
    fs_hz: float = 360.0,
    **how: Any,
) -> Cohort:
    for number, (record, symbols) in enumerate(records.items()):
        write_record(folder / f"{name}-in", record, symbols, seed=10 * seed + number, leads=(lead,), fs_hz=fs_hz)
    return ecgfed.prepare_folder(folder / f"{name}-in", folder / name, leads=(lead,), workers=1, **how)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cohort, Cohort]:
    """North: twelve classes, MLII, one patient held out. South: AAMI's classes, V9, 128 Hz, a patient of that id."""
    folder = tmp_path_factory.mktemp("sites")
    north = prepared(folder, "north", {"p1": "NNLV" * 8, "p2": "NNNA" * 8}, holdout=("p2",))
    south = prepared(
        folder, "south", {"P1": "NNNV" * 6, "q": "N" * 20}, seed=1, lead="V9", fs_hz=128.0, classes="aami5"
    )
    return north, south


@pytest.fixture(scope="module")
def joined(two: tuple[Cohort, Cohort], tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return ecgfed.join_cohorts(two, tmp_path_factory.mktemp("joined") / "c")


def test_each_beat_is_its_sites_with_its_split_and_aami_class(two: tuple[Cohort, Cohort], joined: Cohort) -> None:
    beats = sum(len(cohort.label) for cohort in two)
    assert len(joined.label) == beats
    start = 0
    for cohort in two:
        rows = slice(start, start + len(cohort.label))
        for name in ("beats", "rr", "split", "sample", "flags"):
            np.testing.assert_array_equal(joined.arrays[name][rows], cohort.arrays[name])
        start = rows.stop
    assert joined.classes == ("N", "S", "V", "F", "Q")
    assert joined.meta["class_counts"] == {"N": 24 + 24 + 18 + 20, "S": 8, "V": 8 + 6, "F": 0, "Q": 0}
    aami = {"N": "N", "L": "N", "A": "S", "V": "V"}
    expected = [aami[two[0].classes[i]] for i in two[0].label] + [two[1].classes[i] for i in two[1].label]
    assert [joined.classes[i] for i in joined.label] == expected


def test_clients_of_one_id_get_their_sites_name_and_a_holdout_stays(joined: Cohort) -> None:
    assert [(c.id, c.patient, c.site, c.holdout) for c in joined.clients] == [
        ("north-p1", "north-p1", "north", False),
        ("p2", "p2", "north", True),
        ("south-P1", "south-P1", "south", False),
        ("q", "q", "south", False),
    ]
    assert joined.meta["holdout"] == ["p2"]
    assert {name: [client.id for client in clients] for name, clients in joined.sites.items()} == {
        "north": ["north-p1", "p2"],
        "south": ["south-P1", "q"],
    }
    names = [record["name"] for record in joined.meta["records"]]
    assert [names[i] for i in np.unique(joined.record)] == names == ["north-p1", "p2", "south-P1", "q"]


def test_a_site_names_its_cohort_and_how_it_was_recorded(two: tuple[Cohort, Cohort], joined: Cohort) -> None:
    for cohort, site in zip(two, joined.meta["sites"], strict=True):
        assert (site["fingerprint"], site["digest"]) == (cohort.fingerprint, cohort.meta["digest"])
        assert (site["classes"], site["leads"]) == (list(cohort.classes), list(cohort.leads))
    assert [site["recorded_hz"] for site in joined.meta["sites"]] == [[360.0], [128.0]]
    assert lead_counts(joined, joined.clients) == {"MLII": 2, "V9": 2}
    assert leads_line(joined, joined.clients[1:]) == "V9 (2 patients), MLII (1)"
    assert leads_line(joined, [client for client in joined.clients if client.site == "north"]) == ""
    summary = summarise(joined)
    assert summary["sites"]["south"]["classes"] == {"N": 38, "S": 0, "V": 6, "F": 0, "Q": 0}


def test_a_joined_cohort_joins_again_with_its_sites(joined: Cohort, tmp_path: Path) -> None:
    third = prepared(tmp_path, "third", {"r": "NNNV" * 5}, seed=2, classes="aami5")
    cohort = ecgfed.join_cohorts([joined, third], tmp_path / "c")
    assert list(cohort.sites) == ["north", "south", "third"]
    assert cohort.federation[-1].id == "r"


def test_a_site_is_one_client_with_its_held_out_patients_beside_it(two: tuple[Cohort, Cohort], tmp_path: Path) -> None:
    third = prepared(tmp_path, "third", {"a": "NNNV" * 5, "b": "NNVV" * 6, "c": "NNNA" * 5}, seed=2, holdout=("b",))
    cohort = ecgfed.join_cohorts([*two, third], tmp_path / "c", clients="site")
    assert [(c.id, c.patient, c.records, c.site, c.holdout) for c in cohort.clients] == [
        ("north", "north", ("north-p1",), "north", False),
        ("p2", "p2", ("p2",), "north", True),
        ("south", "south", ("south-P1", "q"), "south", False),
        ("third", "third", ("a", "c"), "third", False),
        ("b", "b", ("b",), "third", True),
    ]
    by_name = {c.id: c for c in third.clients}
    for client, ids in (("third", "ac"), ("b", "b")):
        rows = np.concatenate([np.flatnonzero(third.client == by_name[name].index) for name in ids])
        own = cohort.client == cohort.client_by_id(client).index
        for name in ("beats", "rr", "split", "sample", "flags"):
            np.testing.assert_array_equal(cohort.arrays[name][own], third.arrays[name][rows])
        names = [cohort.meta["records"][number]["name"] for number in cohort.record[own]]
        assert names == [third.meta["records"][number]["name"] for number in third.record[rows]]
    stated = {client["id"]: client.get("patients") for client in cohort.meta["clients"]}
    assert stated == {"north": 1, "p2": None, "south": 2, "third": 2, "b": None}
    assert [site["clients"] for site in cohort.meta["sites"]] == [2, 1, 2]
    assert leads_line(cohort, cohort.federation) == "MLII (2 clients), V9 (1)"
    alone = ecgfed.join_cohorts([third], tmp_path / "alone", clients="site")  # a hospital that is one client
    assert [client.id for client in alone.federation] == ["third"]
    with pytest.raises(OptionError, match="clients: 'record'; expected one of patient, site"):
        ecgfed.join_cohorts(two, tmp_path / "d", clients="record")


def test_the_command_says_what_it_did(ecgfed: Callable[..., Said], two: tuple[Cohort, Cohort], tmp_path: Path) -> None:
    north, south = (str(cohort.path) for cohort in two)
    said = ecgfed("cohort", "join", north, "--site", f"Lab={south}", "--out", tmp_path / "c")
    assert said.code == 0, said.err
    assert "Classes of north mapped onto aami5: N L R j to N, V E to V, / f to Q, A a J to S, F to F." in said.out
    assert "2 clients prefixed with the name of the site" in said.out
    assert "Leads of different names: MLII (2 patients), V9 (2)." in said.out
    assert list(open_cohort(tmp_path / "c").sites) == ["north", "Lab"]
    assert ecgfed("cohort", "join", north, "--site", south, "--out", tmp_path / "d").code == 2
    said = ecgfed("cohort", "join", "--site", f"a={north}", "--site", f"a={south}", "--out", tmp_path / "d")
    assert (said.code, len(said.error_lines)) == (2, 1)
    assert not (tmp_path / "d").exists()


def refused(kind: type[EcgfedError], text: str, out: Path, *cohorts: Cohort) -> None:
    with pytest.raises(kind, match=text):
        ecgfed.join_cohorts(list(cohorts), out)
    assert not out.exists()


def test_what_does_not_go_together_is_refused(two: tuple[Cohort, Cohort], joined: Cohort, tmp_path: Path) -> None:
    north, out = two[0], tmp_path / "out"
    refused(OptionError, "1 cohort; expected two or more", out, north)
    refused(CohortError, r"is recording p1 of .* too", out, north, joined)  # a patient at two sites
    third = prepared(tmp_path, "north", {"r": "NNNV" * 5}, seed=4, classes="aami5")
    refused(OptionError, "cohorts: two sites are called north", out, joined, third)
    older = prepared(tmp_path, "older", {"r": "NNNV" * 5}, seed=2, rr_version=1)
    refused(CohortError, "has rr_version 1, and .* has 2; expected the same", out, north, older)
    (tmp_path / "own.json").write_text(json.dumps({"classes": {"broad": ["V", "L"], "other": ["N"]}}))
    own = prepared(tmp_path, "own", {"s": "NNNV" * 5}, seed=3, classes=str(tmp_path / "own.json"))
    refused(CohortError, r"class broad \(V L\) is N and V in aami5", out, north, own)
    with pytest.raises(OptionError, match="is not empty; expected a new folder"):
        join([("a", north), ("b", two[1])], joined.path)
    with pytest.raises(OptionError, match=r"client '\.\./x-p1'"):  # the ids become names of files
        join([("../x", north), ("b", two[1])], out)
    taken = prepared(tmp_path, "taken", {"a-p1": "NNNV" * 5}, seed=5)
    with pytest.raises(OptionError, match="cohorts: a client's id is the name of a site"):
        join([("a", north), ("b", two[1]), ("c", taken)], out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"record_labels": {"q": "A"}}, "has unlabelled beats of other clients"),
        ({"excluded_classes": {"q": ["S"]}}, "excluded_classes of 'q'"),
        ({"record_labels": {"q": 7}}, "label of a recording 7"),
        ({"record_labels": "q"}, "lacks"),
        ({"sites": "north"}, "sites are 'north'; expected an object for each"),
        ({"sites": [{"name": "north"}]}, r"sites are \['north'\]; expected those of its clients"),
        ({"database": {"title": "MIT-BIH"}}, "database is "),
    ],
)
def test_labels_of_recordings_that_do_not_fit_are_refused(
    change: dict[str, object], text: str, joined: Cohort, tmp_path: Path
) -> None:
    for file in joined.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    meta = json.loads((tmp_path / "cohort.json").read_text())
    (tmp_path / "cohort.json").write_text(json.dumps({**meta, **change}))
    with pytest.raises(CohortError, match=text):
        open_cohort(tmp_path)
