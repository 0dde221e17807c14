"""MIT-BIH as a federation, against the counts that were published (shared ecg-facts, the database's directory)."""

import hashlib
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from record_files import copy_record, flip_byte

from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.beats.context import FEATURES
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.databases import MITBIH, database_sources, package_sha256, wrong_files
from ecgfed.domain.cohort.mitbih import count_check, record_names
from ecgfed.domain.cohort.sources import PrepareOptions, Source
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.summary import summarise
from ecgfed.tasks.prepare_databases import prepare_mitbih

#: Beats of each class on the 46 records with MLII.
PUBLISHED = {
    **{"N": 74790, "L": 8075, "R": 7259, "V": 7124, "/": 3620, "A": 2546, "F": 803, "f": 260, "j": 229, "a": 150},
    **{"E": 106, "J": 83},
}
NAMES = (
    *(str(n) for n in range(100, 125) if n not in (110, 120)),
    *(str(n) for n in range(200, 235) if n not in (204, 206, 211, 216, 218, 224, 225, 226, 227, 229)),
)
ON_MLII = [name for name in NAMES if name not in ("102", "104")]
DEFAULT = PrepareOptions()


def fake_records(names: list[str]) -> list[Path]:
    return [Path("mitdb") / name for name in names]


def mitbih_sources(source: Path, options: PrepareOptions, by: str = "patient") -> tuple[list[Source], list[str]]:
    members = database_sources(MITBIH, source, options, by)
    return members.clients, members.without_lead


def records_of(sources: list[Source]) -> list[Path]:
    return [path for source in sources for path in source.records]


@pytest.fixture(scope="module")
def cohort(mitdb: Path, tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """All 46 records, prepared once."""
    out = tmp_path_factory.mktemp("mitbih") / "cohort"
    sources, _ = mitbih_sources(mitdb, DEFAULT, "record")
    build_cohort(sources, out, DEFAULT, kind="mitbih", workers=2, check=count_check(records_of(sources), DEFAULT))
    return open_cohort(out)


def test_the_48_names_and_their_144_files() -> None:
    assert len(NAMES) == 48
    assert record_names() == NAMES
    table = package_sha256(MITBIH)
    assert set(table) == {f"{name}.{suffix}" for name in NAMES for suffix in ("hea", "dat", "atr")}
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in table.values())


@pytest.mark.mitdb
def test_46_clients_12_classes_105_045_beats(cohort: Cohort) -> None:
    assert [client.id for client in cohort.clients] == ON_MLII
    assert len(cohort.clients) == 46
    assert len(cohort.label) == 105_045
    found = {cls: int((cohort.label == i).sum()) for i, cls in enumerate(cohort.classes)}
    assert found == PUBLISHED
    left_out: dict[str, int] = {}
    for record in cohort.meta["records"]:
        for symbol, count in record["left_out"].items():
            left_out[symbol] = left_out.get(symbol, 0) + count
    assert left_out == {"e": 16, "Q": 15, "S": 2}


@pytest.mark.mitdb
def test_the_facts_to_state_beside_every_score(cohort: Cohort) -> None:
    """1,518 to 3,363 beats a client, 3.24 classes; f in one client, / and E in two; 20 cells of one beat, 19 of 2-4."""
    beats = np.bincount(cohort.client)
    assert (beats.min(), beats.max()) == (1518, 3363)
    cells = np.zeros((46, 12), dtype=int)
    np.add.at(cells, (cohort.client, cohort.label), 1)
    clients_of = dict(zip(cohort.classes, (cells > 0).sum(axis=0).tolist(), strict=True))
    assert (clients_of["f"], clients_of["/"], clients_of["E"]) == (1, 2, 2)
    assert int((cells == 1).sum()) == 20
    assert int(((cells >= 2) & (cells <= 4)).sum()) == 19
    summary = summarise(cohort)
    assert summary["classes_per_client"] == 3.24
    assert len(summary["one_class"]) == 2
    assert summary["no_test"] == []


