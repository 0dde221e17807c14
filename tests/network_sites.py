"""A small cohort, divided among three sites: fixtures of ``tests/network``, which ``conftest.py`` takes from here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ecgfed
from ecgfed.domain.cohort.cohort import Cohort, open_cohort

NODES = (11, 12, 13)
NAMES = {node: str(place + 1) for place, node in enumerate(NODES)}


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """Seven synthetic patients: sites of two, two and three."""
    return ecgfed.prepare_demo(tmp_path_factory.mktemp("whole") / "cohort", patients=7, minutes=1.5)


@pytest.fixture(scope="session")
def parts(whole: Cohort, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The cohort of each site."""
    from ecgfed.network.partition import partition_cohort

    folders = [tmp_path_factory.mktemp("parts") / "cohort" for _ in NODES]
    partition_cohort(whole, folders)
    return folders


@dataclass
class Federation:
    """A server's folder, sites, and a grid between them."""

    server: Path
    sites: list[Path]
    grid: Any
    said: list[str]

    def serve(self) -> Any:
        from ecgfed.network.server_run import serve

        return serve(self.server, self.grid, dict(NAMES), self.said.append)


@pytest.fixture
def federation(parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Federation]:
    """Make a federation of three sites; its end is cut short unless ``end`` is asked for."""

    def make(method: str, *, end: bool = False, name: str = "", **asked: Any) -> Federation:
        from grid import GridHere

        from ecgfed.network import client_app
        from ecgfed.network.config import FederationConfig
        from ecgfed.network.limits import SiteOptions
        from ecgfed.network.server_folder import make_server
        from ecgfed.network.site_folder import make_site
        from ecgfed.network.site_results import EndScores

        folder = tmp_path / (name or method)
        make_server(folder / "server", FederationConfig(3, method, **asked))
        sites = [folder / f"site-{number}" for number in NAMES.values()]
        for site, cohort in zip(sites, parts, strict=True):
            make_site(site, cohort, SiteOptions(numbers="cohort"))
        if not end:  # scoring and exporting have tests of their own
            monkeypatch.setattr(client_app, "end_run", lambda *_: EndScores(1, 0.5, 0.5))
        return Federation(folder / "server", sites, GridHere(dict(zip(NODES, sites, strict=True))), [])

    return make


@pytest.fixture
def alone(whole: Cohort, tmp_path: Path) -> Callable[..., Any]:
    """Train on this machine alone, on the whole cohort."""

    def train(method: str, **wish: Any) -> Any:
        return ecgfed.train(whole, tmp_path / f"{method}-alone", method=method, engine="threads", eval_every=0, **wish)

    return train


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for replies without a pause."""
    from ecgfed.network import messenger

    monkeypatch.setattr(messenger, "POLL_S", 0.0)
    monkeypatch.setattr(messenger, "CHECK_S", 0.0)


@pytest.fixture
def unheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer at once where a site with a privacy budget would wait for the end of a time class."""
    from ecgfed.network import private_answers

    monkeypatch.setattr(private_answers, "sleep", lambda seconds: None)


@pytest.fixture
def without(alone: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Train on one machine, with some patients left out of some rounds."""
    import numpy as np

    from ecgfed.core.federation import train as training

    def train(method: str, missing: dict[int, tuple[int, ...]], **wish: Any) -> Any:
        chosen = training.participants

        def fewer(plan: Any, clients: Any, number: int) -> Any:
            return np.array([one for one in chosen(plan, clients, number) if one not in missing.get(number, ())])

        monkeypatch.setattr(training, "participants", fewer)
        run = alone(method, **wish)
        monkeypatch.setattr(training, "participants", chosen)
        return run

    return train


@pytest.fixture
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score and export at a site's end without work: scores that anybody knows, a bundle that says of which run."""
    from types import SimpleNamespace

    from ecgfed.base.files import replacing_folder, write_text
    from ecgfed.network import site_results

    def exported(result: Path, bundle: Path, **more: Any) -> None:
        with replacing_folder(bundle, overwrite=more.get("overwrite", False)) as folder:
            write_text(folder / "manifest.json", (result / "delivered.json").read_text())

    monkeypatch.setattr(site_results, "evaluate", lambda *_, **more: SimpleNamespace(T_g=0.5, T_p=0.25))
    monkeypatch.setattr(site_results, "export", exported)


@pytest.fixture
def cohort_of(parts: list[Path]) -> Callable[[int], Cohort]:
    """Open a site's cohort."""
    return lambda place: open_cohort(parts[place])
