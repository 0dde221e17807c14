"""The papers' tables as data against a second transcription: column by column, as the text extracts print them."""

import pytest

from ecgfed.papers import fed_rod, fedabc, grp_fed
from ecgfed.papers.table import Protocol, Reduction, Setting, Table, read_cell
from ecgfed.tasks.reproduce import PAPERS

#: Rows in the order of table 1 of Fed-RoD; ``-`` a dash, ``?`` lost in the extract.
ROD = [
    *("FedAvg", "FedProx", "SCAFFOLD", "FedDyn", "MTL", "LG-FedAvg", "FedPer", "Per-FedAvg", "pFedMe", "Ditto"),
    *("FedFomo", "FedRep", "Local_only", "Fed-RoD_(linear)", "Fed-RoD_(hyper)", "Fed-RoD_(hyper)_+_FedDyn"),
]
#: setting -> G-FL GM, P-FL GM, P-FL PM, each down the rows.
ROD_1 = {
    "emnist Writers": (
        "97.0 97.0 97.1 97.3 75.4 80.1 93.3 95.1 96.3 97.0 80.5 95.0 - 97.3 97.3 97.4",
        "96.9 97.0 97.0 97.3 75.0 80.0 93.1 - 96.0 97.0 80.4 95.1 - 97.3 97.3 97.4",
        "97.2 97.0 97.1 97.3 85.6 95.6 97.2 97.0 97.1 97.4 95.9 97.5 64.2 97.5 97.5 97.5",
    ),
    "fashion-mnist Dir(0.1)": (
        "81.1 82.2 83.1 83.2 36.1 54.8 74.5 80.5 76.7 81.5 34.5 79.5 - 83.9 83.9 85.9",
        "81.0 82.3 83.0 83.2 36.0 54.5 74.4 - 76.7 81.5 34.3 80.1 - 83.9 83.9 85.7",
        "91.5 91.4 89.0 90.7 87.3 89.5 91.3 82.8 83.4 89.4 90.0 91.8 85.9 92.7 92.9 95.3",
    ),
    "fashion-mnist Dir(0.3)": (
        "83.4 84.5 85.1 86.1 53.1 66.8 79.9 84.1 79.0 83.3 70.1 80.6 - 86.3 86.3 87.5",
        "83.2 84.5 85.0 86.1 53.4 66.8 79.9 - 79.0 83.2 69.9 80.5 - 86.3 86.3 87.5",
        "90.5 89.7 90.4 91.5 78.3 84.4 90.4 86.7 83.4 90.1 89.6 90.5 85.0 94.5 94.8 94.6",
    ),
    "cifar10 Dir(0.1)": (
        "57.6 58.7 61.2 63.4 12.1 29.5 50.4 60.7 50.6 58.1 30.5 56.6 - 68.5 68.5 68.2",
        "57.1 58.9 60.8 63.9 12.7 28.8 50.2 - 50.7 58.3 31.2 56.2 - 68.5 68.5 68.2",
        "90.5 89.7 90.1 92.4 90.6 90.8 89.9 82.7 76.6 86.8 90.5 91.0 87.4 92.7 92.5 92.7",
    ),
    "cifar10 Dir(0.3)": (
        "68.6 69.9 71.1 72.5 ? ? 64.4 70.5 62.1 ? ? ? - 76.9 76.9 74.6",
        "69.4 69.8 71.5 73.2 13.7 46.2 64.5 - 61.7 69.8 45.1 67.5 - 76.8 76.8 74.6",
        "85.1 84.7 84.8 85.4 80.2 82.4 84.9 80.7 70.5 81.5 83.4 85.2 75.7 86.4 86.8 85.6",
    ),
    "cifar100 Dir(0.1)": (
        "41.8 41.7 42.3 43.0 9.5 23.5 37.6 39.0 38.6 41.7 35.4 40.7 - ? 45.9 ?",
        "41.6 41.6 42.1 43.0 9.3 23.4 37.6 - 38.5 41.8 35.3 40.7 - 45.8 45.8 46.2",
        "70.2 70.4 70.4 72.0 60.7 66.7 71.0 66.6 63.0 68.5 68.9 71.5 40.0 72.2 72.3 72.5",
    ),
    "cifar100 Dir(0.3)": (
        "46.4 46.5 46.5 47.5 ? 34.5 40.3 44.5 41.4 46.4 ? ? - 48.5 48.5 48.4",
        "46.2 46.4 46.5 47.4 10.7 33.9 40.1 - 41.1 46.4 39.3 46.0 - 48.5 48.5 48.4",
        "61.7 61.5 61.7 62.5 49.9 55.4 62.5 58.9 53.4 58.8 58.4 62.1 32.5 62.3 62.5 62.5",
    ),
}
#: Table 2 and 3, down the rows.
ROD_2 = ("85.4 68.6 76.8 76.8 76.9 76.9", "85.4 69.4 76.7 76.7 76.8 76.8", "- 85.1 76.1 84.5 86.4 86.8")
ROD_3 = ("68.6 65.8 75.7 75.2 76.9", "69.4 65.8 75.9 75.0 76.8", "85.1 80.1 83.3 85.1 86.8")
#: Table 12, its rows that table 1 does not have.
ROD_12_ROWS = ("Fed-RoD (hyper) + FedProx", "Fed-RoD (hyper) + SCAFFOLD", "FedAvg + Meta", "Fed-RoD (Meta-BSM)")
ROD_12 = {
    "fashion-mnist Dir(0.1)": ("83.3 84.3 83.1 86.4", "83.3 84.3 83.1 86.4", "93.8 94.8 91.5 94.8"),
    "fashion-mnist Dir(0.3)": ("85.8 88.0 84.4 89.1", "85.7 88.0 84.3 89.1", "? ? 90.5 94.8"),
    "cifar10 Dir(0.1)": ("? ? 58.7 72.5", "? ? 58.9 72.5", "? ? 90.5 92.8"),
    "cifar10 Dir(0.3)": ("? ? 69.2 80.1", "? ? 69.2 80.1", "? ? 85.3 86.6"),
}
#: FedABC, row by row as printed: data and alpha, then the nine methods.
ABC_ROWS = ("Local only", "FedAvg", "FedProx", "Scaffold", "LG FedAvg", "FedPer", "FedRep", "FedRod", "FedABC")
ABC = {
    1: {
        "mnist Dir(0.1)": "97.1 99.1 98.4 99.3 99.2 99.1 98.9 99.3 99.3",
        "mnist Dir(0.3)": "93.3 98.3 97.1 98.6 98.2 98.2 97.8 98.7 98.7",
        "mnist Dir(0.5)": "92.1 98.1 96.9 98.5 98.1 98.0 97.6 98.6 98.5",
        "mnist Dir(1.0)": "90.6 98.0 96.9 98.4 98.1 98.1 97.4 98.5 98.7",
        "cifar10 Dir(0.1)": "86.0 91.0 91.1 91.2 88.7 90.2 90.4 90.5 91.0",
        "cifar10 Dir(0.3)": "72.4 82.1 82.2 81.9 76.6 81.2 81.4 82.2 83.3",
        "cifar10 Dir(0.5)": "67.8 79.8 79.3 79.5 72.8 78.8 79.1 79.8 81.1",
        "cifar10 Dir(1.0)": "83.7 74.1 73.8 74.0 63.7 72.5 73.4 74.1 76.1",
    },
    2: {
        "mnist Dir(0.1)": "29.2 43.7 39.4 76.8 43.9 43.7 42.9 66.9 76.5",
        "mnist Dir(0.3)": "44.2 68.2 62.2 90.2 68.1 68.2 66.3 85.4 91.1",
        "mnist Dir(0.5)": "58.0 78.7 74.0 94.0 78.7 78.8 77.1 90.8 95.1",
        "mnist Dir(1.0)": "69.5 87.6 84.9 97.0 87.6 87.6 86.4 95.3 97.2",
        "cifar10 Dir(0.1)": "16.7 37.0 37.8 39.6 20.6 38.6 23.5 31.5 34.5",
        "cifar10 Dir(0.3)": "23.3 56.4 56.3 56.1 32.1 42.0 41.6 51.4 54.7",
        "cifar10 Dir(0.5)": "25.6 60.0 59.9 60.0 35.4 47.0 46.5 55.5 59.0",
        "cifar10 Dir(1.0)": "14.4 64.8 64.2 65.2 39.7 52.7 53.8 61.5 64.0",
    },
}
#: GRP-FED, column by column: mean and deviation down the rows, MIT-BIH, then CIFAR-10.
GRP_ROWS = ("Local", "FedAvg", "AFL", "q-FFL", "per-FedAvg", "pFedMe", "LG-FedAvg", "GRP-FED")
GRP = {
    "mitbih MIT-BIH": (
        ((0.075, 0.334, 0.506, 0.551, 0.378, 0.290, 0.343, 0.569), (9, 46, 18, 34, 30, 11, 34, 4)),
        ((0.140, 0.407, 0.503, 0.534, 0.424, 0.288, 0.286, 0.553), (1, 44, 23, 6, 22, 12, 10, 11)),
        ((0.933, 0.684, 0.606, 0.602, 0.799, 0.850, 0.964, 0.864), (5, 11, 42, 33, 4, 6, 7, 22)),
        ((0.076, 0.334, 0.506, 0.551, 0.310, 0.178, 0.169, 0.424), (1, 46, 18, 1, 24, 1, 6, 7)),
    ),
    "cifar10 CIFAR-10": (
        ((0.214, 0.462, 0.495, 0.563, 0.525, 0.406, 0.503, 0.578), (22, 6, 4, 3, 21, 10, 25, 1)),
        ((0.290, 0.482, 0.496, 0.530, 0.490, 0.414, 0.499, 0.552), (5, 4, 6, 7, 14, 7, 15, 10)),
        ((0.396, 0.518, 0.510, 0.510, 0.550, 0.503, 0.676, 0.611), (9, 1, 9, 9, 12, 14, 17, 10)),
        ((0.235, 0.462, 0.495, 0.563, 0.453, 0.356, 0.403, 0.516), (3, 6, 4, 3, 17, 10, 14, 7)),
    ),
}


