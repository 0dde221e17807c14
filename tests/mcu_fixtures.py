"""A small trained model, its C sources, and the program made of them; once for all tests of ``tests/mcu``."""

from functools import cache
from pathlib import Path

import pytest
from conftest import train_run
from mcu_sources import SANITIZED, build

from ecgfed.core.runs.run import open_run
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.sources import PrepareOptions
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.exports.device.classifier import Classifier
from ecgfed.tasks.export_mcu import export_mcu


@cache
def _run(records: Path, folder: Path) -> Path:
    options = PrepareOptions(beats=BeatOptions(peaks="annotated", rr_version=1))
    build_cohort(folder_sources(records), folder / "mcu-cohort", options, kind="folder", workers=1)
    return train_run(folder / "mcu-cohort", folder / "mcu-run", rounds=8)


@cache
def _sources(run: Path) -> Path:
    return export_mcu(run, run.parent / "mcu-sources", int8_loss=1.0).path


@cache
def _classifier(run: Path) -> Classifier:
    opened, out = open_run(run), run.parent / "mcu-bundle"
    cohort = open_cohort(run.parent / "mcu-cohort")
    export_bundle(opened, cohort, opened.state(), out, global_only=True, int8=Int8Rule(loss=1.0))
    return open_bundle(out).classifier(int8=True)


@cache
def _program(sources: Path) -> Path:
    return build(sources, sources.parent / "mcu-driver", "gcc", *SANITIZED)


@pytest.fixture(scope="session")
def mcu_run(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FedAvg run on the synthetic patients with RR features of version 1."""
    return _run(records, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def sources(mcu_run: Path) -> Path:
    """The C sources of the run's global model."""
    return _sources(mcu_run)


@pytest.fixture(scope="session")
def int8_classifier(mcu_run: Path) -> Classifier:
    """The same model in Python: the int8 graphs of a bundle of the run."""
    return _classifier(mcu_run)


@pytest.fixture(scope="session")
def program(sources: Path) -> Path:
    """The driver, compiled with gcc and its sanitizers."""
    return _program(sources)
