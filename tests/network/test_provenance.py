"""A federated model says so: run, sites, their patients, beats, leads, sampling rates, databases and versions."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import ecgfed
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.split import TRAIN
from ecgfed.domain.cohort.writer import CohortWriter
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.network.limits import SiteOptions
from ecgfed.network.partition import _RECOMPUTED
from ecgfed.network.site_events import MESSAGES
from ecgfed.network.site_folder import make_site
from ecgfed.tasks.report_model import model_rows

pytestmark = pytest.mark.usefixtures("at_once")
RATES = (360.0, 128.0, 250.0)
LEADS = ("MLII", "ECG1", "V5")
KINDS = ("mitbih", "svdb", "folder")
DATABASES = [
    "MIT-BIH Arrhythmia Database 1.0.0",
    "MIT-BIH Supraventricular Arrhythmia Database 1.0.0",
    "own recordings",
]


def restated(source: Path, target: Path, lead: str, rate: float, kind: str) -> Path:
    """Write a cohort again as if its recordings had another lead, rate and origin."""
    cohort = open_cohort(source)
    meta = {name: value for name, value in cohort.meta.items() if name not in _RECOMPUTED}
    records = [{**record, "lead": lead, "fs_hz": rate} for record in meta["records"]]
    target.mkdir(parents=True)
    with CohortWriter(target, rr_version=cohort.rr_version) as writer:
        writer.append(**{name: np.array(array) for name, array in cohort.arrays.items()})
        writer.finish({**meta, "kind": kind, "leads": [lead], "records": records})
    return target


@pytest.fixture
def made(federation: Callable[..., Any], parts: list[Path], tmp_path: Path) -> Any:
    """Three sites with different recordings, to the end."""
    import shutil

    made = federation("grp-fed", rounds=2, local_steps=1, end=True)
    for site, cohort, lead, rate, kind in zip(made.sites, parts, LEADS, RATES, KINDS, strict=True):
        shutil.rmtree(site)
        stated = restated(cohort, tmp_path / "stated" / site.name, lead, rate, kind)
        make_site(site, stated, SiteOptions(numbers="cohort"))
    made.serve()
    return made


def test_manifest_card_report_and_warnings(made: Any, parts: list[Path]) -> None:
    cohorts = [open_cohort(part) for part in parts]
    counts = [[int(((one.client == c.index) & (one.split == TRAIN)).sum()) for c in one.clients] for one in cohorts]
    server = json.loads((made.server / "run" / "run.json").read_text())
    for number, site in enumerate(made.sites, 1):
        stated = open_bundle(site / "bundle").manifest["federation"]
        (order,) = (json.loads(path.read_text()) for path in (site / "runs").glob("*/order.json"))
        assert stated["run"] == order["run"] == server["federation"]["run"]
        assert stated["site"] == f"site {number}"
        assert [one["patients"] for one in stated["sites"]] == list(map(len, counts))
        assert [one["training_examples"] for one in stated["sites"]] == list(map(sum, counts))
        assert [one["leads"] for one in stated["sites"]] == [[lead] for lead in LEADS]
        assert [one["recorded_hz"] for one in stated["sites"]] == [[rate] for rate in RATES]
        assert [name for one in stated["sites"] for name in one["databases"]] == DATABASES
        assert {one["version"] for one in stated["sites"]} == {ecgfed.__version__}
        card, data = (site / "bundle" / "CARD.md").read_text(), json.loads((site / "bundle" / "card.json").read_text())
        assert data["federation"] == stated
        total = sum(map(sum, counts))
        for text in (stated["run"], "grp-fed at 3 sites, 7 patients", f"{total:,} training examples", *LEADS):
            assert text in card, card
    assert "Cite Greenwald" in (made.sites[1] / "bundle" / "CARD.md").read_text()
    rows = dict(model_rows(open_bundle(made.sites[2] / "bundle"), None))
    assert all(text in rows["Trained on"] for text in ("3 sites", stated["run"][:16], "lead ECG1", "128 Hz"))
    # both sides are warned of what differs
    leads = "the sites have different leads"
    assert any(leads in line and all(lead in line for lead in LEADS) for line in made.said)
    for site in made.sites:
        told = (site / MESSAGES).read_text()
        assert f"warning: {leads}: site 1 MLII; site 2 ECG1; site 3 V5" in told
        assert "different versions" not in told


def test_names_of_sites(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1, end=True, site_names="names")
    made.serve()
    stated = open_bundle(made.sites[0] / "bundle").manifest["federation"]
    assert [one["name"] for one in stated["sites"]] == ["1", "2", "3"]


def test_another_version_at_a_site(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)

    def older(kind: str, node: int, content: Any) -> Any:
        if kind == "query.hello" and node == 12:
            content.config_records["say"]["version"] = "0.2"
        return content

    made.grid.spoil = older
    made.serve()
    assert any("different versions of ecgfed" in line and "2 0.2" in line for line in made.said)
    assert all("different versions of ecgfed" in (site / MESSAGES).read_text() for site in made.sites)


@pytest.mark.parametrize(
    "stated",
    [
        {"version": "0.3\n"},
        {"leads": ["x" * 300]},
        {"leads": [str(number) for number in range(100)]},
        {"recorded_hz": [-1.0]},
        {"recorded_hz": [float("nan")]},
        {"databases": ["\x1b[2J"]},
    ],
)
def test_what_no_site_may_state(stated: dict[str, Any], federation: Callable[..., Any]) -> None:
    """It would stand in every site's models."""
    from ecgfed.network.errors import NetworkError

    made = federation("fedavg", rounds=1, local_steps=1)

    def hostile(kind: str, node: int, content: Any) -> Any:
        if kind == "query.hello" and node == 12:
            content.config_records["say"].update(stated)
        return content

    made.grid.spoil = hostile
    with pytest.raises(NetworkError, match="no valid provenance"):
        made.serve()


def test_a_lead_named_as_a_person_stays(parts: list[Path], tmp_path: Path) -> None:
    from ecgfed.network.provenance import provenance_of

    cohort = open_cohort(restated(parts[0], tmp_path / "named", "Jane Doe 1950", 250.0, "folder"))
    assert provenance_of(cohort)["leads"] == ["other"]


def test_a_server_that_misstates_a_site(federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand in the site's own bundle; the model of the others' is theirs to check."""
    from ecgfed.network import server_run
    from ecgfed.network.errors import NetworkError

    made = federation("fedavg", rounds=1, local_steps=1, end=True)
    honest = server_run.run_spec_for

    def lies(*given: Any, **more: Any) -> Any:
        spec = honest(*given, **more)
        return replace(spec, sites=[{**site, "patients": 100} for site in spec.sites])

    monkeypatch.setattr(server_run, "run_spec_for", lies)
    with pytest.raises(NetworkError, match="refused"):
        made.serve()
    assert "states other patients or training examples" in (made.sites[0] / "log.txt").read_text()
    assert not (made.sites[0] / "bundle").exists()