def setting(table: Table, name: str) -> Setting:
    (found,) = (one for one in table.settings if f"{one.data} {one.name}" == name)
    return found


def check(table: Table, name: str, rows: tuple[str, ...] | list[str], columns: tuple[str, ...]) -> None:
    by_name = {row.name: row for row in table.rows}
    for column, texts in enumerate(columns):
        for row, text in zip(rows, texts.split(), strict=True):
            found = by_name[row.replace("_", " ")].cells(setting(table, name))[column]
            assert found == read_cell(text), (name, row, column)


@pytest.mark.parametrize("name", ROD_1)
def test_fed_rod_table_1(name: str) -> None:
    table = fed_rod.PAPER.tables[1]
    assert [row.name for row in table.rows] == [row.replace("_", " ") for row in ROD]
    check(table, name, ROD, ROD_1[name])


def test_fed_rod_tables_2_and_3() -> None:
    for number, columns in ((2, ROD_2), (3, ROD_3)):
        table = fed_rod.PAPER.tables[number]
        check(table, "cifar10 Dir(0.3)", [row.name for row in table.rows], columns)


@pytest.mark.parametrize("name", ROD_12)
def test_fed_rod_table_12(name: str) -> None:
    table = fed_rod.PAPER.tables[12]
    check(table, name, ROD_12_ROWS, ROD_12[name])
    shared = [row.name for row in table.rows if row.name not in ROD_12_ROWS]
    assert len(shared) == 7
    for row in shared:
        place = [one.replace("_", " ") for one in ROD].index(row)
        check(table, name, [row], tuple(column.split()[place] for column in ROD_1[name]))


