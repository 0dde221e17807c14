"""``--personal``: what evaluate scores is what export writes and a device answers, for every personal answer."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import Command, assert_refused, change_json, copied, traced_once  # noqa: F401

import ecgfed as package
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import macro_f1
from ecgfed.core.federation.data import training_data
from ecgfed.core.personal.apply import PersonalModels
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.run import open_run

pytestmark = pytest.mark.usefixtures("quick_finetuning")
#: One of each kind of chain; what every one of them does: test_answers.py.
NAMES = ("masked", "head", "kernel", "gated", "knn", "finetune")


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_answers_as_was_scored(fedavg_run: Path, tmp_path: Path, name: str) -> None:
    run = open_run(fedavg_run)
    cohort, state = run.cohort(), run.state()
    bundle = package.export(run, tmp_path / "bundle", personal=name)
    assert bundle.manifest["personal"] == name
    scores = package.evaluate(run, personal=name, out=tmp_path / "scores", workers=1)
    found = scores.to_dict()
    assert found["personal"] == name
    answers = PersonalModels(run, state, personal_by_name(name), lambda: training_data(cohort, rr=run.net.spec.rr))
    for row, client in zip(found["per_patient"], cohort.federation, strict=True):
        rows = cohort.rows(client, 2)
        device = bundle.classifier(client.id)
        labels = device.logits(np.asarray(cohort.examples[rows]), cohort.rr[rows]).argmax(1)
        chain = answers.of(client.index)
        trained = Predictor(run.net, training_data(cohort, rr=run.net.spec.rr), rows, 1).labels(chain)
        assert (labels == trained).mean() > 0.99  # a tie may fall either way
        matrix = np.zeros((len(cohort.classes), len(cohort.classes)), np.int64)
        np.add.at(matrix, (cohort.label[rows], trained), 1)
        assert row["personal_f1"] == pytest.approx(macro_f1(matrix))


def test_scores_of_another_answer_lie_in_a_folder_of_their_own(
    fedavg_run: Path, tmp_path: Path, ecgfed: Command
) -> None:
    run = copied(fedavg_run, tmp_path / "run")
    assert ecgfed("evaluate", run).code == 0
    assert ecgfed("evaluate", run, "--personal", "gated").code == 0
    folders = sorted(path.name for path in run.glob("evaluation*"))
    assert folders == ["evaluation-test", "evaluation-test-gated"]
    told = [json.loads((run / name / "scores.json").read_text()) for name in folders]
    assert [one["personal"] for one in told] == ["method", "gated"]
    assert told[0]["scores"]["T_g"] == told[1]["scores"]["T_g"]
    assert told[0]["scores"]["T_p"] != told[1]["scores"]["T_p"]
    bundle = package.export(run, tmp_path / "bundle", personal="gated")  # its scores, not the other answer's
    assert bundle.manifest["scores"]["T_p"] == told[1]["scores"]["T_p"]


def test_what_cannot_be_is_said_in_one_line(local_run: Path, fedavg_run: Path, tmp_path: Path, ecgfed: Command) -> None:
    assert_refused(ecgfed("evaluate", fedavg_run, "--personal", "gate"), "--personal", "did you mean gated")
    assert_refused(
        ecgfed("evaluate", local_run, "--personal", "gated"), "local has no global model", "--personal method"
    )
    said = ecgfed("export", local_run, "--personal", "kernel", "--out", tmp_path / "bundle")
    assert_refused(said, "local has no global model")
    assert not (tmp_path / "bundle").exists()


def test_a_new_patient_gets_a_made_answer(fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    record = sorted(records.glob("*.hea"))[0].with_suffix("")
    model = package.personalize(
        fedavg_run, tmp_path / "bundle", record=record, minutes=0.5, patient="new", personal="gated"
    )
    assert "epochs" not in model.learned_from
    assert model.scores["beats"] > 0
    assert model.bundle.manifest["personal"] == "gated"


def test_a_bundle_of_an_unknown_chain_is_refused(fedavg_run: Path, tmp_path: Path) -> None:
    bundle = package.export(fedavg_run, tmp_path / "bundle", personal="gated")
    manifest = json.loads((bundle.path / "manifest.json").read_text())
    for about in manifest["files"].values():
        about["role"] = "extractor" if about["role"] == "describer" else about["role"]
    change_json(tmp_path / "bundle" / "manifest.json", files=manifest["files"])
    with pytest.raises(package.EcgfedError):
        package.open_bundle(tmp_path / "bundle")