@pytest.mark.mitdb
def test_splits_are_a_fifth_and_a_tenth_of_each_cell(cohort: Cohort) -> None:
    for client in cohort.clients:
        for cls in range(12):
            mine = (cohort.client == client.index) & (cohort.label == cls)
            beats, split = int(mine.sum()), cohort.split[mine]
            test, valid = int((split == TEST).sum()), int((split == VALID).sum())
            assert abs(test - beats / 5) <= 0.5
            assert abs(valid - (beats - test) / 10) <= 0.5
            assert beats != 1 or split.tolist() == [TRAIN]


@pytest.mark.mitdb
def test_windows_are_finite_millivolt_and_features_are_a_humans(cohort: Cohort) -> None:
    assert np.isfinite(cohort.beats).all()
    assert np.abs(cohort.beats).max() < 10.24  # the recorder's range is +-5.12 mV
    assert int((cohort.flags & 1).sum()) < 2 * 46
    rr = dict(zip(FEATURES, cohort.rr.T, strict=True))
    assert np.isfinite(cohort.rr).all()
    assert np.abs(cohort.rr).max() <= 5
    # a heart's interval is as the one before it, and most often shorter than the long ones, by a fifth at most
    assert abs(np.median(rr["previous_over_typical"])) < 0.1
    assert abs(np.median(rr["next_over_previous"])) < 0.1
    assert -1 < np.median(rr["next_over_sinus"]) < 0
    first = np.diff(cohort.client, prepend=-1) != 0
    assert rr["void_previous"][first].mean() > 0.9
    assert rr["void_previous"][~first].mean() < 0.01


@pytest.mark.mitdb
def test_by_patient_201_and_202_are_one_client(mitdb: Path, tmp_path: Path) -> None:
    sources, without = mitbih_sources(mitdb, DEFAULT)  # the default
    assert without == ["102", "104"]
    assert mitbih_sources(mitdb, DEFAULT, "patient") == (sources, without)
    assert count_check(records_of(sources), DEFAULT) is not None  # the same records, so the published counts hold
    assert len(sources) == 45
    (joined,) = [source for source in sources if len(source.records) > 1]
    assert (joined.id, [path.name for path in joined.records]) == ("201", ["201", "202"])
    build_cohort([joined], tmp_path / "c", DEFAULT, kind="mitbih")
    cohort = open_cohort(tmp_path / "c")
    assert cohort.clients[0].records == ("201", "202")
    # 201: N 1625, A 30, V 198, F 2, a 97, j 10, J 1; 202: N 2061, A 36, V 19, F 1, a 19.
    expected = {"N": 3686, "A": 66, "V": 217, "F": 3, "a": 116, "j": 10, "J": 1}
    assert {cls: n for cls, n in summarise(cohort)["classes"].items() if n} == expected


@pytest.mark.mitdb
def test_by_record_they_stay_apart_and_lead_v5_takes_others(mitdb: Path) -> None:
    sources, without = mitbih_sources(mitdb, DEFAULT, "record")
    assert [source.id for source in sources] == ON_MLII
    assert without == ["102", "104"]
    v5, _ = mitbih_sources(mitdb, PrepareOptions(BeatOptions(("V5",), "annotated")))
    assert [source.id for source in v5] == ["100", "102", "104", "114", "123"]


@pytest.mark.mitdb
def test_a_person_on_both_sides_of_the_holdout_is_said(mitdb: Path, tmp_path: Path) -> None:
    for name in ("100", "201", "202"):
        copy_record(mitdb / name, tmp_path)

    def told(*holdout: str, by: str = "record") -> list[str]:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            prepare_mitbih(tmp_path, tmp_path / "c", by=by, holdout=holdout, overwrite=True, workers=1)
        return [str(one.message) for one in said]

    assert told("201") == ["201 is held out, and 202 is trained on: both are of the same person"]
    assert told("202") == ["202 is held out, and 201 is trained on: both are of the same person"]
    assert told("201", "202") == told("100") == told("201", by="patient") == []
    for file in tmp_path.glob("202.*"):
        file.unlink()
    assert told("201") == []