@pytest.mark.parametrize("number", ABC)
def test_fedabc(number: int) -> None:
    table = fedabc.PAPER.tables[number]
    for name, values in ABC[number].items():
        check(table, name, ABC_ROWS, (values,))
    assert len(table.settings) == len(ABC[number])


@pytest.mark.parametrize("name", GRP)
def test_grp_fed(name: str) -> None:
    table = grp_fed.PAPER.tables[1]
    by_name = {row.name: row for row in table.rows}
    for column, (means, deviations) in enumerate(GRP[name]):
        for row, mean, deviation in zip(GRP_ROWS, means, deviations, strict=True):
            cell = by_name[row].cells(setting(table, name))[column]
            assert (cell.mean, cell.sd) == (mean, pytest.approx(deviation / 1000)), (row, column)


def test_every_table_of_the_issue_is_there() -> None:
    numbers = {name: sorted(paper.tables) for name, paper in PAPERS.items()}
    assert numbers == {"grp-fed": [1], "fed-rod": [1, 2, 3, 12], "fedabc": [1, 2]}


def test_protocols_as_printed() -> None:
    """Fed-RoD section 5 and appendix C; FedABC's setup; GRP-FED section 4.1, in the words of the papers."""
    rod = fed_rod.CIFAR
    assert (rod.rounds, rod.local_epochs, rod.batch_size, rod.lr_decay, rod.crop_pixels) == (100, 5, 40, 0.99, 2)
    assert rod.sgd == {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5}
    assert (rod.clients_per_round, fed_rod.FASHION.clients_per_round) == (8, 20)  # 40% of 20, 20% of 100
    assert (fed_rod.EMNIST.batch_size, fed_rod.FASHION.crop_pixels, rod.seeds) == (16, 0, 5)
    assert fed_rod.HYPERNETWORK.by_data["cifar10"]["hidden"] == 32
    abc = fedabc.CIFAR10
    assert (abc.rounds, abc.local_epochs, abc.batch_size, abc.clients_per_round) == (200, 5, 64, 10)
    assert (fedabc.MNIST.rounds, fedabc.MNIST.sgd["lr"], abc.sgd["momentum"]) == (100, 0.01, 0.9)
    for protocol in (one.protocol for one in grp_fed.PAPER.tables[1].settings):
        assert (protocol.local_epochs, protocol.batch_size) == (5, 64)
        assert protocol.sgd == {"lr": 0.005, "momentum": 0.9}


def test_how_reduced_differs_is_what_is_done() -> None:
    full = Protocol("1", "convnet3", 100, 5, 40, {"lr": 0.1}, Reduction(50, 2, examples=10_000), seeds=5)
    assert full.differences("full") == ()
    assert full.differences("reduced") == (
        "10,000 training and 2,000 test examples, not all", "50 rounds, not 100", "2 local epochs, not 5",
        "1 seed, not 5",
    )  # fmt: skip
