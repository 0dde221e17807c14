"""What predictions say against themselves: each code where it is due, and nowhere else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from support import Command, Recorder, assert_refused, change_manifest, copied, exported, manifest_of

import ecgfed
from ecgfed.base.errors import BundleError
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.prediction_warnings import CODES, _reliability_warnings

OLD = Path(__file__).parents[1] / "data" / "version-0.1"


def codes(found: Any) -> list[str]:
    return [one.code for one in found.warnings]


@pytest.fixture
def bundle(fedavg_run: Path) -> Path:
    """Of the four patients of the session, who are no demo: for a test they count as people."""
    return exported(fedavg_run)


def predicted(bundle: Path, record: Path, **options: Any) -> Any:
    return ecgfed.predict(bundle, record, progress=Recorder(), **options)


def test_what_a_bundle_says_of_its_training(bundle: Path, cohort_path: Path) -> None:
    manifest = manifest_of(bundle)
    cohort, told = json.loads((cohort_path / "cohort.json").read_text()), manifest["trained_on"]
    label, split, client = (np.load(cohort_path / f"{name}.npy") for name in ("label", "split", "client"))
    counts = [int(((label == number) & (split == 0)).sum()) for number in range(len(cohort["classes"]))]
    assert list(told["class_counts"].values()) == counts
    files = [file for one in cohort["records"] for file in one["sha256"].items()]
    assert told["recordings"] == sorted(digest for name, digest in files if name.endswith((".dat", ".atr")))
    assert told["synthetic"] is False
    for number, one in enumerate(cohort["clients"]):
        own = np.unique(label[(client == number) & (split == 0)])
        assert manifest["patients"][one["id"]]["classes"] == [cohort["classes"][n] for n in own]


def test_every_doubt_is_one_of_the_codes_and_stands_in_the_json(bundle: Path, records: Path, tmp_path: Path) -> None:
    found = predicted(bundle, records / "p1", leads="V1", patient="p2")
    assert set(codes(found)) <= set(CODES)
    assert found.metadata["warnings"] == [{"code": one.code, "text": one.text} for one in found.warnings]
    found.save(tmp_path)
    assert json.loads((tmp_path / "p1.json").read_text())["warnings"] == found.metadata["warnings"]
    with pytest.raises(AttributeError):
        found.warnings[0].text = "something else"
    assert all(one.text.endswith((".", "?")) and "\n" not in one.text for one in found.warnings)


def test_a_new_patient_on_the_models_own_lead(bundle: Path, tmp_path: Path) -> None:
    """What is left to say is what the model was never shown; without P waves the rhythm may be fibrillation."""
    record = write_record(tmp_path, "new", "NNNNV" * 8, seed=70)
    found = predicted(bundle, record)
    assert set(codes(found)) <= {"never-seen-classes", "far-beats", "uncertain-beats", "fibrillation"}
    (never,) = [one for one in found.warnings if one.code == "never-seen-classes"]
    assert "R, /, F, f, j, a and 2 more" in never.text


@pytest.mark.parametrize(
    ("uncertain", "text"), [(2, "% of beats as sure as the rest were right"), (6, "is not known"), (10, "(100%) are ")]
)
def test_what_is_known_of_the_beats_that_are_not_uncertain(bundle: Path, uncertain: int, text: str) -> None:
    """Nothing where there are none; and no share that was measured on other beats where most are uncertain."""
    probability = np.full((10, 5), 0.2, np.float32)
    low = np.arange(10) < uncertain
    none = np.zeros(10, np.bool_)
    of = Predictions(np.zeros(10, np.int64), probability, np.zeros(10, np.uint8), tuple("NSVFQ"), np.arange(10), 360.0)
    of = replace(of, out_of_distribution=none, low_confidence=low)
    [warning] = _reliability_warnings(open_bundle(bundle), of, None, familiar=True)
    assert text in warning.text
    assert ("right" in warning.text) is (uncertain < 10)


@pytest.mark.parametrize(
    ("lead", "code"), [("MLII", None), ("mlii", None), ("II", "modified-lead"), ("V5", "other-lead")]
)
def test_the_lead(bundle: Path, tmp_path: Path, lead: str, code: str | None) -> None:
    record = write_record(tmp_path, "r", "N" * 30, seed=3, leads=(lead, "V1"))
    found = predicted(bundle, record, leads=lead)
    assert [one for one in codes(found) if one.endswith("-lead")] == ([] if code is None else [code])


def test_a_lead_that_gave_training_examples_alone(bundle: Path, tmp_path: Path) -> None:
    trained = copied(bundle, tmp_path / "bundle")
    change_manifest(trained, trained_on={**manifest_of(trained)["trained_on"], "other_leads": {"V5": 7}})
    record = write_record(tmp_path, "r", "N" * 30, seed=3, leads=("aVF", "V5"))
    assert "other-lead" in codes(predicted(trained, record, leads="aVF"))
    found = predicted(trained, record, leads="V5")
    assert {"other-lead", "lead-not-scored"} & set(codes(found)) == {"lead-not-scored"}
    change_manifest(trained, trained_on={**manifest_of(trained)["trained_on"], "other_leads": {"V5": "many"}})
    with pytest.raises(BundleError):
        predicted(trained, record)


def test_another_sampling_frequency(bundle: Path, tmp_path: Path) -> None:
    found = predicted(bundle, write_record(tmp_path, "r", "N" * 30, fs_hz=250.0))
    (said,) = [one for one in found.warnings if one.code == "resampled"]
    assert "250 Hz" in said.text
    assert "360 Hz" in said.text


def test_seconds_that_cannot_be_used(bundle: Path, tmp_path: Path) -> None:
    signal, _ = synthetic_signal("N" * 40, seed=4)
    signal[3600:5400] = signal[3600]  # a flat line of 5 s
    wfdb.wrsamp("r", 360, ["mV"], ["MLII"], signal[:, None], fmt=["16"], write_dir=str(tmp_path))
    found = predicted(bundle, tmp_path / "r")
    (said,) = [one for one in found.warnings if one.code == "unusable-seconds"]
    lost_s = found.metadata["duration_s"] - found.metadata["usable_s"]
    assert 4.5 < lost_s < 6.5
    assert f": {lost_s:.1f} of {found.metadata['duration_s']:.1f} s cannot be used;" in said.text
    poor = sum(map(bool, found.poor))
    beats = "1 beat" if poor == 1 else f"{poor} beats"
    assert said.text.startswith(f"The windows of {beats} reach into stretches of poor quality (flat 5")


@pytest.mark.parametrize("where", ["header", "annotation", "denied", "nowhere"])
def test_a_pacemaker(bundle: Path, tmp_path: Path, where: str) -> None:
    comments = {"header": ["Anna is paced with a demand pacemaker"], "denied": ["no pacemaker"]}.get(where)
    record = write_record(tmp_path, "r", "N" * 30, comments=comments, annotate=False)
    if where == "annotation":
        _, r_samples = synthetic_signal("N" * 30)
        wfdb.wrann("r", "atr", r_samples, ["/"] * 30, write_dir=str(tmp_path))
    said = [one for one in predicted(bundle, record).warnings if one.code == "paced"]
    assert len(said) == (where in ("header", "annotation"))
    assert all("Anna" not in one.text and one.severe for one in said), "a header's words are no part of a prediction"


def test_an_annotation_that_nobody_asked_for_may_be_broken(bundle: Path, tmp_path: Path) -> None:
    record = write_record(tmp_path, "r", "N" * 30)
    record.with_suffix(".atr").write_bytes(b"\xff" * 7)
    assert "paced" not in codes(predicted(bundle, record))


def test_who_took_part(bundle: Path, records: Path, tmp_path: Path) -> None:
    """The very file under another name, a patient's own model, or a patient's name; and nobody else."""
    for end in ("hea", "dat"):
        text = (records / f"p1.{end}").read_bytes()
        (tmp_path / f"other.{end}").write_bytes(text.replace(b"p1", b"other") if end == "hea" else text)
    new = write_record(tmp_path, "new", "N" * 30, seed=71)
    same_name = write_record(tmp_path, "p3", "N" * 30, seed=72)
    said = {}
    for name, record, patient in (
        ("file", tmp_path / "other", None),
        ("patient", new, "p1"),
        ("name", same_name, None),
        ("nobody", new, None),
    ):
        found = predicted(bundle, record, patient=patient)
        said[name] = [one.text for one in found.warnings if one.code == "took-part"]
    assert [len(one) for one in said.values()] == [1, 1, 1, 0]
    assert "this very recording" in said["file"][0]
    assert "Patient p1" in said["patient"][0]
    assert "named p3" in said["name"][0]


def test_a_class_that_the_patient_never_had(local_run: Path, records: Path) -> None:
    """p4 had nothing but N; whatever else its model says is new."""
    bundle = exported(local_run)
    for record in ("p1", "p3"):
        found = predicted(bundle, records / record, patient="p2")
        new = {name: n for name, n in found.counts.items() if n and name not in ("N", "A")}
        said = [one.text for one in found.warnings if one.text.startswith("Predicted, although p2")]
        assert len(said) == bool(new)
        assert all(f"{count} {name}" in said[0] for name, count in new.items())


def test_a_model_of_synthetic_patients_is_refused(ecgfed: Command, tmp_path: Path) -> None:
    record = write_record(tmp_path / "records", "real", "N" * 40)
    command = ("predict", OLD / "bundle", record, "--out", tmp_path / "out")
    assert_refused(ecgfed(*command), str(OLD / "bundle"), "synthetic patients alone", "real is not one", "--force")
    assert not (tmp_path / "out").exists()
    with pytest.raises(BundleError, match=r"pass force=True to predict"):
        predicted(OLD / "bundle", record)
    said = ecgfed(*command, "--force")
    assert said.code == 0
    assert "says nothing of a person's heart" in said.out
    assert "older ecgfed" in said.out
    told = json.loads((tmp_path / "out" / "real.json").read_text())["warnings"]
    assert {"synthetic-model", "unknown-training"} <= {one["code"] for one in told}
    assert predicted(OLD / "bundle", OLD / "recording" / "demo01").counts, "one of them is not refused"


def test_a_cohort_of_made_up_records_is_synthetic_whoever_prepares_it(tmp_path: Path) -> None:
    made = ecgfed.prepare_demo(tmp_path / "demo", patients=2, minutes=0.5)
    again = ecgfed.prepare_folder(tmp_path / "demo-records", tmp_path / "again", workers=1)
    assert [one["synthetic"] for cohort in (made, again) for one in cohort.meta["records"]] == [True] * 4
    from ecgfed.exports.bundles.training_metadata import training_metadata

    assert training_metadata(again, "nothing")["synthetic"] is True


def test_a_bundle_without_digests_says_that_it_cannot_tell(bundle: Path, records: Path, tmp_path: Path) -> None:
    manifest = manifest_of(bundle)
    nameless = copied(bundle, tmp_path / "nameless")
    change_manifest(nameless, trained_on={**manifest["trained_on"], "recordings": None})
    found = predicted(nameless, records / "p1")
    assert "unknown-training" in codes(found)
    assert "unknown-training" not in codes(predicted(bundle, records / "p1"))


def test_the_strip_has_room_for_what_is_said(bundle: Path, records: Path) -> None:
    """The paper stays true to scale; the page grows by the lines below it."""
    import io

    from PIL import Image

    found = predicted(bundle, records / "p1")
    from dataclasses import replace

    sizes = [
        Image.open(io.BytesIO(replace(found, warnings=said).strip(0.0))).size
        for said in ((), found.warnings[:1], found.warnings)
    ]
    assert sizes[0][0] == sizes[1][0] == sizes[2][0]
    assert sizes[1][1] - sizes[0][1] == pytest.approx(3.5 / 25.4 * 150, abs=1.5)
    assert len(found.warnings) >= 2
    assert sizes[2][1] > sizes[1][1]