@pytest.mark.mitdb
def test_the_files_are_the_published_ones(mitdb: Path, tmp_path: Path) -> None:
    for name in ("100.dat", "114.atr", "234.hea"):
        assert package_sha256(MITBIH)[name] == hashlib.sha256((mitdb / name).read_bytes()).hexdigest()
    copy_record(mitdb / "100", tmp_path)
    copy_record(mitdb / "101", tmp_path)
    assert wrong_files(read_from(tmp_path), package_sha256(MITBIH)) == []
    flip_byte(tmp_path / "101.dat", 1000)
    (tmp_path / "100.hea").write_text((tmp_path / "100.hea").read_text() + "# more\n")
    assert wrong_files(read_from(tmp_path), package_sha256(MITBIH)) == ["100.hea", "101.dat"]


def read_from(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


@pytest.mark.mitdb
def test_a_folder_with_some_of_the_records_will_do(mitdb: Path, tmp_path: Path) -> None:
    for name in ("102", "208"):
        for path in mitdb.glob(f"{name}.*"):
            shutil.copyfile(path, tmp_path / path.name)
    sources, without = mitbih_sources(tmp_path, DEFAULT)
    assert [source.id for source in sources] == ["208"]
    assert without == ["102"]
    assert count_check(records_of(sources), DEFAULT) is None
    with pytest.raises(CohortError, match=r"no record has lead V3; expected one of MLII, V1, V2, V5"):
        mitbih_sources(tmp_path, PrepareOptions(BeatOptions(("V3",), "annotated")))


def test_the_count_check_passes_what_was_published_and_names_what_differs() -> None:
    check = count_check(fake_records(ON_MLII), DEFAULT)
    assert check is not None
    check(PUBLISHED)
    with pytest.raises(CohortError) as caught:
        check({**PUBLISHED, "V": 7123, "J": 84})
    assert "V 7123 (not 7124), J 84 (not 83)" in caught.value.line
    assert "N " not in caught.value.line


def test_the_count_check_knows_the_aami_classes() -> None:
    """46 records: S = A 2546 + a 150 + J 83 + S 2, V = V 7124 + E 106, Q = / 3620 + f 260 + Q 15."""
    check = count_check(fake_records(ON_MLII), PrepareOptions(labels=BUILT_IN["aami5"]))
    assert check is not None
    check({"N": 74790 + 8075 + 7259 + 16 + 229, "S": 2781, "V": 7230, "F": 803, "Q": 3895})
    with pytest.raises(CohortError, match=r"S 2780 \(not 2781\)"):
        check({"N": 74790 + 8075 + 7259 + 16 + 229, "S": 2780, "V": 7230, "F": 803, "Q": 3895})


@pytest.mark.parametrize(
    ("names", "options"),
    [(ON_MLII[1:], DEFAULT), (list(NAMES), DEFAULT), (ON_MLII, PrepareOptions(BeatOptions(("MLII",))))],
)
def test_the_counts_are_not_checked_where_they_cannot_hold(names: list[str], options: PrepareOptions) -> None:
    assert count_check(fake_records(names), options) is None


def test_sources_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="by: 'tape'; expected patient or record"):
        mitbih_sources(tmp_path, DEFAULT, "tape")
    with pytest.raises(
        OptionError, match=r"holdout: 202 is of the same person as 201; expected 201, for both; or pass"
    ):
        mitbih_sources(tmp_path, PrepareOptions(holdout=("100", "202")))
    with pytest.raises(OptionError, match=r"source: .*nothing is not a folder"):
        mitbih_sources(tmp_path / "nothing", DEFAULT)
    with pytest.raises(CohortError, match="holds no record of the MIT-BIH Arrhythmia Database"):
        mitbih_sources(tmp_path, DEFAULT)
