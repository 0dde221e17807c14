"""``reproduce``: every row of every table starts on tiny cohorts; a stopped run continues and ends equal."""

import gzip
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import cifar_source
import numpy as np
import pytest
import torch
from support import Command

import ecgfed as package
from ecgfed.core.config import TablePart
from ecgfed.core.federation.augment import CropAndFlip
from ecgfed.core.federation.own_functions import ExponentialDecay
from ecgfed.core.nets import paper_nets
from ecgfed.domain.cohort import cifar_files
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.papers.table import Protocol
from ecgfed.tasks import reproduce_data, reproduce_time
from ecgfed.tasks.prepare import prepare_demo
from ecgfed.tasks.reproduce import PAPERS, select
from ecgfed.tasks.reproduce_run import PaperRun, scores_of

#: Images of each part of the small files.
IMAGES = (240, 60)


def write_idx(folder: Path, seed: int = 0) -> Path:
    """MNIST's four files, small."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for name, count in zip(("train", "t10k"), IMAGES, strict=True):
        label = (np.arange(count) % 10).astype(np.uint8)
        images = rng.integers(0, 60, (count, 28, 28)) + 15 * label[:, None, None]
        header = struct.pack(">4I", 0x803, count, 28, 28)
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(header + images.astype(np.uint8).tobytes())
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + label.tobytes())
    return folder


def write_cifar100(folder: Path) -> None:
    """CIFAR-100's two binary files, small: coarse label, fine label, pixels."""
    rng = np.random.default_rng(0)
    (folder / "cifar-100-binary").mkdir(parents=True)
    for name, count in (("train", 5 * cifar_source.ROWS), ("test", cifar_source.ROWS)):
        fine = (np.arange(count) % 30).astype(np.uint8)  # test images of each class
        rows = np.concatenate([fine[:, None] // 5, fine[:, None], rng.integers(0, 256, (count, 3072), np.uint8)], 1)
        (folder / "cifar-100-binary" / f"{name}.bin").write_bytes(rows.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All data sets that can be read, small."""
    folder = tmp_path_factory.mktemp("data")
    cifar_source.write_binary(folder / "cifar10")
    write_idx(folder / "mnist")
    write_idx(folder / "fashion-mnist", 1)
    write_cifar100(folder / "cifar100")
    (folder / "mitdb").mkdir()
    return folder


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of one epoch on small files and few clients; MIT-BIH is three synthetic patients."""
    at = Protocol.at

    def small(protocol: Protocol, scale: str) -> Protocol:
        few = None if protocol.clients_per_round is None else 4  # all: LG-FedAvg averages what trained at least once
        return replace(at(protocol, scale), rounds=2, local_epochs=1, examples=None, seeds=1, clients_per_round=few)

    def demo(source: Path, out: Path, *, by: str, seed: int, progress: Any) -> Cohort:
        assert by == "record"
        return prepare_demo(out, patients=3, minutes=1, seed=seed, workers=1)

    prepare = reproduce_data.prepared_cohort

    def few_clients(setting: Any, *arguments: Any, **options: Any) -> Cohort:
        partition = dict(setting.partition)
        return prepare(
            replace(setting, partition={**partition, "clients": 4} if "clients" in partition else partition),
            *arguments,
            **options,
        )

    monkeypatch.setattr(cifar_files, "ROWS", cifar_source.ROWS)
    monkeypatch.setattr(Protocol, "at", small)
    monkeypatch.setattr(reproduce_data, "prepare_mitbih", demo)
    monkeypatch.setattr("ecgfed.tasks.reproduce.prepared_cohort", few_clients)


def cases() -> list[Any]:
    """Each row of each table once, in its first setting that can be read; rows of equal runs once."""
    found: dict[str, Any] = {}
    for paper, tables in ((name, one.tables) for name, one in PAPERS.items()):
        for number in tables:
            for setting in tables[number].settings:
                if not reproduce_data.DATA[setting.data].folder:
                    continue
                for run in select(paper, number, TablePart(data=setting.data, scale="reduced")).runs():
                    key = f"{paper} {setting.data} {run.row.method} {run.settings()} {run.row.personal}"
                    if run.setting.name == setting.name and setting.partition.get("alpha", 0.3) == 0.3:
                        slow = setting.data in ("cifar100", "fashion-mnist", "mnist") or run.protocol.net == "resnet30"
                        slow = slow or run.row.personal is not None  # 300 steps for each client
                        marks = [pytest.mark.slow] if slow else []
                        found.setdefault(key, pytest.param(paper, number, run, id=run.label, marks=marks))
    return list(found.values())


@pytest.mark.filterwarnings("ignore::ecgfed.EcgfedWarning")
@pytest.mark.parametrize(("paper", "number", "run"), cases())
def test_every_row_starts(paper: str, number: int, run: PaperRun, source: Path, tmp_path: Path) -> None:
    alpha = run.setting.partition.get("alpha")
    found = package.reproduce(
        paper,
        number,
        source=source,
        work=tmp_path,
        data=run.setting.data,
        alpha=None if alpha is None else float(alpha),
        rows=[run.row.name],
        scale="reduced",
        workers=1,
    )
    (line,) = found.lines
    unit = 100 if found.table.percent else 1
    assert all(0 <= score.values[0] <= unit for score in line.scores)
    assert all(
        score.difference == (None if score.printed.mean is None else score.values[0] - score.printed.mean)
        for score in line.scores
    )


@pytest.mark.filterwarnings("ignore::ecgfed.EcgfedWarning")
def test_a_stopped_run_continues_and_ends_equal(source: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "source": source, "data": "cifar10", "alpha": 0.3, "rows": ["FedAvg"], "scale": "reduced", "workers": 1
    }  # fmt: skip
    whole = package.reproduce("fed-rod", 1, work=tmp_path / "whole", **options).to_dict()
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return True

    half = package.reproduce("fed-rod", 1, work=tmp_path / "parts", should_stop=stop, **options)
    assert calls
    assert half.lines[0].scores[0].values == ()
    rest = package.reproduce("fed-rod", 1, work=tmp_path / "parts", **options).to_dict()
    for one in (whole, rest):
        one["rows"][0].pop("training_seconds")
    assert rest == whole
    again = package.reproduce("fed-rod", 2, work=tmp_path / "parts", **{**options, "rows": ["FedAvg"]})
    assert again.lines[0].scores[0].mean == whole["rows"][0]["scores"]["G-FL GM"]["mean"]  # the same run


@pytest.mark.filterwarnings("ignore::ecgfed.EcgfedWarning")
def test_the_command_prints_and_says_what_is_missing(ecgfed: Command, source: Path, tmp_path: Path) -> None:
    arguments = ("--table", 1, "--scale", "reduced", "--work", tmp_path / "w", "--workers", 1, "--json")
    done = ecgfed("reproduce", "fed-rod", *arguments, "--source", source, "--rows", "Local only", "--alpha", 0.3,
                  "--data", "cifar10")  # fmt: skip
    assert done.code == 0, done
    (row,) = json.loads(done.out)["rows"]
    assert row["scores"]["P-FL PM"]["paper"] == 75.7
    empty = ecgfed("reproduce", "fedabc", *arguments, "--source", tmp_path)
    assert empty.code == 0, empty
    assert [line.split(" is missing")[0] for line in json.loads(empty.out)["missing"]] == ["MNIST", "CIFAR-10"]
    refused = ecgfed("reproduce", "fed-rod", *arguments, "--source", tmp_path, "--data", "emnist")
    assert refused.code == 2
    for wrong in (("fed-rod", "--table", 4), ("fed-x", "--table", 1), ("fedabc", "--table", 1, "--alpha", 0.2)):
        assert ecgfed("reproduce", *wrong, "--source", source, "--work", tmp_path / "w").code == 2
    assert ecgfed("reproduce", "fed-rod", "--source", source).code == 2


def test_the_list_has_every_table_with_its_hours(ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A millisecond an example and FedAvg's arithmetic for every method, in place of a timing."""
    monkeypatch.setattr(reproduce_time._Timer, "_seconds_an_example", lambda self, run: 1e-3)
    monkeypatch.setattr(reproduce_time._Timer, "_cost", lambda self, run: 1.0)
    done = ecgfed("reproduce", "--list", "--json")
    assert done.code == 0, done.err
    lines = json.loads(done.out)["tables"]
    groups = [
        (paper.name, table.number, setting) for paper in PAPERS.values() for table in paper.tables.values()
        for setting in table.settings
    ]  # fmt: skip
    assert [(line["paper"], line["table"], line["setting"]) for line in lines] == [
        (paper, number, setting.name) for paper, number, setting in groups
    ]
    for line, (_, _, setting) in zip(lines, groups, strict=True):
        assert line["data"] == setting.data
        protocol = setting.protocol.at("full")
        assert line["seeds"] == {scale: setting.protocol.at(scale).seeds for scale in ("full", "reduced")}
        share = 1.0 if protocol.clients_per_round is None else protocol.clients_per_round / setting.partition["clients"]
        if line["rows"]:
            examples = protocol.examples or reproduce_time.TRAIN_EXAMPLES[setting.data]
            hours = protocol.rounds * share * examples * protocol.local_epochs * 1e-3 / 3600
            assert line["hours_a_seed"]["full"] >= 0.99 * hours  # a row's own rounds and metrics come on top
    text = ecgfed("reproduce", "--list")
    assert text.code == 0, text.err
    assert all(f"{paper} --table {number}" in text.out for paper, number, _ in groups)


def test_the_papers_measures_by_hand() -> None:
    """Two clients, two classes: Fed-RoD's equation 20 of the global model, and whose models are personal ones."""

    class Two:
        federation = (0, 1)

        @staticmethod
        def class_counts(client: int, split: int) -> Any:
            return np.array([[3, 1], [0, 4]][client])

    result: dict[str, Any] = {
        "scores": dict.fromkeys(("T_g", "T_l", "T_p", "T_r"), 0.5),
        "accuracies": {"G_FL": 0.7, "P_FL_expected": 0.1, "P_FL_split": 0.2, "drift": 0.3},
        "local_models": None,
        "confusion": [[9, 1], [4, 6]],  # recalls .9 and .6
    }
    of_method = scores_of(result, Two())  # type: ignore[arg-type]
    assert of_method["P_FL_GM"] == pytest.approx((0.75 * 0.9 + 0.25 * 0.6 + 0.6) / 2)
    assert (of_method["P_FL_PM"], of_method["P_FL_split"], of_method["drift"]) == (0.1, 0.2, 0.3)
    local = {"P_FL_expected": 0.4, "P_FL_split": 0.5, "drift": 0.6}
    of_local = scores_of({**result, "local_models": local}, Two())  # type: ignore[arg-type]
    assert (of_local["P_FL_PM"], of_local["P_FL_split"], of_local["drift"]) == (0.4, 0.5, 0.6)


def test_decay_and_crops() -> None:
    assert [ExponentialDecay(0.99)(number, 100) for number in (1, 2, 100)] == pytest.approx([1, 0.99, 0.99**99])
    images = np.arange(2 * 3 * 6 * 6, dtype=np.uint8).reshape(2, 3, 6, 6) + 1
    seen = set()
    for seed in range(200):
        varied = CropAndFlip(2)(images, np.random.default_rng(seed))
        padded = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
        for image, whole in zip(varied, padded, strict=True):
            places = [
                (top, left, flip)
                for top in range(5)
                for left in range(5)
                for flip in (False, True)
                if np.array_equal(image[:, :, ::-1] if flip else image, whole[:, top : top + 6, left : left + 6])
            ]
            assert len(places) == 1
            seen.update(places)
    assert len(seen) == 50


@pytest.mark.parametrize(
    ("net", "classes", "shape", "parameters"),
    [
        (paper_nets.DigitConvNet, 10, (1, 28, 28), 103_856),
        (paper_nets.CifarConvNet, 100, (3, 32, 32), 281_892),
        (paper_nets.DigitPerceptron, 10, (1, 28, 28), 785 * 260 + 261 * 200 + 201 * 10),
    ],
)
def test_parameters_of_the_nets(net: Any, classes: int, shape: tuple[int, ...], parameters: int) -> None:
    module = net(classes)
    assert sum(value.numel() for value in module.parameters()) == parameters
    assert module(torch.rand(2, *shape)).shape == (2, classes)
